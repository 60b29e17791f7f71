"""Bounds of waits. A slow machine sets ``ACP_BRIDGE_TEST_TIME_SCALE`` to stretch them all."""

from __future__ import annotations

import os

TIME_SCALE = float(os.environ.get("ACP_BRIDGE_TEST_TIME_SCALE", "1"))


def scaled(seconds: float) -> float:
    """``seconds`` stretched for this machine."""
    return seconds * TIME_SCALE


WAIT = scaled(5.0)
"""Seconds that a test waits for what should happen at once."""
