"""The protocol of the OpenClaw gateway, version 4, as versions 2026.6.11 and 2026.9.6 speak it."""
