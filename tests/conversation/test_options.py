"""Options, modes and slash commands through the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from acp import schema

from acp_bridge.bridge.timing import Deadlines
from acp_bridge.core import events as ev
from acp_bridge.core.commands import ChangeOption, ListCommands, ReadOptions, ReadTranscript
from acp_bridge.core.options import OPTION_IDS, Choice, Option, Options, SlashCommand
from acp_bridge.core.transcript import Transcript
from acp_bridge.errors import (
    GatewayRefused,
    GatewayUnreachable,
    InvalidParams,
    ScopeMissing,
    SessionNotFound,
)
from acp_bridge.ids import Json, SessionId, SessionKey
from acp_bridge.wire.acp import NewSession, OpenedSession, SetMode, SetOption
from ledger.memory import MemoryLedger
from tests.support.acp_oracle import conforms
from tests.support.service import PATIENCE, Conversation, conversation

KEY = SessionKey("agent:main:acp-bridge:id-1")
LEVELS = ("off", "low", "high")
HELP = SlashCommand("help", "Show commands.", None)
THINK = SlashCommand("think", "Set the level.", "[level]")
STATE = {"config_option_update", "current_mode_update", "available_commands_update"}


class Choices:
    """What a gateway knows of its sessions' options."""

    def __init__(self) -> None:
        self.chosen: dict[str, str] = {"model": "m/one", "thought_level": "low"}
        self.refusal: GatewayRefused | ScopeMissing | None = None
        self.commands: tuple[SlashCommand, ...] = (HELP, THINK)

    def read(self, _query: ReadOptions | None = None) -> Options:
        return (
            option("model", "model", self.chosen["model"], ("m/one", "m/two")),
            option("thought_level", "thought_level", self.chosen["thought_level"], LEVELS),
        )

    def change(self, query: ChangeOption) -> GatewayRefused | ScopeMissing | None:
        if self.refusal is None:
            self.chosen[query.option_id] = query.value
        return self.refusal


def option(option_id: str, category: str, current: str, values: tuple[str, ...]) -> Option:
    choices = tuple(Choice(value, value.title()) for value in values)
    return Option(option_id, option_id.title(), current, choices, category=category)


@asynccontextmanager
async def talking(
    choices: Choices | None = None,
    *,
    link: bool = True,
    ledger: MemoryLedger | None = None,
    changeable: frozenset[str] = frozenset(OPTION_IDS),
) -> AsyncIterator[tuple[Conversation, Choices]]:
    choices = choices or Choices()
    async with conversation(ledger=ledger, link=False) as talk:
        talk.gateway.answers |= {
            ReadOptions: choices.read,
            ChangeOption: choices.change,
            ListCommands: lambda _query: choices.commands,
            ReadTranscript: Transcript((), None, None, is_whole=True),
        }
        if link:
            await talk.gateway.up(changeable=changeable)
        yield talk, choices


async def new(talk: Conversation) -> Json:
    answer = await asyncio.wait_for(talk.bridge.new_session(NewSession(cwd="/w")), PATIENCE)
    conforms(schema.NewSessionResponse, answer)
    return answer


async def opened(talk: Conversation) -> SessionId:
    session = SessionId((await new(talk))["sessionId"])
    await talk.settle()
    return session


async def choose(talk: Conversation, session: SessionId, option_id: str, value: str) -> Json:
    request = SetOption(session, option_id, value)
    answer = await asyncio.wait_for(talk.bridge.set_option(request), PATIENCE)
    conforms(schema.SetSessionConfigOptionResponse, answer)
    return answer


def current(options: list[Json]) -> dict[str, str]:
    return {each["id"]: each["currentValue"] for each in options}


def told(talk: Conversation) -> list[Json]:
    """The updates about options, and the last list of commands by names."""
    return [u for _, u in talk.outbox.shown if u["sessionUpdate"] in STATE]


def kinds(talk: Conversation) -> list[str]:
    return [update["sessionUpdate"] for update in told(talk)]


def changes(talk: Conversation) -> list[ChangeOption]:
    return [query for query in talk.gateway.requests if isinstance(query, ChangeOption)]


