"""The revisions make the tables that the code expects, and keep to the rules."""

from __future__ import annotations

import ast
import io
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine

from ledger import open_ledger, schema
from ledger.health import VERSION_TABLE
from ledger.tables import metadata

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

ROOT = Path(__file__).resolve().parent.parent.parent
REVISIONS = sorted((ROOT / "migrations" / "versions").glob("*.py"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.empty_database()
    else:
        url = f"sqlite:///{tmp_path}/ledger.db"
    engine = create_engine(url)
    yield engine
    engine.dispose()


def run(engine: Engine, how: Any, target: str) -> None:
    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(schema.scripts()))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        how(config, target)


def differences(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return list(compare_metadata(context, metadata))


def test_the_revisions_make_the_tables_of_the_code(engine: Engine) -> None:
    run(engine, command.upgrade, "head")
    assert differences(engine) == []


def test_each_revision_can_be_taken_back_and_made_again(engine: Engine) -> None:
    for _ in REVISIONS:
        run(engine, command.upgrade, "+1")
        run(engine, command.downgrade, "-1")
        run(engine, command.upgrade, "+1")
    assert differences(engine) == []
    run(engine, command.downgrade, "base")
    with engine.connect() as connection:
        assert schema.found_version(connection) is None


def test_the_code_knows_the_last_revision_and_there_is_only_one() -> None:
    scripts = ScriptDirectory(str(schema.scripts()))
    assert scripts.get_heads() == [schema.HEAD]


def test_revisions_are_numbered_without_gaps() -> None:
    names = [path.name for path in REVISIONS]
    assert [name[:4] for name in names] == [f"{n:04}" for n in range(1, len(names) + 1)]
    for path in REVISIONS:
        assert re.search(rf'^revision = "{path.name[:4]}"$', path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", REVISIONS, ids=lambda path: path.name)
def test_a_revision_stands_alone(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported <= {"__future__", "sqlalchemy", "alembic"}


def test_the_alembic_command_works_in_a_checkout(tmp_path: Path) -> None:
    for arguments in (["upgrade", "head"], ["check"], ["downgrade", "base"]):
        done = subprocess.run(
            [sys.executable, "-m", "alembic", "-x", f"url=sqlite:///{tmp_path}/l.db", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_a_file_made_at_once_is_the_one_that_the_revisions_lead_to(tmp_path: Path) -> None:
    made, led = tmp_path / "made.db", tmp_path / "led.db"
    open_ledger(f"sqlite:///{made}").close()
    engine = create_engine(f"sqlite:///{led}")
    run(engine, command.upgrade, "head")
    engine.dispose()
    assert structure(made) == structure(led)


def structure(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Each table's columns, indexes and foreign keys, and the version."""
    with closing(sqlite3.connect(path)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith("sqlite_")
        ]
        found = {
            f"{pragma} {name}": sorted(connection.execute(f"PRAGMA {pragma}({name})"), key=repr)
            for name in names
            for pragma in ("table_info", "foreign_key_list")
        }
        for name in names:  # without their numbers: the order in which they were made is no matter
            indexes = connection.execute(f"PRAGMA index_list({name})")
            found[f"indexes {name}"] = sorted((row[1:] for row in indexes), key=repr)
        found["version"] = list(connection.execute(f"SELECT * FROM {VERSION_TABLE}"))  # noqa: S608 - a constant
    return found
