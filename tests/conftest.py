"""What tests of several kinds need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server; tests that take it are marked ``postgres``."""
    from tests.support.postgres import running_postgres

    with running_postgres() as server:
        yield server
