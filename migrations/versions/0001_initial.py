"""Sessions, their entries and runs, archives, and blobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("gateway", sa.Text()),
        sa.Column("cwd", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("owner", sa.Text()),
        sa.Column("host", sa.Text()),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("trimmed", sa.BigInteger(), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_session_key", "sessions", ["session_key"])
    op.create_index("ix_sessions_updated_at_session_id", "sessions", ["updated_at", "session_id"])

    op.create_table(
        "entries",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text()),
        sa.Column("generation", sa.Integer()),
        sa.Column("entry_key", sa.Text()),
        sa.Column("has_blobs", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        _session_of("entries"),
        sa.PrimaryKeyConstraint("session_id", "seq", name="pk_entries"),
    )
    keyed = sa.text("entry_key IS NOT NULL")
    op.create_index(
        "ix_entries_session_id_entry_key",
        "entries",
        ["session_id", "entry_key"],
        unique=True,
        sqlite_where=keyed,
        postgresql_where=keyed,
    )

    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stop_reason", sa.Text()),
        sa.Column("error_code", sa.Text()),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger()),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        _session_of("runs"),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_index("ix_runs_session_id", "runs", ["session_id"])

    op.create_table(
        "archives",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        _session_of("archives"),
        sa.PrimaryKeyConstraint("session_id", name="pk_archives"),
    )

    op.create_table(
        "blobs",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_blobs"),
    )
    op.create_table(
        "blob_uses",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        _session_of("blob_uses"),
        sa.ForeignKeyConstraint(["hash"], ["blobs.hash"], name="fk_blob_uses_hash_blobs"),
        sa.PrimaryKeyConstraint("session_id", "hash", name="pk_blob_uses"),
    )
    op.create_index("ix_blob_uses_hash", "blob_uses", ["hash"])


def downgrade() -> None:
    """Drop all tables."""
    for table in ("blob_uses", "blobs", "archives", "runs", "entries", "sessions"):
        op.drop_table(table)


def _session_of(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["session_id"],
        ["sessions.session_id"],
        name=f"fk_{table}_session_id_sessions",
        ondelete="CASCADE",
    )
