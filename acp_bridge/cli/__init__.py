"""The commands, their help and their exit codes."""
