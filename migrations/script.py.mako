"""${message}

Additive: a bridge of the release before may still write to the same database. New columns are
nullable or have a server default; nothing is removed before the release after the one that
stopped using it. A revision imports nothing from ``ledger``.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Make the tables what this revision needs."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Make them what they were."""
    ${downgrades if downgrades else "pass"}