@pytest.mark.requirement("ACP-85", "ACP-86", "C078")
async def test_the_answers_that_open_a_session_have_its_modes_and_options() -> None:
    ledger = MemoryLedger()
    async with talking(ledger=ledger) as (talk, choices):
        answer = await new(talk)
        session = SessionId(answer["sessionId"])
        assert current(answer["configOptions"]) == choices.chosen
        assert [each["category"] for each in answer["configOptions"]] == ["model", "thought_level"]
        assert answer["modes"]["currentModeId"] == "low"
        assert [mode["id"] for mode in answer["modes"]["availableModes"]] == list(LEVELS)
        assert changes(talk) == []
    choices.chosen["thought_level"] = "high"
    async with talking(choices, ledger=ledger) as (talk, _):
        request = OpenedSession(session, "/w")
        for answer in (
            await talk.bridge.load_session(request),
            await talk.bridge.resume_session(request),
        ):
            conforms(schema.LoadSessionResponse, answer)
            assert current(answer["configOptions"])["thought_level"] == "high"
            assert answer["modes"]["currentModeId"] == "high"


async def test_nothing_is_asked_or_offered_where_nothing_may_be_changed() -> None:
    async with talking(changeable=frozenset()) as (talk, _):
        assert (await new(talk)).keys() == {"sessionId"}
        assert ReadOptions not in {type(query) for query in talk.gateway.requests}


async def test_a_gateway_that_refuses_to_tell_costs_the_pickers_only() -> None:
    async with talking() as (talk, _):
        refused = GatewayRefused("unknown method")
        talk.gateway.answers |= {ReadOptions: refused, ListCommands: refused}
        session = await opened(talk)
        assert told(talk) == []
        talk.send(session)
        await talk.started()


async def test_a_slow_gateway_holds_up_no_session_and_tells_later() -> None:
    async with talking() as (talk, choices):
        answered = asyncio.get_running_loop().create_future()
        talk.gateway.answers[ReadOptions] = lambda _query: answered
        opening = asyncio.ensure_future(talk.bridge.new_session(NewSession(cwd="/w")))
        await talk.settle()
        assert not opening.done()
        talk.clock.advance(Deadlines().options)
        assert (await asyncio.wait_for(opening, PATIENCE)).keys() == {"sessionId"}
        await talk.settle()
        assert kinds(talk) == ["available_commands_update"]
        answered.set_result(choices.read())
        await talk.settle()
        update = told(talk)[-1]
        assert current(update["configOptions"]) == choices.chosen
        # ACP cannot name modes after the opening, so that none of them is said to hold either.
        assert kinds(talk) == ["available_commands_update", "config_option_update"]


@pytest.mark.requirement("C095")
async def test_one_list_of_commands_follows_each_opening() -> None:
    async with talking() as (talk, _):
        session = await opened(talk)
        request = OpenedSession(session, "/w")
        for count, reopen in enumerate((talk.bridge.load_session, talk.bridge.resume_session), 1):
            assert kinds(talk) == ["available_commands_update"] * count
            await reopen(request)
            assert len(told(talk)) == count, "it comes after the answer"
            await talk.settle()
        assert kinds(talk) == ["available_commands_update"] * 3
        assert told(talk)[-1]["availableCommands"] == [
            {"name": "help", "description": "Show commands."},
            {"name": "think", "description": "Set the level.", "input": {"hint": "[level]"}},
        ]
        assert [record for record in talk.outbox.records if record.record.kind == "update"] == []


@pytest.mark.requirement("C095")
async def test_after_a_reconnect_a_changed_list_of_commands_is_told_and_an_equal_one_not() -> None:
    async with talking() as (talk, choices):
        await opened(talk)
        for commands, count in (((HELP, THINK), 1), ((HELP,), 2)):
            choices.commands = commands
            await talk.gateway.down()
            await talk.gateway.up(changeable=frozenset(OPTION_IDS))
            await talk.settle()
            assert kinds(talk) == ["available_commands_update"] * count


