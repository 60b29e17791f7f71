"""How long to wait before the next attempt to connect."""

from __future__ import annotations

START = 0.5
"""Seconds after the first failure: a restarted gateway or a short network drop is soon back."""
CAP = 30.0
"""Seconds at most, so that a gateway that returns after hours is found within that time."""


def reconnect_delay(attempt: int, random: float, *, minimum: float = 0.0) -> float:
    """Seconds to wait after the ``attempt``-th failure in a row (from 1).

    Doubles up to the cap. ``random`` (0 to 1) takes up to half of it away, so that many bridges
    do not come back in step. Never below ``minimum``, the time that the gateway itself asked for.
    """
    # Imported late: start-up time matters, and most runs never fail to connect.
    from tenacity import RetryCallState, Retrying, wait_exponential

    state = RetryCallState(Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = attempt
    whole = wait_exponential(multiplier=START, max=CAP)(state)
    return max(whole * (1 - random / 2), minimum)
