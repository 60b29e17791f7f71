"""What the user told the bridge: options, variables and defaults, read and checked once."""

from acp_bridge.config.option import DEFAULT, Option
from acp_bridge.config.options import OPTIONS, VERBOSE, VERBOSE_HELP
from acp_bridge.config.routing import route_of
from acp_bridge.config.settings import Settings, load, prepare_state_dir

__all__ = [
    "DEFAULT",
    "OPTIONS",
    "VERBOSE",
    "VERBOSE_HELP",
    "Option",
    "Settings",
    "load",
    "prepare_state_dir",
    "route_of",
]
