"""The tables, as the code of this version sees them; ``migrations/`` makes them.

Times are milliseconds in UTC. ``sessions`` carries the counters of its entries, so that a write
costs the same however long the history is. What an older version may meet, and what a newer one
may do, is said in ``ledger/README.md``.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

from ledger.codec import clean


class PlainText(TypeDecorator[str]):
    """Text from outside, made such that every database takes it, also where it is compared."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _of_session(**options: Any) -> Column[str]:
    target = ForeignKey("sessions.session_id", ondelete="CASCADE")
    return Column("session_id", PlainText, target, nullable=False, **options)


sessions = Table(
    "sessions",
    metadata,
    Column("session_id", PlainText, primary_key=True),
    Column("session_key", PlainText, nullable=False),
    Column("gateway", PlainText),
    Column("cwd", PlainText, nullable=False),
    Column("folder", PlainText, nullable=False),  # cwd in the way in which it is compared
    Column("title", PlainText),
    Column("owner", PlainText),
    Column("host", PlainText),
    Column("shared", Boolean, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("trimmed", BigInteger, nullable=False),
    Column("next_seq", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("lease_until", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index(None, "session_key"),
    Index(None, "updated_at", "session_id"),
)

entries = Table(
    "entries",
    metadata,
    _of_session(primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", PlainText, nullable=False),
    Column("run_id", PlainText),
    Column("generation", Integer),
    Column("entry_key", PlainText),
    Column("has_blobs", Boolean, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("payload", Text, nullable=False),
)
# Partial on a server too, which the migration sees to: to name that here as well would load
# SQLAlchemy's whole dialect for PostgreSQL into every process.
Index(
    None,
    entries.c.session_id,
    entries.c.entry_key,
    unique=True,
    sqlite_where=entries.c.entry_key.is_not(None),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", PlainText, primary_key=True),
    _of_session(index=True),
    Column("state", PlainText, nullable=False),
    Column("stop_reason", PlainText),
    Column("error_code", PlainText),
    Column("opened_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("first_seq", BigInteger, nullable=False),  # no entry of the run comes before it
)

archives = Table(
    "archives",
    metadata,
    _of_session(primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

blobs = Table(
    "blobs",
    metadata,
    Column("hash", PlainText, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

blob_uses = Table(
    "blob_uses",
    metadata,
    _of_session(primary_key=True),
    Column("hash", PlainText, ForeignKey("blobs.hash"), primary_key=True, index=True),
)