async def test_a_session_that_was_loaded_offline_gets_all_once_the_link_is_back() -> None:
    ledger = MemoryLedger()
    async with talking(ledger=ledger) as (talk, choices):
        session = await opened(talk)
    async with talking(choices, ledger=ledger, link=False) as (talk, _):
        await talk.gateway.down(trouble=GatewayUnreachable())
        assert await talk.bridge.load_session(OpenedSession(session, "/w")) == {}
        await talk.settle()
        assert told(talk) == []
        await talk.gateway.up(changeable=frozenset(OPTION_IDS))
        await talk.settle()
        assert sorted(kinds(talk)) == ["available_commands_update", "config_option_update"]


@pytest.mark.requirement("ACP-87", "C077")
async def test_a_choice_is_answered_with_all_options_as_read_back() -> None:
    async with talking() as (talk, choices):
        session = await opened(talk)

        def maps_the_level(query: ChangeOption) -> None:
            choices.chosen |= {"model": query.value, "thought_level": "off"}

        talk.gateway.answers[ChangeOption] = maps_the_level
        answer = await choose(talk, session, "model", "m/two")
        assert changes(talk) == [ChangeOption(KEY, "model", "m/two")]
        assert current(answer["configOptions"]) == {"model": "m/two", "thought_level": "off"}
        assert kinds(talk) == ["available_commands_update", "current_mode_update"]
        assert told(talk)[-1]["currentModeId"] == "off"


@pytest.mark.requirement("ACP-90", "C077")
async def test_a_mode_and_its_option_change_together() -> None:
    async with talking() as (talk, _):
        session = await opened(talk)
        assert await talk.bridge.set_mode(SetMode(session, "high")) == {}
        assert kinds(talk)[1:] == ["config_option_update", "current_mode_update"]
        assert current(told(talk)[1]["configOptions"])["thought_level"] == "high"
        answer = await choose(talk, session, "thought_level", "off")
        assert current(answer["configOptions"])["thought_level"] == "off"
        assert told(talk)[-1] == {"sessionUpdate": "current_mode_update", "currentModeId": "off"}


@pytest.mark.parametrize(
    ("request_", "field", "allowed"),
    [
        (SetMode(SessionId("id-1"), "adaptive"), "modeId", list(LEVELS)),
        (SetMode(SessionId("id-1"), ""), "modeId", list(LEVELS)),
        (SetOption(SessionId("id-1"), "model", "m/six"), "value", ["m/one", "m/two"]),
        (SetOption(SessionId("id-1"), "timeout", "1"), "configId", ["model", "thought_level"]),
        (SetOption(SessionId("id-1"), "trace_level", "on"), "configId", ["model", "thought_level"]),
    ],
)
async def test_what_is_not_offered_is_refused_by_name_and_changes_nothing(
    request_: SetMode | SetOption, field: str, allowed: list[str]
) -> None:
    async with talking() as (talk, _):
        assert await opened(talk) == "id-1"
        with pytest.raises(InvalidParams) as refused:
            await ask(talk, request_)
        assert (refused.value.data["field"], refused.value.data["allowed"]) == (field, allowed)
        assert field in refused.value.message
        assert changes(talk) == []


async def test_a_switch_is_refused_where_no_option_is_one() -> None:
    async with talking() as (talk, _):
        await opened(talk)
        with pytest.raises(InvalidParams, match="must be a string") as refused:
            await talk.bridge.set_option(SetOption(SessionId("id-1"), "model", True))
        assert refused.value.data["field"] == "value"
        assert changes(talk) == []


async def ask(talk: Conversation, request: SetMode | SetOption) -> Json:
    if isinstance(request, SetMode):
        return await talk.bridge.set_mode(request)
    return await talk.bridge.set_option(request)


@pytest.mark.parametrize(
    "request_",
    [SetMode(SessionId("gone"), "low"), SetOption(SessionId("gone"), "model", "m/one")],
)
async def test_a_choice_for_an_unknown_session_is_not_found(request_: Any) -> None:
    async with talking() as (talk, _):
        with pytest.raises(SessionNotFound):
            await ask(talk, request_)


