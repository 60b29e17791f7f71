"""Real gateways for the tests, one a version for the whole run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests.real.fake_model import FakeModel
from tests.real.gateway import Gateway, RunningGateway
from tests.real.install import OPENCLAW_VERSIONS, Parts, install
from tests.support.editor import EditorProcess, agent_command, editor_environment
from tests.support.waits import scaled

Bridge = Callable[..., AbstractAsyncContextManager[EditorProcess]]

TURN = scaled(30.0)
"""Seconds for a turn: the first one of a fresh gateway takes six."""


@pytest.fixture(scope="session")
def parts() -> Parts:
    """Node, OpenClaw and acpx; a machine without them fails here, it does not skip."""
    return install()


@pytest.fixture(scope="session")
def model() -> Iterator[FakeModel]:
    with FakeModel() as server:
        yield server


@pytest.fixture(
    scope="session",
    params=[pytest.param(v, marks=pytest.mark.xdist_group(v)) for v in OPENCLAW_VERSIONS],
)
def shared_gateway(
    request: pytest.FixtureRequest,
    parts: Parts,
    model: FakeModel,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGateway]:
    """A running gateway; a start takes up to 16 s and its process up to 1.2 GB."""
    state = tmp_path_factory.mktemp(f"gateway-{request.param}")
    gateway = Gateway.prepare(parts, request.param, model.url, state)
    with gateway.run() as running:
        yield running


@pytest.fixture
def running(
    shared_gateway: RunningGateway, request: pytest.FixtureRequest
) -> Iterator[RunningGateway]:
    """The running gateway, to be ended and started again; what it logged during a failed test is
    shown with the failure."""
    place = shared_gateway.gateway
    before = len(place.log)
    if not shared_gateway.is_started:
        shared_gateway.start()
    yield shared_gateway
    request.node.add_report_section(
        "teardown", f"gateway {place.version}", place.log[before:][-6000:]
    )


@pytest.fixture
def gateway(running: RunningGateway) -> Gateway:
    """The place of the running gateway."""
    return running.gateway


@pytest.fixture
def bridge(gateway: Gateway, tmp_path: Path) -> Bridge:
    """Starts the installed bridge with a fresh home, against the gateway or another URL."""

    @asynccontextmanager
    async def start(
        *options: str, url: str = gateway.url, token_file: Path = gateway.token_file
    ) -> AsyncIterator[EditorProcess]:
        command = agent_command("--url", url, "--token-file", str(token_file), *options)
        environment = editor_environment(tmp_path / "home")
        async with EditorProcess(command, env=environment, cwd=tmp_path) as editor:
            yield editor

    (tmp_path / "home").mkdir()
    return start
