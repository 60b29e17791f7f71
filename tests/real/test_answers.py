"""What the agent says and how a turn ends, against real gateways."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path

import pytest

from tests.real.conftest import TURN, Bridge
from tests.real.gateway import Gateway
from tests.real.model_script import FULL_ANSWER, THOUGHT, counted

pytestmark = [pytest.mark.real_gateway, pytest.mark.timeout(180)]

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
        "0000000c49444154789c63f8cfc000000301010018dd8db00000000049454e44ae426082"
    )
).decode()


async def test_an_answer_arrives_exactly(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:echo N=12")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert turn.texts == [counted("chunk-", 12)]


async def test_thoughts_are_shown_apart_from_the_answer(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:think")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert turn.text == FULL_ANSWER
        # 2026.6.11 never sends thoughts while it runs.
        assert turn.thoughts.strip() == ("" if gateway.is_old else "".join(THOUGHT).strip())


async def test_a_failed_model_call_is_shown_and_fails_the_prompt(
    bridge: Bridge, gateway: Gateway, tmp_path: Path
) -> None:
    # 2026.9.6 tries for 70 s before it gives up on a status of 500.
    statuses = [400, 500] if gateway.is_old else [400]
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        for status in statuses:
            turn = editor.prompt(session, f"fake:error {status}")
            error = await turn.error(TURN)
            assert error.data["code"] == "run_failed"
            assert turn.text == error.message
        after = editor.prompt(session, "fake:say still here")
        assert await after.stop_reason(TURN) == "end_turn"
        assert after.text == "still here"


async def test_an_empty_reply_of_the_model_is_told(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:empty")
        await turn.answer(TURN)
        assert "couldn't generate a response" in turn.text


async def test_a_prompt_right_after_a_failed_one_gets_its_own_answer(
    bridge: Bridge, tmp_path: Path
) -> None:
    # For 2026.6.11 a failed run goes on for 200 ms after its first error: a prompt sent then is
    # acknowledged, ended without a word, and fed into the one after it.
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        for failing in ("fake:empty", "fake:error 400", "fake:empty"):
            await editor.prompt(session, failing).answer(TURN)
            for said in ("this", "that"):
                turn = editor.prompt(session, f"fake:say {said} after {failing[5:]}")
                assert await turn.stop_reason(TURN) == "end_turn"
                assert turn.texts == [f"{said} after {failing[5:]}"]


async def test_two_sessions_at_once_do_not_mix(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        left = await editor.open(tmp_path)
        right = await editor.new_session(tmp_path)
        turns = [
            editor.prompt(left, "fake:slow N=30 MS=40"),
            editor.prompt(right, "fake:echo N=30"),
        ]
        assert await asyncio.gather(*(t.stop_reason(TURN) for t in turns)) == ["end_turn"] * 2
        assert [t.texts for t in turns] == [[counted("slow-", 30)], [counted("chunk-", 30)]]


async def test_an_image_reaches_the_model(bridge: Bridge, tmp_path: Path) -> None:
    image = {"type": "image", "mimeType": "image/png", "data": PIXEL}
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:image", image)
        assert await turn.stop_reason(TURN) == "end_turn"
        assert turn.text == "images=1"


async def test_a_slash_command_is_answered_by_the_gateway(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "/status")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert "fake-1" in turn.text


async def test_stop_with_nothing_to_stop_is_answered(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        turn = editor.prompt(session, "/stop")
        assert await turn.stop_reason(TURN) in ("end_turn", "cancelled")
        after = editor.prompt(session, "fake:say and on")
        assert await after.stop_reason(TURN) == "end_turn"
        assert after.text == "and on"


async def test_a_prompt_of_one_mebibyte_arrives_unharmed(bridge: Bridge, tmp_path: Path) -> None:
    body = "".join(f"line {index:06d} äöü €\n" for index in range(1 << 20))[: 1 << 20]
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), f"fake:digest\n<<<{body}>>>")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert turn.text == f"digest={hashlib.sha256(body.encode()).hexdigest()}"


async def test_a_flood_of_chunks_arrives_exactly(bridge: Bridge, tmp_path: Path) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:flood N=2000")
        assert await turn.stop_reason(TURN) == "end_turn"
        assert turn.texts == [counted("", 2000)]


async def test_a_rewritten_answer_is_shown_once_as_a_message_of_its_own(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        turn = editor.prompt(await editor.open(tmp_path), "fake:replace")
        assert await turn.stop_reason(TURN) == "end_turn"
        # The gateway strips the first line, which looks like a leaked tool result.
        assert turn.texts[-1] == "2\n3\n\nMore text."
        assert turn.text.count("More text.") == 1


async def test_the_same_prompt_again_and_again_is_answered_each_time(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        session = await editor.open(tmp_path)
        for _ in range(4):
            turn = editor.prompt(session, "fake:say once more")
            assert await turn.stop_reason(TURN) == "end_turn"
            assert turn.texts == ["once more"]


async def test_the_same_prompt_in_two_sessions_is_answered_in_both(
    bridge: Bridge, tmp_path: Path
) -> None:
    async with bridge() as editor:
        sessions = [await editor.open(tmp_path), await editor.new_session(tmp_path)]
        turns = [editor.prompt(session, "fake:echo N=20") for session in sessions]
        assert await asyncio.gather(*(t.stop_reason(TURN) for t in turns)) == ["end_turn"] * 2
        assert [t.text for t in turns] == [counted("chunk-", 20)] * 2
