"""The composition root: builds the parts, runs them, and stops them in order.

Order of stopping, whatever the cause (end of input, a signal, an editor that is gone): stop
reading the editor, cancel and answer live turns (open permissions are denied with them), close the
gateway connection, flush the outbox (ledger first, then stdout), leave. Each step has a deadline;
an editor that reads nothing any more cannot hold the process, since the blocking threads are
daemons and the process leaves by ``os._exit`` in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack

from acp_bridge import logs
from acp_bridge.bridge.outbox import LedgerOutbox
from acp_bridge.bridge.service import Bridge, Surroundings
from acp_bridge.bridge.timing import Deadlines
from acp_bridge.config import Settings
from acp_bridge.core.sessions import CreationLimit, SessionOptions
from acp_bridge.errors import AuthenticationFailed, BridgeError, GatewayError
from acp_bridge.front.connection import Connection
from acp_bridge.front.router import Router
from acp_bridge.front.stdio import Channel, claim
from acp_bridge.gateway.client import GatewayClient
from acp_bridge.gateway.credentials import Credentials
from acp_bridge.gateway.settings import GatewaySettings
from ledger.memory import MemoryLedger

log = logging.getLogger(__name__)

EXIT_END_OF_INPUT = 0
EXIT_FAILURE = 1
EXIT_UNREACHABLE = 3
EXIT_REFUSED = 4

ANSWER_GRACE = 0.6
"""Seconds that live turns get to end by the gateway's word when the process stops."""
REQUEST_GRACE = 0.6
"""Seconds that requests already read get to be answered at the end of input."""
FLUSH_GRACE = 0.4
"""Seconds for the last lines. All graces together stay below the 2 s that an editor waits."""
EOF
