"""What two measured OpenClaw gateways do differently, as switches of the demo gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Quirks:
    """Which of the measured habits the demo gateway has.

    ``version`` picks the shapes of its frames: ``2026.9.6`` streams thoughts and states, names
    the run in approvals and puts a blank line between the text before and after a tool call;
    ``2026.6.11`` does none of it. The other switches are traps that a client has to survive; all
    are off unless asked for. :data:`QUIRKS_6_11` and :data:`QUIRKS_9_6` are the whole sets.
    """

    version: Literal["2026.6.11", "2026.9.6"] = "2026.9.6"
    swallow_same_text: bool = False
    """A new key with the text of a run that is still registered is acknowledged under that
    run's id, and its own prompt is dropped."""
    linger: float | None = 0.0
    """Seconds for which an ended run stays registered (``in_flight``); None: until
    ``RunContext.unregister`` is called."""
    late_prompt_row: bool = False
    """``chat.history`` shows the prompt of a run only after its first tool call or its end."""
    second_terminal: bool = False
    """A failed tool is reported once more as ``chat`` error, after the run's ``final``."""
    steer: bool = False
    """A second prompt on a busy session is fed into the running one and gets an empty ``final``;
    otherwise it waits for its turn."""
    refuse_scope_upgrade: bool = False
    """A known device that asks for more scopes must be approved by hand."""
    clear_scopes_without_device: bool = False
    """The client id ``cli`` without a device identity is let in, with no scopes at all."""

    @property
    def is_old(self) -> bool:
        """Whether frames have the shapes of 2026.6.11."""
        return self.version == "2026.6.11"


QUIRKS_6_11 = Quirks(
    version="2026.6.11",
    swallow_same_text=True,
    linger=0.05,
    late_prompt_row=True,
    second_terminal=True,
    refuse_scope_upgrade=True,
    clear_scopes_without_device=True,
)
"""All that was measured on OpenClaw 2026.6.11."""

QUIRKS_9_6 = Quirks(linger=0.05, steer=True)
"""All that was measured on OpenClaw 2026.9.6."""