@pytest.mark.requirement("C077")
async def test_what_the_gateway_refuses_stays_as_it_was() -> None:
    async with talking() as (talk, choices):
        session = await opened(talk)
        choices.refusal = GatewayRefused("The level is not supported.")
        with pytest.raises(GatewayRefused, match="not supported"):
            await talk.bridge.set_mode(SetMode(session, "high"))
        assert kinds(talk) == ["available_commands_update"]
        choices.refusal = None
        answer = await choose(talk, session, "model", "m/two")
        assert current(answer["configOptions"])["thought_level"] == "low"


async def test_an_option_that_our_scopes_forbid_gets_the_gateways_own_answer() -> None:
    async with talking(changeable=frozenset({"model"})) as (talk, choices):
        session = await opened(talk)
        choices.refusal = ScopeMissing("missing", hint="--scopes", data={"scope": "operator.admin"})
        with pytest.raises(ScopeMissing) as missing:
            await choose(talk, session, "verbose_level", "full")
        assert missing.value.hint == "--scopes"


@pytest.mark.requirement("ACP-91")
async def test_options_change_while_a_turn_runs() -> None:
    async with talking() as (talk, _):
        session = await opened(talk)
        answer = talk.send(session)
        await talk.started()
        assert await talk.bridge.set_mode(SetMode(session, "high")) == {}
        assert not answer.is_answered


@pytest.mark.requirement("C078", "ACP-90")
async def test_a_change_made_elsewhere_is_told_once_and_nothing_if_all_is_as_before() -> None:
    async with talking() as (talk, choices):
        await opened(talk)
        await talk.gateway.emit(ev.OptionsChanged(KEY, (1,)))
        await talk.settle()
        assert kinds(talk) == ["available_commands_update"]
        choices.chosen["thought_level"] = "high"
        for mark in range(3):
            await talk.gateway.emit(ev.OptionsChanged(KEY, (mark,)))
        await talk.settle()
        assert kinds(talk)[1:] == ["config_option_update", "current_mode_update"]
        await talk.gateway.emit(ev.OptionsChanged(SessionKey("agent:main:other"), (1,)))
        await talk.settle()
        assert len(told(talk)) == 3


@pytest.mark.parametrize("by", ["an event", "a reading under way"])
async def test_a_choice_is_not_told_before_its_answer(by: str) -> None:
    async with talking() as (talk, choices):
        session = await opened(talk)
        loop = asyncio.get_running_loop()
        reading: asyncio.Future[Options] = loop.create_future()
        changed: asyncio.Future[None] = loop.create_future()

        def hold(query: ChangeOption) -> asyncio.Future[None]:
            choices.change(query)
            return changed

        talk.gateway.answers[ChangeOption] = hold
        if by != "an event":
            talk.gateway.answers[ReadOptions] = lambda _query: reading
            await talk.gateway.emit(ev.OptionsChanged(KEY, (1,)))
            await talk.settle()
            talk.gateway.answers[ReadOptions] = choices.read
        answer = asyncio.ensure_future(choose(talk, session, "thought_level", "high"))
        await talk.until(lambda: bool(changes(talk)))
        if by == "an event":
            await talk.gateway.emit(ev.OptionsChanged(KEY, (2,)))
        else:
            reading.set_result(choices.read())
        await talk.settle()
        assert kinds(talk) == ["available_commands_update"]
        changed.set_result(None)
        told_of = await asyncio.wait_for(answer, PATIENCE)
        assert current(told_of["configOptions"])["thought_level"] == "high"
        await talk.settle()
        assert kinds(talk) == ["available_commands_update", "current_mode_update"]


async def test_what_others_change_during_a_choice_is_told_after_its_answer() -> None:
    async with talking() as (talk, choices):
        session = await opened(talk)
        read: asyncio.Future[Options] = asyncio.get_running_loop().create_future()
        talk.gateway.answers[ReadOptions] = lambda _query: read
        answer = asyncio.ensure_future(choose(talk, session, "model", "m/two"))
        await talk.until(lambda: bool(changes(talk)))
        await talk.settle()
        before = choices.read()
        choices.chosen["thought_level"] = "high"
        await talk.gateway.emit(ev.OptionsChanged(KEY, (3,)))
        await talk.settle()
        talk.gateway.answers[ReadOptions] = choices.read
        read.set_result(before)
        told_of = await asyncio.wait_for(answer, PATIENCE)
        assert current(told_of["configOptions"])["thought_level"] == "low"
        await talk.settle()
        assert told(talk)[-1] == {"sessionUpdate": "current_mode_update", "currentModeId": "high"}


