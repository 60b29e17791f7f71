"""Alembic's entry: runs the revisions on the connection that the ledger hands over.

By hand, in a checkout: ``alembic -x url=sqlite:////tmp/ledger.db upgrade head``.
"""

from __future__ import annotations

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine

from ledger.tables import metadata


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table="ledger_version",
        render_as_batch=True,  # SQLite cannot alter tables otherwise
        transactional_ddl=True,  # SQLite can, though Alembic does not assume it
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


def _run_by_hand(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        _run(connection)
    engine.dispose()


given = context.config.attributes.get("connection")
url = context.get_x_argument(as_dictionary=True).get("url")
if given is not None:
    _run(given)
elif url:
    _run_by_hand(str(url))
else:
    raise CommandError("Say which database: alembic -x url=sqlite:////tmp/ledger.db ...")
