"""Questions that take several requests: what became of a run, what a session's transcript holds,
and what may be chosen for it.

All begin with ``chat.history``; the first two go on with the rows that it left out, each by
itself. A request without an answer counts as "not known".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import assert_never

from acp_bridge.core.commands import ProbeRun, ReadOptions, ReadTranscript
from acp_bridge.core.events import Hello, RunReported
from acp_bridge.core.options import Options
from acp_bridge.core.transcript import Transcript
from acp_bridge.errors import GatewayError, GatewayTimeout
from acp_bridge.gateway.dialects.openclaw.encode import (
    Call,
    history_call,
    message_call,
    wait_call,
)
from acp_bridge.gateway.dialects.openclaw.frames import as_object, as_text
from acp_bridge.gateway.dialects.openclaw.options import models_call, read_options, row_call
from acp_bridge.gateway.dialects.openclaw.reconcile import Answers, left_out_rows, reported
from acp_bridge.gateway.dialects.openclaw.refusals import request_refusal
from acp_bridge.gateway.dialects.openclaw.rows import (
    is_left_out,
    next_offset,
    row_id,
    transcript_rows,
    with_older,
)
from acp_bridge.gateway.dialects.openclaw.transcript import read_transcript
from acp_bridge.ids import Json, RunId, SessionKey

MOST_ROWS = 20
"""Left-out rows of a transcript that are asked for, the newest ones: each may be 2 MB, and they
come all at once."""

MOST_PAGES = 10
"""Pages of ``HISTORY_ROWS`` rows that are read of a transcript; only 2026.9.6 has more than one."""

_HISTORY, _PAGE, _WAIT, _MODELS = "history", "page", "wait", "models"

Part = tuple[str, Call]
"""A request, named ``history``, ``page``, ``wait``, ``models`` or by the id of a row."""


class Inquiry(ABC):
    """The requests of one question and their answers so far.

    Make the requests of :meth:`begin`, give each answer to :meth:`take`, which may lead to more
    requests, until :attr:`is_over`.
    """

    def __init__(self, session_key: SessionKey) -> None:
        self._session_key = session_key
        self._open = 0
        self._answers: dict[str, Json | None] = {}
        self._whole_rows: dict[str, Json] = {}

    @property
    def is_over(self) -> bool:
        """Whether each request so far has its answer."""
        return self._open == 0

    def begin(self) -> list[Part]:
        """The first requests."""
        return self._ask(self._first())

    def take(self, part: str, payload: Json | None, error: Json) -> list[Part]:
        """Take an answer and return what to ask next.

        ``payload`` is None for a refusal, whose ``error`` is then given, and for none in time.
        """
        self._open -= 1
        if part in {_HISTORY, _PAGE, _WAIT, _MODELS}:
            self._answers[part] = payload
        elif row := as_object(as_object(payload).get("message")):
            self._whole_rows[part] = row
        return self._ask(self._next(part, error))

    @abstractmethod
    def result(self) -> RunReported | Transcript | Options | GatewayError | None:
        """What the answers amount to."""

    @abstractmethod
    def _first(self) -> list[Part]: ...

    @abstractmethod
    def _next(self, part: str, error: Json) -> list[Part]: ...

    def _ask(self, parts: list[Part]) -> list[Part]:
        self._open += len(parts)
        return parts

    def _history_part(self) -> Part:
        return _HISTORY, history_call(self._session_key)

    def _row_parts(self, names: list[str]) -> list[Part]:
        return [(name, message_call(self._session_key, name)) for name in names]


class Probe(Inquiry):
    """What became of a run."""

    def __init__(self, command: ProbeRun) -> None:
        super().__init__(command.session_key)
        self._run_id = command.run_id
        self._has_asked_rows = False

    def result(self) -> RunReported:
        return reported(self._combined())

    def _first(self) -> list[Part]:
        return [self._history_part(), (_WAIT, wait_call(self._run_id))]

    def _next(self, part: str, error: Json) -> list[Part]:
        """Which rows are needed is known when both first answers are there."""
        if self._open or self._has_asked_rows:
            return []
        self._has_asked_rows = True
        return self._row_parts(left_out_rows(self._combined()))

    def _combined(self) -> Answers:
        return Answers(
            self._run_id,
            history=self._answers.get(_HISTORY),
            wait=self._answers.get(_WAIT),
            whole_rows=self._whole_rows,
        )


class Reading(Inquiry):
    """What a session's transcript holds."""

    def __init__(self, query: ReadTranscript) -> None:
        super().__init__(query.session_key)
        self._failure: GatewayError | None = GatewayTimeout()
        self._history: Json = {}
        """Put together from all pages."""
        self._pages = 0

    def result(self) -> Transcript | GatewayError | None:
        """An error if there is no history."""
        if self._failure:
            return self._failure
        return read_transcript(self._history, as_object(self._answers.get(_WAIT)), self._whole_rows)

    def _first(self) -> list[Part]:
        return [self._history_part()]

    def _next(self, part: str, error: Json) -> list[Part]:
        if part not in {_HISTORY, _PAGE}:
            return []
        page = self._answers.get(part)
        if page is None:
            # What was read of it by then is better than nothing.
            if part == _HISTORY and error:
                self._failure = request_refusal("chat.history", error)
            return self._left_out_parts() if part == _PAGE else []
        self._failure = None
        self._pages += 1
        self._history = with_older(self._history, page) if self._history else page
        begun = self._flight_parts(page) if part == _HISTORY else []
        offset = next_offset(page)
        if offset is not None and self._pages < MOST_PAGES:
            return [*begun, (_PAGE, history_call(self._session_key, offset=offset))]
        return begun + self._left_out_parts()

    def _left_out_parts(self) -> list[Part]:
        left_out = [row for row in transcript_rows(self._history, {}) if is_left_out(row)]
        names = [name for row in reversed(left_out) if (name := row_id(row))]
        return self._row_parts(names[:MOST_ROWS])

    def _flight_parts(self, history: Json) -> list[Part]:
        """2026.6.11 may go on naming a run as in flight that has ended; ``agent.wait`` knows."""
        run_id = as_text(as_object(history.get("inFlightRun")).get("runId"))
        return [(_WAIT, wait_call(RunId(run_id)))] if run_id else []


class OptionsReading(Inquiry):
    """What may be chosen for a session, of the options ``ids``; without the models if the gateway
    does not tell them."""

    def __init__(self, query: ReadOptions, ids: frozenset[str]) -> None:
        super().__init__(query.session_key)
        self._ids = ids
        self._failure: GatewayError = GatewayTimeout()

    def result(self) -> Options | GatewayError:
        """An error if there is no row."""
        history = self._answers.get(_HISTORY)
        if history is None:
            return self._failure
        return read_options(history, as_object(self._answers.get(_MODELS)), self._ids)

    def _first(self) -> list[Part]:
        return [(_HISTORY, row_call(self._session_key)), (_MODELS, models_call())]

    def _next(self, part: str, error: Json) -> list[Part]:
        if part == _HISTORY and error:
            self._failure = request_refusal("chat.history", error)
        return []


def inquiry_for(question: ProbeRun | ReadTranscript | ReadOptions, hello: Hello | None) -> Inquiry:
    """The inquiry that answers a question on a connection with this hello."""
    match question:
        case ProbeRun():
            return Probe(question)
        case ReadTranscript():
            return Reading(question)
        case ReadOptions():
            return OptionsReading(question, hello.changeable if hello else frozenset())
        case _:
            assert_never(question)
