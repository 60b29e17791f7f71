"""What an option is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from acp_bridge.config import values

ENV_PREFIX: Final = "ACP_BRIDGE_"

DEFAULT: Final = "default"
"""The source of a value that nobody gave."""


class Option(NamedTuple):
    """One option.

    ``default`` is text like any other value and read the same way; ``None`` means unset.
    ``is_in_profiles`` tells whether a profile may have it.
    ``extra_env`` are variables asked after the one that bears the option's name. ``off`` is the
    value that ``--no-...`` stands for, of an option that takes a value.
    """

    field: str
    flag: str
    read: Callable[[str], object]
    help: str
    group: str
    metavar: str = ""
    default: str | None = None
    example: str = ""
    alias: str | None = None
    extra_env: tuple[str, ...] = ()
    is_secret: bool = False
    off: str | None = None
    is_in_profiles: bool = True

    @property
    def env(self) -> tuple[str, ...]:
        """The variables that may give the value, first one first."""
        return (ENV_PREFIX + self.field.upper(), *self.extra_env)

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value on the command line."""
        return self.read is values.switch

    @property
    def shown_flag(self) -> str:
        """The spelling that changes something: the negative one of a switch that is on."""
        return self.flags[-1] if self.default == "true" else self.flag

    @property
    def flags(self) -> tuple[str, ...]:
        """Every spelling on the command line, the negative of a switch last."""
        spellings = (self.flag,) if self.alias is None else (self.flag, self.alias)
        return (*spellings, self.negative) if self.is_switch else spellings

    @property
    def negative(self) -> str:
        """The flag that says no, of those that have one."""
        return f"--no-{self.flag[2:]}"
