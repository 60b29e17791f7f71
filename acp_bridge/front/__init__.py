"""The editor's side: descriptors, JSON-RPC peer, router."""
