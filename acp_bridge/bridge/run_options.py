"""What ``_meta`` of a prompt may say of its run."""

from __future__ import annotations

from typing import Any

from acp_bridge.errors import InvalidParams
from acp_bridge.ids import Json


def run_options(meta: Json) -> dict[str, Any]:
    """``_meta`` of a prompt: ``thinking``, ``deliver``, ``timeoutMs``; bad values are refused."""
    thinking = next((meta[k] for k in ("thinking", "thinkingLevel") if k in meta), None)
    if thinking is not None and not isinstance(thinking, str):
        raise InvalidParams("_meta.thinking must be a string.", data={"field": "_meta.thinking"})
    deliver = meta.get("deliver")
    if deliver is not None and not isinstance(deliver, bool):
        raise InvalidParams("_meta.deliver must be true or false.", data={"field": "_meta.deliver"})
    timeout_ms = meta.get("timeoutMs")
    is_count = isinstance(timeout_ms, int) and not isinstance(timeout_ms, bool) and timeout_ms >= 0
    if timeout_ms is not None and not is_count:
        raise InvalidParams(
            "_meta.timeoutMs must be a whole number of milliseconds, 0 or more.",
            data={"field": "_meta.timeoutMs"},
        )
    return {"thinking": thinking, "deliver": deliver, "timeout_ms": timeout_ms}
