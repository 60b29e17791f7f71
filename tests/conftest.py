"""What tests of several kinds need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from acp_bridge.logs import redaction

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registered secrets belong to the process, so each test starts without any."""
    monkeypatch.setattr(redaction, "_secrets", ())
    monkeypatch.setattr(redaction, "_long_secrets", ())


@pytest.fixture(autouse=True)
def no_configuration_of_this_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Profiles, and what OpenClaw's own tools would use, are looked for where there is nothing."""
    nowhere = str(tmp_path_factory.getbasetemp() / "nowhere")
    monkeypatch.setenv("XDG_CONFIG_HOME", nowhere)
    monkeypatch.setenv("OPENCLAW_HOME", nowhere)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server; tests that take it are marked ``postgres``."""
    from tests.support.postgres import running_postgres

    with running_postgres() as server:
        yield server
