"""What a gateway says of its chunks stays with them: live, recorded, and in a replay."""

from __future__ import annotations

from acp_bridge.core import events as ev
from acp_bridge.core.commands import ReadTranscript
from acp_bridge.core.marks import Marks
from acp_bridge.core.transcript import Transcript
from acp_bridge.ids import Json, RunId, SessionId
from acp_bridge.wire.acp import OpenedSession
from tests.support.service import Conversation, conversation


def said(run: RunId, text: str, message: str | None = None, **meta: int) -> ev.TextProgress:
    extras: Json = {"_meta": meta} if meta else {}
    return ev.TextProgress(run, text, False, None, Marks(message, extras))


def thought(run: RunId, text: str, message: str) -> ev.ThoughtProgress:
    return ev.ThoughtProgress(run, text, None, Marks(message))


async def held(talk: Conversation) -> SessionId:
    session = await talk.session()
    answer = talk.send(session)
    run = (await talk.started()).run_id
    await talk.gateway.emit(
        thought(run, "a", "t1"), thought(run, "b", "t1"), thought(run, "c", "t2")
    )
    await talk.gateway.emit(said(run, "one", "m1"), said(run, " two", "m1"))
    await talk.gateway.emit(said(run, "three", "m2", x=1), said(run, " four", "m2", x=2))
    await talk.gateway.emit(ev.RunEnded(run, ev.EndKind.FINISHED, extras={"u": 1}))
    assert await answer.stop_reason() == "end_turn"
    return session


def messages(talk: Conversation) -> list[tuple[str, Json]]:
    return [
        (update["content"]["text"], update["_meta"])
        for _, update in talk.outbox.shown
        if update["sessionUpdate"] in ("agent_message_chunk", "agent_thought_chunk")
    ]


def ours(message: str, **meta: int) -> Json:
    return {"acpBridge": {"messageId": message}, **meta}


async def test_a_changed_name_begins_a_message_and_a_replay_joins_what_is_marked_alike() -> None:
    async with conversation() as talk:
        session = await held(talk)
        assert talk.text(session) == "one twothree four"
        by_name: dict[str, set[str]] = {}
        for _, update in talk.outbox.shown:
            name = update.get("_meta", {}).get("acpBridge", {}).get("messageId")
            by_name.setdefault(name, set()).add(str(update.get("messageId")))
        names = [by_name[name] for name in ("t1", "t2", "m1", "m2")]
        assert [len(each) for each in names] == [1, 1, 1, 1]
        assert len(set.union(*names)) == 4
        ledger = talk.ledger
    async with conversation(ledger=ledger) as later:
        later.gateway.answers[ReadTranscript] = Transcript((), None, None, True, True)
        await later.bridge.load_session(OpenedSession(session, "/home/me/project"))
        assert messages(later) == [
            ("ab", ours("t1")),
            ("c", ours("t2")),
            ("one two", ours("m1")),
            ("three", ours("m2", x=1)),
            (" four", ours("m2", x=2)),
        ]
