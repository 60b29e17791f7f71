"""The wire towards the editor, without I/O: lines, JSON-RPC, ACP."""
