"""``session/new`` through the service: which session of the gateway, which limits, what is said."""

from __future__ import annotations

from typing import Any

import pytest

from acp_bridge.core import events as ev
from acp_bridge.core.commands import (
    Attachment,
    DescribeSession,
    ResetSession,
    ResolveSession,
    SessionFacts,
)
from acp_bridge.core.sessions import CreationLimit, SessionOptions
from acp_bridge.errors import ScopeMissing, SessionKeyUnresolved, SessionRateLimited
from acp_bridge.ids import SessionKey
from acp_bridge.wire.acp import NewSession
from tests.support.service import conversation, first_key


async def key_of_first_prompt(options: SessionOptions, meta: dict[str, Any]) -> str:
    async with conversation(options=options) as talk:
        talk.gateway.answers[ResolveSession] = lambda query: (
            f"agent:main:{query.label}" if query.label else query.session_key
        )
        session = await talk.session(**meta)
        talk.send(session)
        return (await talk.started()).session_key


@pytest.mark.parametrize(
    ("options", "meta", "key"),
    [
        (SessionOptions(), {}, "agent:main:acp-bridge:id-1"),
        (SessionOptions(agent="ops"), {}, "agent:ops:acp-bridge:id-1"),
        (SessionOptions(session_key="work"), {}, "work"),
        (SessionOptions(session_key="work", agent="ops"), {}, "agent:ops:work"),
        (SessionOptions(session_key="agent:a:b", agent="ops"), {}, "agent:a:b"),
        (SessionOptions(session_key="work"), {"sessionKey": " mine "}, "mine"),
        (SessionOptions(label="Label"), {}, "agent:main:Label"),
        (SessionOptions(label="Label"), {"sessionKey": "mine"}, "mine"),
        (SessionOptions(session_key="work"), {"sessionLabel": "L"}, "agent:main:L"),
        (SessionOptions(), {"sessionKey": 7, "sessionLabel": ""}, "agent:main:acp-bridge:id-1"),
    ],
)
@pytest.mark.requirement("C018")
async def test_the_session_key_follows_meta_then_options_then_the_own_id(
    options: SessionOptions, meta: dict[str, Any], key: str
) -> None:
    assert await key_of_first_prompt(options, meta) == key


@pytest.mark.parametrize(
    "meta", [{"sessionLabel": "gone"}, {"sessionKey": "gone", "requireExisting": True}]
)
async def test_a_session_that_must_exist_and_does_not_is_an_error(meta: dict[str, Any]) -> None:
    async with conversation() as talk:
        talk.gateway.answers[ResolveSession] = None

        with pytest.raises(SessionKeyUnresolved, match="gone"):
            await talk.session(**meta)


async def test_reset_happens_once_per_key() -> None:
    options = SessionOptions(session_key="work", reset=True)
    async with conversation(options=options) as talk:
        for _ in range(3):
            await talk.session()
        await talk.session(sessionKey="other")

        resets = [query for query in talk.gateway.requests if isinstance(query, ResetSession)]
        assert [query.session_key for query in resets] == ["work", "other"]


@pytest.mark.requirement("C091")
async def test_the_121st_session_in_ten_seconds_is_refused_with_a_time_to_wait() -> None:
    async with conversation(limit=CreationLimit()) as talk:
        for _ in range(120):
            await talk.session()
        with pytest.raises(SessionRateLimited) as caught:
            await talk.session()
        assert caught.value.data["retryAfter"] == 10.0

        talk.clock.advance(10.0)
        await talk.session()


async def test_the_editors_mcp_servers_are_accepted_and_the_user_is_told_once() -> None:
    async with conversation() as talk:
        texts = []
        for number in (1, 2):
            made = await talk.bridge.new_session(
                NewSession("/p", ({"name": "files"}, {"name": "web"}))
            )
            talk.send(made["sessionId"])
            run = (await talk.started(number)).run_id
            await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "answer"))
            texts.append(talk.text(made["sessionId"]))

        assert "files, web" in texts[0]
        assert texts[1] == "answer"


@pytest.mark.requirement("C012")
async def test_without_the_write_scope_a_prompt_names_it() -> None:
    async with conversation(scopes=frozenset({"operator.read"})) as talk:
        session = await talk.session()

        with pytest.raises(ScopeMissing, match=r"operator\.write"):
            talk.send(session)


async def test_missing_approvals_are_said_once_in_the_thread() -> None:
    async with conversation(scopes=frozenset({"operator.read", "operator.write"})) as talk:
        session = await talk.session()
        talk.send(session)
        await talk.settle()
        await talk.gateway.down()
        await talk.gateway.up(scopes=frozenset({"operator.read", "operator.write"}))
        talk.send(session)
        await talk.settle()

        assert talk.text(session).count("operator.approvals") == 1
        assert "operator.admin" not in talk.text(session)


@pytest.mark.requirement("C096")
async def test_the_working_directory_goes_before_the_prompt_but_not_before_a_command() -> None:
    async with conversation(options=SessionOptions()) as talk:
        session = await talk.session("/home/me/project")
        talk.send(session, "hi")
        assert (await talk.started()).message == "[Working directory: ~/project]\n\nhi"
        talk.send(session, "/status")
        await talk.settle()
        await talk.gateway.emit(
            ev.RunAccepted((await talk.started()).run_id),
            ev.RunEnded((await talk.started()).run_id, ev.EndKind.ABORTED),
        )
        talk.clock.advance(1.0)
        assert (await talk.started(2)).message == "/status"


async def test_prompt_options_in_meta_reach_the_gateway() -> None:
    async with conversation() as talk:
        session = await talk.session()
        talk.send(session, "x", thinking="high", deliver=True, timeoutMs=5, prefixCwd=True)
        command = await talk.started()

        assert (command.thinking, command.deliver, command.timeout_ms) == ("high", True, 5)
        assert command.message.startswith("[Working directory:")
        assert command.attachments == ()
        assert Attachment("image", "image/png", "AA==").file_name is None


async def test_title_and_usage_are_shown_after_the_answer() -> None:
    async with conversation() as talk:
        key = first_key()
        talk.gateway.answers[DescribeSession] = SessionFacts(
            key, title="A talk", used_tokens=10, context_tokens=100, cost_usd=0.5
        )
        session = await talk.session()
        answer = talk.send(session)
        run = (await talk.started()).run_id
        await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, "hi"))
        await answer.stop_reason()
        await talk.until(lambda: "usage_update" in talk.kinds())

        assert talk.kinds()[answer.shown_before :] == ["session_info_update", "usage_update"]


async def test_token_counts_of_the_gateways_row_are_shown_when_they_change() -> None:
    async with conversation() as talk:
        await talk.session()
        row = ev.SessionChanged(SessionKey("AGENT:main:acp-bridge:id-1"), 10, 100, None)
        await talk.gateway.emit(row, row, ev.SessionChanged(SessionKey("agent:main:x"), 1, 2, None))

        assert talk.kinds() == ["usage_update"]


@pytest.mark.parametrize(("version", "is_told"), [(0, True), (1, False), (2, False), ("0", False)])
async def test_an_editor_from_before_the_first_version_is_told_to_upgrade(
    version: Any, is_told: bool
) -> None:
    async with conversation() as talk:
        for _ in range(2):
            await talk.bridge.initialize({"protocolVersion": version})
        session = await talk.session()
        talk.send(session)
        await talk.started()
        assert talk.text(session).count("upgrade the editor") == is_told
