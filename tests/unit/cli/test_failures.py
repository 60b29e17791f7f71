"""How failures are told: a line, a hint, an exit code; a traceback only on request."""

from __future__ import annotations

import logging

import pytest

from acp_bridge import errors
from acp_bridge.cli.failures import EXIT_CODES, exit_code, report
from acp_bridge.gateway.network_errors import CertificateUntrusted, WrongProtocol
from ledger.errors import SchemaAhead, SchemaBehind


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError(), 2),
        (errors.ConfigError(), 2),
        (errors.GatewayUnreachable(), 3),
        (errors.GatewayTimeout(), 3),
        (errors.AuthenticationFailed(), 4),
        (errors.PairingRequired(), 4),
        (errors.HandshakeRefused(), 4),
        (errors.VersionMismatch(), 4),
        (CertificateUntrusted(), 3),
        (WrongProtocol(), 3),
        (SchemaAhead(), 5),
        (SchemaBehind(), 5),
        (KeyboardInterrupt(), 130),
        (RuntimeError(), 1),
    ],
)
def test_each_failure_has_its_documented_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
    assert code in EXIT_CODES


def test_a_known_failure_is_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    code = report(errors.ConfigError("--url is wrong", hint="Try another."))

    assert code == 2
    assert capsys.readouterr().err == "error: --url is wrong\nhint: Try another.\n"


def test_a_hint_with_several_lines_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    report(errors.ConfigError("refused\nby rule", hint="Either:\n  this\n  that"))

    assert capsys.readouterr().err == "error: refused\\nby rule\nhint: Either:\n  this\n  that\n"


def test_an_unknown_failure_is_told_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACP_BRIDGE_TRACEBACK", raising=False)

    code = report(ZeroDivisionError("two\nlines"))

    assert code == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error == r"error: acp-bridge failed unexpectedly: ZeroDivisionError: two\nlines"
    assert "ACP_BRIDGE_TRACEBACK=1" in hint


@pytest.mark.parametrize("by", ["variable", "log level"])
def test_the_traceback_is_shown_on_request(
    by: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if by == "variable":
        monkeypatch.setenv("ACP_BRIDGE_TRACEBACK", "1")
    else:
        caplog.set_level(logging.DEBUG, "acp_bridge")

    report(ZeroDivisionError())

    assert "ZeroDivisionError" in capsys.readouterr().err.splitlines()[0]


def test_an_interruption_needs_no_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""


def test_an_exit_keeps_its_code() -> None:
    assert report(SystemExit(7)) == 7
    assert report(SystemExit(None)) == 0
    assert report(SystemExit("words")) == 1
