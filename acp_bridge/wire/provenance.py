"""The gateway's provenance fields of ``chat.send`` (``--provenance``).

The gateway takes them only from a connection with ``operator.admin``; the dialect sends the prompt
once more without them when it refuses.
"""

from __future__ import annotations

from acp_bridge.ids import Json, SessionId, SessionKey


def provenance_fields(
    mode: str,
    *,
    session_id: SessionId,
    session_key: SessionKey,
    host: str,
    cwd: str,
) -> Json | None:
    """The fields for a prompt, or None when the mode is ``off``."""
    if mode == "off":
        return None
    fields: Json = {
        "systemInputProvenance": {
            "kind": "external_user",
            "originSessionId": session_id,
            "sourceChannel": "acp",
            "sourceTool": "acp_bridge",
        }
    }
    if mode == "meta+receipt":
        receipt = [
            "[Source Receipt]",
            "bridge=acp-bridge",
            f"originHost={host}",
            f"originCwd={cwd}",
            f"acpSessionId={session_id}",
            f"originSessionId={session_id}",
            f"targetSession={session_key}",
            "[/Source Receipt]",
        ]
        fields["systemProvenanceReceipt"] = "\n".join(receipt)
    return fields
