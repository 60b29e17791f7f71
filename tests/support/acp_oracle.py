"""Judges every line that an agent writes, by the models of the official ACP SDK.

The SDK's models are lenient: they replace a bad optional value by its default and drop unknown
fields. So a line passes only when the model, written out again, holds all that the line held.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, NoReturn

from acp import schema
from pydantic import BaseModel, ValidationError

from tests.support.acp_order import OrderRules, Violation

__all__ = ["AcpOracle", "Violation"]

MAX_LINE = 16 * 1024 * 1024
"""Bytes; a client of the field closes the connection on a longer line."""

ANSWERS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "logout": schema.LogoutResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
NOTIFICATIONS: dict[str, type[BaseModel]] = {
    "session/update": schema.SessionNotification,
    "$/cancel_request": schema.CancelRequestNotification,
}
REQUESTS: dict[str, type[BaseModel]] = {
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
}


class AcpOracle:
    """Knows what the editor asked and checks what the agent writes, line by line.

    ``order`` also applies the rules on the order of messages (``OrderRules``). With ``extras`` it
    lets pass what a gateway that speaks ACP itself adds: members and methods unknown to ACP.
    """

    def __init__(self, *, order: bool = True, extras: bool = False) -> None:
        self._extras = extras
        self._asked: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        self._open: set[str] = set()
        self._may_be_withdrawn: set[str] = set()
        self._order = OrderRules() if order else None

    def sent(self, message: Any) -> None:
        """Take note of a message to the agent. Anything but a JSON-RPC message is ignored."""
        if not isinstance(message, dict):
            return
        method = message.get("method")
        if isinstance(method, str) and "id" in message:
            self._asked[_key(message["id"])].append((method, message.get("params")))
        elif method is None and "id" in message and _key(message["id"]) in self._open:
            self._open.remove(_key(message["id"]))
        if self._order and isinstance(method, str):
            self._order.asked(method, message.get("params"))

    def received(self, line: bytes) -> dict[str, Any]:
        """The message in one line of the agent's stdout, without its newline.

        Raises ``Violation`` when ACP forbids it.
        """
        message = parse_line(line)
        if "method" in message:
            self._call(message)
        else:
            self._answer(message)
        return message

    def _call(self, message: dict[str, Any]) -> None:
        _only(message, {"jsonrpc", "id", "method", "params"})
        method, params = message["method"], message.get("params")
        models = REQUESTS if "id" in message else NOTIFICATIONS
        if method not in models and self._extras:
            models = {method: _Anything}
        if method not in models:
            _fail(f"unknown {'request' if 'id' in message else 'notification'}", message)
        conforms(models[method], params, extras=self._extras)
        if "id" in message:
            key = _key(message["id"])
            if key in self._open:
                _fail("two open requests of the agent share an id", message)
            self._open.add(key)
            self._may_be_withdrawn.add(key)
        if method == "$/cancel_request":
            self._withdrawn(message)
        if self._order:
            self._order.called(method, params)

    def _withdrawn(self, message: dict[str, Any]) -> None:
        # One that was answered may be withdrawn too: the answer may have been on its way.
        key = _key(message["params"]["requestId"])
        if key not in self._may_be_withdrawn:
            _fail("a request was withdrawn that was never made, or twice", message)
        self._may_be_withdrawn.remove(key)
        self._open.discard(key)

    def _answer(self, message: dict[str, Any]) -> None:
        _only(message, {"jsonrpc", "id", "result", "error"})
        if "id" not in message or ("result" in message) == ("error" in message):
            _fail("an answer needs an id and either result or error", message)
        if "error" in message:
            check_error(message["error"])
        asked = self._asked.get(_key(message["id"]), [])
        for index, (method, params) in enumerate(asked):
            if "error" in message or self._fits(method, message["result"]):
                del asked[index]
                if self._order:
                    self._order.answered(method, params, message)
                return
        if asked:
            conforms(_answer_model(asked[0][0]), message["result"])
        if message["id"] is not None or "result" in message:
            _fail("an answer to nothing that was asked", message)

    def _fits(self, method: str, result: Any) -> bool:
        model = _Anything if self._extras and method not in ANSWERS else _answer_model(method)
        try:
            conforms(model, result, extras=self._extras)
        except Violation:
            return False
        return True


class _Anything(BaseModel, extra="allow"):
    """What ACP does not know."""


def parse_line(line: bytes) -> dict[str, Any]:
    """One JSON-RPC message: strict UTF-8, strict JSON, an object, below 16 MiB."""
    if len(line) >= MAX_LINE:
        raise Violation(f"a line of {len(line)} bytes")
    try:
        message = json.loads(
            line.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_unique_keys
        )
        # A lone surrogate is a legal escape in JSON and an error in every strict decoder.
        json.dumps(message, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise Violation(f"not strict JSON ({error}): {line[:200]!r}") from error
    if not isinstance(message, dict):
        raise Violation(f"not a JSON object: {line[:200]!r}")
    if line != line.strip():
        _fail("white space around a message", message)
    if message.get("jsonrpc") != "2.0":
        _fail("not JSON-RPC 2.0", message)
    return message


def check_error(error: Any) -> None:
    """A JSON-RPC error object with a short text."""
    if not isinstance(error, dict) or set(error) - {"code", "message", "data"}:
        raise Violation(f"not an error object: {error}")
    if type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        raise Violation(f"an error needs a code and a message: {error}")
    if not error["message"].strip() or "Traceback" in error["message"]:
        raise Violation(f"an error without a readable message: {error}")


def conforms(model: type[BaseModel], value: Any, *, extras: bool = False) -> None:
    """Whether ``value`` is exactly what ``model`` knows, or with ``extras`` at least that; raises
    ``Violation`` if not."""
    try:
        parsed = model.model_validate(value)
    except ValidationError as error:
        raise Violation(f"{model.__name__} refuses {_short(value)}: {error}") from error
    written = parsed.model_dump(mode="json", by_alias=True, exclude_unset=True)
    lost = _difference(value, written, model.__name__, extras=extras)
    if lost is not None:
        raise Violation(f"{lost} in {_short(value)}")


def _answer_model(method: str) -> type[BaseModel]:
    if method not in ANSWERS:
        raise Violation(f"{method} is no ACP method, yet it was answered with a result")
    return ANSWERS[method]


def _difference(given: Any, kept: Any, where: str, *, extras: bool) -> str | None:
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            if name not in kept:
                if extras:
                    continue
                return f"{where}.{name} is unknown to ACP"
            if found := _difference(value, kept[name], f"{where}.{name}", extras=extras):
                return found
        return None
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        found_in = (
            _difference(a, b, f"{where}[{i}]", extras=extras)
            for i, (a, b) in enumerate(zip(given, kept, strict=True))
        )
        return next((found for found in found_in if found), None)
    return None if given == kept else f"{where} is not valid: {_short(given)}"


def _only(message: dict[str, Any], allowed: set[str]) -> None:
    if extra := set(message) - allowed:
        _fail(f"custom root fields {sorted(extra)}", message)


def _key(request_id: Any) -> str:
    return json.dumps(request_id)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _fail(rule: str, message: Any) -> NoReturn:
    raise Violation(f"{rule}: {_short(message)}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 600 else f"{text[:600]}… ({len(text)} characters)"
