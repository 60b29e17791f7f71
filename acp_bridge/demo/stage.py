"""What a script may do with a run, whatever dialect the demo gateway speaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from acp_bridge.ids import Json


class Stage(Protocol):
    """A run, as the demo's agent sees it; both faces of the gateway have one."""

    message: str

    @property
    def session_key(self) -> str: ...

    @property
    def is_first(self) -> bool: ...

    @property
    def answer(self) -> str: ...

    async def sleep(self, seconds: float) -> None: ...

    def choose(self, changes: Json) -> None: ...

    async def text(self, chunk: str) -> None: ...

    async def thought(self, chunk: str) -> None: ...

    async def plan(self, steps: Sequence[tuple[str, str]], title: str = ...) -> None: ...

    async def tool_start(self, name: str, args: Json) -> str: ...

    async def tool_update(self, tool_call_id: str, output: str) -> None:
        """Show the whole output of a running tool so far, where the gateway does."""

    async def tool_end(
        self, tool_call_id: str, output: str, *, details: Json | None = None
    ) -> None: ...

    async def exec(self, command: str, output: str, *, cwd: str | None = None) -> bool: ...

    async def usage(self, total: int, *, context: int | None = None, output: int = 0) -> None: ...

    async def final_only(self, text: str) -> None: ...

    async def fail(self, message: str, *, detail: Json | None = None) -> None: ...
