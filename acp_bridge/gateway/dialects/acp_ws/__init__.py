"""Gateways that speak ACP over a WebSocket: one JSON-RPC message in each text (ZeroClaw)."""
