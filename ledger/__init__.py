"""An append-only event ledger for conversations, usable alone.

    ledger = open_ledger("sqlite:////home/me/ledger.db")
    ledger.write([NewSession("id", "key", "/home/me/project", at=1_700_000_000_000)])

Importing this package costs little: model, port and errors only. The rest comes with
:func:`open_ledger`, or with ``ledger.memory``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ledger.errors import (
    BadLedgerUrl,
    BadValue,
    DriverMissing,
    EntryTooLarge,
    LedgerBusy,
    LedgerClosed,
    LedgerCorrupt,
    LedgerError,
    LedgerFull,
    LedgerGone,
    LedgerMissing,
    LedgerReadOnly,
    LedgerRefused,
    LedgerUnreachable,
    LedgerUnreadable,
    NotALedger,
    SchemaAhead,
    SchemaBehind,
    UnknownSession,
)
from ledger.model import (
    LEASE_MS,
    Change,
    DeleteSession,
    Entry,
    Incomplete,
    NewEntry,
    NewSession,
    Page,
    Replay,
    Run,
    RunClosed,
    RunOpened,
    RunState,
    SessionClosed,
    SessionRecord,
    SessionShared,
    SessionTitle,
    Stats,
)
from ledger.paths import normal_path
from ledger.port import EventLedger
from ledger.redaction import Redact, keep_all
from ledger.retention import Limits

__all__ = [
    "LEASE_MS",
    "BadLedgerUrl",
    "BadValue",
    "Change",
    "DeleteSession",
    "DriverMissing",
    "Entry",
    "EntryTooLarge",
    "EventLedger",
    "Incomplete",
    "LedgerBusy",
    "LedgerClosed",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerFull",
    "LedgerGone",
    "LedgerMissing",
    "LedgerReadOnly",
    "LedgerRefused",
    "LedgerUnreachable",
    "LedgerUnreadable",
    "Limits",
    "NewEntry",
    "NewSession",
    "NotALedger",
    "Page",
    "Replay",
    "Run",
    "RunClosed",
    "RunOpened",
    "RunState",
    "SchemaAhead",
    "SchemaBehind",
    "SessionClosed",
    "SessionRecord",
    "SessionShared",
    "SessionTitle",
    "Stats",
    "UnknownSession",
    "normal_path",
    "open_ledger",
]


def open_ledger(
    url: str,
    *,
    limits: Limits | None = None,
    owner: str | None = None,
    host: str | None = None,
    lock_timeout: float = 5.0,
    redact: Redact = keep_all,
    is_network_path: Callable[[Path], bool] | None = None,
    read_only: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> EventLedger:
    """Open the ledger at ``sqlite:///…`` or ``postgresql+psycopg://…``.

    A local file is made, upgraded, or (if it is damaged) set aside and begun anew; a database on
    a server must have been prepared with ``ledger.schema.upgrade``. A ledger that is newer than
    this code can be read; its ``write`` raises ``SchemaAhead``.

    ``owner`` is whose sessions are shown and made; None is everybody's in a file, and the login
    name on a server. ``host`` names this machine in new sessions. ``lock_timeout`` is how many
    seconds a call waits for other processes. ``redact`` is applied to all that is stored
    (``ledger.redaction``). ``is_network_path`` tells whether a file is on a network file system;
    by default the system is asked.

    With ``read_only`` what is there is only looked at and nothing is made, upgraded or set aside:
    ``LedgerMissing``, ``NotALedger``, ``LedgerCorrupt`` or ``SchemaBehind`` is raised instead, and
    each ``write`` raises ``LedgerReadOnly``. A file on a file system that is read-only is opened in
    that way too.

    ``clock`` gives monotonic seconds: once in one of them a write
    looks whether the file is still the one that was opened, and else raises ``LedgerGone``.

    Raises ``LedgerError``: for each cause another class, with a sentence and a hint.
    """
    opening = import_module("ledger.opening")  # what it imports takes longer than all the rest
    options = {} if is_network_path is None else {"is_network_path": is_network_path}
    ledger: EventLedger = opening.open_ledger(
        url,
        limits=limits,
        owner=owner,
        host=host,
        lock_timeout=lock_timeout,
        redact=redact,
        read_only=read_only,
        clock=clock,
        **options,
    )
    return ledger
