"""The service: order and waiting between the editor's calls and the gateway's events."""
