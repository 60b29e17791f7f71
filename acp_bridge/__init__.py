"""acp-bridge: a bridge between ACP editors and agent gateways.

This module stays nearly empty on purpose: it is imported before standard output is set aside.
"""

__version__ = "0.1.0"
