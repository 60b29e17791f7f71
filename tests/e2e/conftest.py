"""The installed bridge, over pipes, against a demo gateway: its own, or one that the test holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from acp_bridge.demo.acp import AcpDemoGateway
from acp_bridge.demo.server import DemoGateway
from tests.support.acp_oracle import AcpOracle
from tests.support.editor import EditorProcess, agent_command, editor_environment

Start = Callable[..., EditorProcess]
GatewayKind = type[DemoGateway] | type[AcpDemoGateway]


@pytest.fixture(params=[DemoGateway, AcpDemoGateway], ids=["openclaw", "acp"])
def kind(request: pytest.FixtureRequest) -> GatewayKind:
    """Each kind of gateway that the demo has, for what holds with both."""
    chosen: GatewayKind = request.param
    return chosen


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home directory of the bridge, empty at first."""
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def demo(home: Path) -> Start:
    """``acp-bridge --demo``; not started yet."""

    def start(*options: str) -> EditorProcess:
        return EditorProcess(
            agent_command("--demo", *options), env=editor_environment(home), cwd=home
        )

    return start


@pytest.fixture
def acp(home: Path) -> Start:
    """``acp-bridge`` against a gateway that speaks ACP; not started yet."""

    def start(gateway: AcpDemoGateway | str, *options: str, **variables: str) -> EditorProcess:
        url = gateway if isinstance(gateway, str) else gateway.url
        return EditorProcess(
            agent_command("--url", url, *options),
            env=editor_environment(home, **variables),
            cwd=home,
            oracle=AcpOracle(extras=True),
        )

    return start


@pytest.fixture
def bridge(home: Path) -> Start:
    """``acp-bridge`` against a gateway of the test, or another URL; not started yet.

    It puts no working directory before prompts, so that a script sees what the editor sent.
    """

    def start(
        gateway: DemoGateway | AcpDemoGateway | str,
        *options: str,
        reads_stderr: bool = True,
        **variables: str,
    ) -> EditorProcess:
        url = gateway if isinstance(gateway, str) else gateway.url
        return EditorProcess(
            agent_command("--url", url, "--no-prefix-cwd", *options),
            env=editor_environment(home, **variables),
            cwd=home,
            reads_stderr=reads_stderr,
            oracle=AcpOracle(extras=url.endswith("/acp")),
        )

    return start
