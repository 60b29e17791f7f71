"""The embedded gateway's second face: ACP over a WebSocket, as ZeroClaw serves it.

It behaves as the real gateway does where that matters to a bridge: ids per connection, requests
that race, runs that go on unseen when their connection is gone and are stored only if they end
well, a condensed replay, and numbers for errors that mean other things than ACP's.
"""

from acp_bridge.demo.acp.run import AcpRun, AcpScript
from acp_bridge.demo.acp.server import AcpDemoGateway
from acp_bridge.demo.acp.wire import Call, Refused

__all__ = ["AcpDemoGateway", "AcpRun", "AcpScript", "Call", "Refused"]
