"""The bridge as a JSON-RPC peer of the editor: open requests of both directions.

All that is written goes through the outbox, so that it keeps its place among the updates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from acp_bridge.core.ports import Ask, EditorAnswer, Outbox
from acp_bridge.errors import InvalidRequest, LocalProtocolError, to_jsonrpc
from acp_bridge.ids import Json, SessionId
from acp_bridge.wire import jsonrpc
from acp_bridge.wire.jsonrpc import BareId, MessageId, Request, Response


class Reply:
    """The one answer to one request of the editor; a ``core.ports.Responder``."""

    def __init__(
        self, connection: Connection, request: Request, session_id: SessionId | None, size: int
    ) -> None:
        self._connection = connection
        self.size = size
        self._session_id = session_id
        self.id: MessageId = request.id
        self.method = request.method
        self.is_answered = False

    def result(self, result: Json) -> None:
        self._answer(jsonrpc.result(self.id, result))

    def error(self, error: BaseException) -> None:
        self._answer(self._connection.hide(jsonrpc.failure(self.id, error)))

    def _answer(self, message: Json) -> None:
        if self.is_answered:
            raise LocalProtocolError(f"A second answer to one {self.method} request.")
        self.is_answered = True
        self._connection.close(self, message, self._session_id)


class Connection:
    """Implements ``core.ports.Editor`` and keeps the requests of the editor until answered.

    ``hide`` takes the secrets out of an answer that is an error.
    """

    def __init__(self, outbox: Outbox, hide: Callable[[Json], Json] = lambda error: error) -> None:
        self._outbox = outbox
        self._hide = hide
        self._replies: dict[Any, list[Reply]] = {}
        self.unanswered = 0
        """Requests of the editor that are in flight."""
        self.unanswered_bytes = 0
        """Bytes of their lines."""
        self._questions: dict[str, _Question] = {}
        self._questions_asked = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def ask(
        self,
        method: str,
        params: Json,
        on_answer: Callable[[EditorAnswer], None],
        *,
        session_id: SessionId,
    ) -> Ask:
        self._questions_asked += 1
        question_id = f"bridge-{self._questions_asked}"
        question = _Question(self, question_id, on_answer, session_id)
        self._questions[question_id] = question
        self._outbox.put_message(
            jsonrpc.request(question_id, method, params), session_id=session_id
        )
        return question

    def settle(self, answer: Response | BareId) -> bool:
        """Give the editor's answer to whoever asked; False if no open question has this id.

        Ids are ours, so that only the very string matches. An answer without result or error
        counts as an error.
        """
        if not isinstance(answer.id, str) or answer.id not in self._questions:
            return False
        question = self._questions.pop(answer.id)
        if isinstance(answer, BareId):
            missing = InvalidRequest("The editor answered without a result.")
            question.on_answer(EditorAnswer(error=to_jsonrpc(missing)))
        else:
            question.on_answer(EditorAnswer(answer.result, answer.error))
        return True

    def withdraw(self, question: _Question) -> None:
        """Take back a question, unless it is answered."""
        if self._questions.pop(question.id, None) is None:
            return
        self._outbox.put_message(
            jsonrpc.notification("$/cancel_request", {"requestId": question.id}),
            session_id=question.session_id,
        )

    def open(
        self, request: Request, session_id: SessionId | None = None, *, size: int = 0
    ) -> Reply:
        """Note a request of the editor, of ``size`` bytes, as being in flight. Its answer keeps its
        place behind the updates of ``session_id``. Two requests may have one id; both get their
        answer."""
        reply = Reply(self, request, session_id, size)
        self._replies.setdefault(_key(request.id), []).append(reply)
        self.unanswered += 1
        self.unanswered_bytes += size
        self._idle.clear()
        return reply

    def hide(self, failure: Json) -> Json:
        """A failure as it may be told. Its id is the editor's own."""
        return {**failure, "error": self._hide(failure["error"])}

    def close(self, reply: Reply, message: Json, session_id: SessionId | None) -> None:
        """Write the answer to a request and forget it."""
        key = _key(reply.id)
        self._replies[key].remove(reply)
        self.unanswered -= 1
        self.unanswered_bytes -= reply.size
        if not self._replies[key]:
            del self._replies[key]
        if not self._replies:
            self._idle.set()
        self._outbox.put_message(message, session_id=session_id)

    def in_flight(self, message_id: Any) -> list[Reply]:
        """The unanswered requests of the editor with this id, alike in type and value."""
        if isinstance(message_id, list | dict):
            return []
        return list(self._replies.get(_key(message_id), ()))

    async def idle(self) -> None:
        """Return when no request of the editor is in flight."""
        await self._idle.wait()


class _Question:
    """A request of ours that waits for its answer; a ``core.ports.Ask``."""

    def __init__(
        self,
        connection: Connection,
        question_id: str,
        on_answer: Callable[[EditorAnswer], None],
        session_id: SessionId,
    ) -> None:
        self._connection = connection
        self.id = question_id
        self.on_answer = on_answer
        self.session_id = session_id

    def withdraw(self) -> None:
        self._connection.withdraw(self)


def _key(message_id: MessageId) -> tuple[type, MessageId]:
    """What tells ids apart: to Python 1, 1.0 and True are equal."""
    return type(message_id), message_id
