"""The gateway's side: one port, a supervised connection, and the dialects."""
