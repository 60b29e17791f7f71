"""A version of the ledger that does not exist yet: today's revisions and one more."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ledger import schema

HEAD = "0002"
_VARIABLE = "ACP_BRIDGE_TEST_NEXT_VERSION"

_REVISION = '''
from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Something new, and a table made anew."""
    op.create_table("notes", sa.Column("note", sa.Text(), nullable=False))
    {first}
    recreate = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("sessions", recreate=recreate) as batch:
        batch.add_column(sa.Column("colour", sa.Text(), nullable=False, server_default="red"))
    {second}
    op.execute("INSERT INTO notes VALUES ('upgraded')")


def downgrade() -> None:
    """What was."""
    with op.batch_alter_table("sessions") as batch:
        batch.drop_column("colour")
    op.drop_table("notes")
'''


def make(folder: Path, *, first: str = "", second: str = "") -> Path:
    """The scripts of the next version in ``folder``; ``first`` and ``second`` are statements that
    its revision executes on its way."""
    scripts = folder / "migrations"
    shutil.copytree(schema.scripts(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    text = _REVISION.format(first=first, second=second)
    (scripts / "versions" / "0002_next.py").write_text(text)
    return scripts


def told_by(scripts: Path) -> dict[str, str]:
    """The environment of a process that is to be of the next version."""
    return {_VARIABLE: str(scripts)}


def use_as_told() -> None:
    """Be of the next version, if the environment says so."""
    if scripts := os.environ.get(_VARIABLE):
        schema.HEAD = HEAD
        schema.scripts = lambda: Path(scripts)