async def test_a_change_during_the_opening_is_told_after_its_answer() -> None:
    async with talking() as (talk, choices):
        before, answered = choices.read(), asyncio.get_running_loop().create_future()
        talk.gateway.answers[ReadOptions] = lambda _query: answered
        opening = asyncio.ensure_future(talk.bridge.new_session(NewSession(cwd="/w")))
        await talk.settle()
        choices.chosen["thought_level"] = "high"
        await talk.gateway.emit(ev.OptionsChanged(KEY, (1,)))
        await talk.settle()
        assert talk.outbox.shown == []
        talk.gateway.answers[ReadOptions] = choices.read
        answered.set_result(before)
        assert (await asyncio.wait_for(opening, PATIENCE))["modes"]["currentModeId"] == "low"
        await talk.settle()
        assert told(talk)[-1] == {"sessionUpdate": "current_mode_update", "currentModeId": "high"}


async def test_a_link_that_breaks_during_the_opening_costs_no_picker() -> None:
    async with talking() as (talk, choices):
        talk.gateway.answers[ReadOptions] = asyncio.get_running_loop().create_future()
        opening = asyncio.ensure_future(talk.bridge.new_session(NewSession(cwd="/w")))
        await talk.until(lambda: bool(talk.gateway.requests))
        up = asyncio.ensure_future(talk.gateway.down())
        talk.gateway.answers[ReadOptions] = choices.read
        await up
        await talk.gateway.up(changeable=frozenset(OPTION_IDS))
        assert (await asyncio.wait_for(opening, PATIENCE)).keys() == {"sessionId"}
        await talk.settle()
        assert sorted(kinds(talk)) == ["available_commands_update", "config_option_update"]


async def test_sessions_that_share_one_of_the_gateway_are_told_of_each_others_choices() -> None:
    async with talking() as (talk, _):
        first = await talk.session(sessionKey="shared")
        second = await talk.session(sessionKey="shared")
        await talk.settle()
        await talk.bridge.set_mode(SetMode(first, "high"))
        await talk.gateway.emit(ev.OptionsChanged(SessionKey("agent:main:shared"), (1,)))
        await talk.settle()
        for session in (first, second):
            mine = [u for shown_in, u in talk.outbox.shown if shown_in == session]
            assert [u["sessionUpdate"] for u in mine] == [
                "available_commands_update",
                "config_option_update",
                "current_mode_update",
            ]


async def test_an_answer_that_was_overtaken_by_a_later_one_is_not_told() -> None:
    async with talking() as (talk, choices):
        await opened(talk)
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Options]] = []

        def hold(_query: ReadOptions) -> asyncio.Future[Options]:
            answers.append(loop.create_future())
            return answers[-1]

        talk.gateway.answers[ReadOptions] = hold
        old = choices.read()
        for mark in range(2):
            await talk.gateway.emit(ev.OptionsChanged(KEY, (mark,)))
        await talk.until(lambda: len(answers) == 2)
        choices.chosen["thought_level"] = "high"
        answers[1].set_result(choices.read())
        await talk.settle()
        answers[0].set_result(old)
        await talk.settle()
        assert kinds(talk)[1:] == ["config_option_update", "current_mode_update"]


async def test_what_a_closed_session_had_asked_for_is_not_told() -> None:
    async with talking() as (talk, choices):
        session = await opened(talk)
        answered = asyncio.get_running_loop().create_future()
        talk.gateway.answers[ReadOptions] = lambda _query: answered
        await talk.gateway.emit(ev.OptionsChanged(KEY, (1,)))
        await talk.settle()
        await talk.bridge.close_session(session)
        choices.chosen["thought_level"] = "high"
        answered.set_result(choices.read())
        await talk.settle()
        assert kinds(talk) == ["available_commands_update"]
