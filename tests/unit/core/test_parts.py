"""Prompts for a gateway that speaks ACP, and how it stores them."""

from __future__ import annotations

import base64

import pytest

from acp_bridge.core.naming import named
from acp_bridge.core.parts import (
    MAX_BLOB,
    ZEROCLAW,
    Takes,
    prompt_to_parts,
    stored_as,
    without_time,
)
from acp_bridge.core.replay import Recorded
from acp_bridge.core.transcript import PastTurn, SaidText, Transcript
from acp_bridge.errors import InvalidParams, LinkLost, OutcomeUnknown, PromptTooLarge, to_jsonrpc
from acp_bridge.ids import Json, RunId

TEXT: Json = {"type": "text", "text": "look (at) this", "annotations": {"x": 1}}
LINK: Json = {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"}
IMAGE: Json = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
AUDIO: Json = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}


def resource(**fields: str) -> Json:
    return {"type": "resource", "resource": {"uri": "file:///c.bin", **fields}}


def test_an_agent_that_takes_all_gets_all_unchanged() -> None:
    blocks = [TEXT, LINK, IMAGE, AUDIO, resource(text="inside"), resource(blob="AAAA")]
    assert prompt_to_parts(blocks, Takes(image=True, audio=True)) == tuple(blocks)


@pytest.mark.parametrize(("block", "said"), [(IMAGE, "no images"), (AUDIO, "no audio")])
def test_what_would_be_dropped_is_refused_by_name_and_place(block: Json, said: str) -> None:
    with pytest.raises(InvalidParams, match=said) as caught:
        prompt_to_parts([TEXT, block], ZEROCLAW)
    assert caught.value.data["field"] == "prompt[1].type"


def test_links_and_addresses_become_text_where_they_would_be_lost() -> None:
    link, inside = prompt_to_parts([LINK, resource(text="inside")], ZEROCLAW)
    assert link == {"type": "text", "text": "[Resource link] file:///a.py"}
    assert inside["resource"]["text"] == "[Resource] file:///c.bin\ninside"


def test_a_data_url_becomes_plain_base64() -> None:
    (part,) = prompt_to_parts([resource(blob="data:image/png;base64,AAAA")], ZEROCLAW)
    assert part["resource"]["blob"] == "AAAA"
    assert part["resource"]["mimeType"] == "image/png"


def test_a_file_over_the_limit_is_refused_before_it_is_sent() -> None:
    fits = base64.b64encode(bytes(MAX_BLOB)).decode()
    prompt_to_parts([resource(blob=fits)], ZEROCLAW)
    too_large = base64.b64encode(bytes(MAX_BLOB + 1)).decode()
    with pytest.raises(PromptTooLarge) as caught:
        prompt_to_parts([resource(blob=too_large)], ZEROCLAW)
    assert caught.value.data["size"] == MAX_BLOB + 1
    prompt_to_parts([resource(blob=too_large)], Takes())


@pytest.mark.parametrize("blob", ["", "A", "A===", "no base64"])
def test_a_file_that_is_no_base64_is_refused(blob: str) -> None:
    with pytest.raises(InvalidParams):
        prompt_to_parts([resource(blob=blob)], ZEROCLAW)


def test_a_stored_prompt_is_known_by_its_text_and_places_of_files() -> None:
    parts = prompt_to_parts([TEXT, resource(blob="AAAA"), LINK], ZEROCLAW)
    prompt = stored_as(parts)
    text = "look (at) this\n\n[Document: c.bin] /w/uploads/x\n\n[Resource link] file:///a.py"
    assert prompt.matches(text)
    assert prompt.matches(text.replace("[Document: c.bin] /w/", "[IMAGE:/w/"))
    for other in (text + "!", text.replace("\n\n", "\n", 1), text.replace("[Doc", "[Dok"), ""):
        assert not prompt.matches(other)
    assert not prompt.matches(text.partition("\n\n")[0])
    assert stored_as([IMAGE]).matches("")
    assert not stored_as([IMAGE]).matches("x")


def test_a_stored_prompt_is_told_without_its_time() -> None:
    assert without_time("[2026-11-30 22:00:00 UTC] [x] hello") == "[x] hello"
    assert without_time("[2026-11-30] hello") == "[2026-11-30] hello"


# --- naming turns by their prompts ------------------------------------------------------------


def prompt(run: str, text: str) -> Recorded:
    return Recorded("prompt", {"prompt": [{"type": "text", "text": text}]}, RunId(run), 0)


def outcome(run: str, **payload: object) -> Recorded:
    return Recorded("outcome", payload, RunId(run), 0)


def transcript(*prompts: str, is_nameless: bool = True) -> Transcript:
    turns = tuple(
        PastTurn(None, None, text, (), (SaidText("x"),), "end_turn", None) for text in prompts
    )
    return Transcript(turns, None, None, is_whole=True, is_nameless=is_nameless)


def names(*prompts: str, entries: list[Recorded]) -> list[str | None]:
    return [turn.run_id for turn in named(transcript(*prompts), entries).turns]


def test_turns_get_the_names_of_the_runs_with_their_prompts_in_order() -> None:
    entries = [prompt("1", "a"), prompt("2", "go on"), prompt("3", "go on"), prompt("4", "b")]
    assert names("a", "go on", "other", "go on", "b", entries=entries) == ["1", "2", None, "3", "4"]


def test_runs_that_were_not_stored_are_passed_over() -> None:
    entries = [
        prompt("1", "go on"),
        outcome("1", stop_reason="cancelled"),
        prompt("2", "go on"),
        outcome("2", error=to_jsonrpc(InvalidParams())),
        Recorded("prompt", {"prompt": [IMAGE]}, RunId("3"), 0),
        prompt("4", "go on"),
        outcome("4", stop_reason="end_turn"),
    ]
    assert names("go on", entries=entries) == ["4"]


@pytest.mark.parametrize("error", [OutcomeUnknown(), LinkLost()])
def test_a_run_whose_end_nobody_knew_may_have_been_stored(error: Exception) -> None:
    entries = [prompt("1", "go on"), outcome("1", error=to_jsonrpc(error))]
    assert names("go on", entries=entries) == ["1"]


def test_a_transcript_with_names_keeps_them() -> None:
    kept = transcript("a", is_nameless=False)
    assert named(kept, [prompt("1", "a")]) is kept


def test_the_pattern_takes_the_prompt_as_it_is() -> None:
    assert stored_as([TEXT]).matches("look (at) this")
