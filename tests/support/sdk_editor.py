"""An editor on the client's side of the official Python SDK."""

from __future__ import annotations

from typing import Any, cast

import acp
from acp import schema


class SdkEditor:
    """What the Python SDK calls on the editor's side; allows everything once."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.allowed = 0

    def as_client(self) -> acp.Client:
        """For the SDK, whose protocol names methods that an editor without them never gets."""
        return cast(acp.Client, self)

    def on_connect(self, agent: acp.Agent) -> None:
        """Nothing to remember."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.allowed += 1
        allowed = next(option for option in options if option.kind == "allow_once")
        chosen = schema.AllowedOutcome(option_id=allowed.option_id, outcome="selected")
        return schema.RequestPermissionResponse(outcome=chosen)
