"""What becomes of the blocks of a prompt.

The text forms are those of the reference bridge, measured, but for what it drops: the URI of a
resource, the name, type, size and description of a link, and blobs stay in the prompt.
"""

from __future__ import annotations

import base64
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.core.commands import Attachment
from acp_bridge.core.prompt import MAX_PROMPT, PreparedPrompt, prompt_to_message
from acp_bridge.errors import InvalidParams, PromptTooLarge
from acp_bridge.wire.content import escape_controls
from tests.support.vectors import vectors

PNG = base64.b64encode(b"\x89PNG fake").decode()


def prepared(*blocks: Any) -> PreparedPrompt:
    return prompt_to_message(blocks, cwd="/w", home=None, prefix_cwd=False)


def with_cwd(text: str, cwd: str, home: str | None = None) -> str:
    return prompt_to_message(
        [{"type": "text", "text": text}], cwd=cwd, home=home, prefix_cwd=True
    ).message


def refused(*blocks: Any) -> InvalidParams:
    with pytest.raises(InvalidParams) as error:
        prepared(*blocks)
    return error.value


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def image(**fields: Any) -> dict[str, Any]:
    return {"type": "image", "data": PNG, "mimeType": "image/png", **fields}


def link(uri: str, **fields: Any) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "n", **fields}


def resource(**fields: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": fields}


class TestText:
    @pytest.mark.parametrize(
        ("blocks", "expected"),
        [
            (args[0], result)
            for args, result in vectors("extractTextFromPrompt")
            if len(args) == 1 and all(b["type"] == "text" or b.get("uri") == "" for b in args[0])
        ],
    )
    def test_texts_are_joined_as_in_the_reference(self, blocks: list[Any], expected: str) -> None:
        for block in blocks:
            block.pop("name", None)
        assert prepared(*blocks).message == expected

    @pytest.mark.requirement("C075")
    def test_all_parts_stay_in_order(self) -> None:
        prompt = prepared(
            text("Look at"),
            resource(uri="file:///w/a.py", text="x = 1\n"),
            link("file:///w/b.py", name="b.py"),
            text("and fix it"),
        )
        assert prompt.message == (
            "Look at\n[Resource] file:///w/a.py\nx = 1\n\n"
            "[Resource link] file:///w/b.py\nand fix it"
        )
        assert prompt.attachments == ()

    @pytest.mark.requirement("C075")
    def test_a_resource_without_an_address_keeps_its_text(self) -> None:
        assert prepared(resource(text="body")).message == "body"
        assert prepared(resource(uri="a\nb", text="body")).message == "[Resource] a\\nb\nbody"

    def test_half_a_pair_is_no_crash(self) -> None:
        prompt = prepared(text("a\ud83d"), resource(uri="u\ud83d", text="b\ude00"))
        assert prompt.message == "a\ufffd\n[Resource] u\ufffd\nb\ufffd"

    @pytest.mark.parametrize("blocks", [(), (text(""),), (text(" \n"), text(""))])
    def test_an_empty_prompt_is_refused(self, blocks: tuple[Any, ...]) -> None:
        assert refused(*blocks).data == {"field": "prompt"}


class TestLinks:
    @pytest.mark.parametrize(
        ("blocks", "expected"),
        [
            (args[0], result)
            for args, result in vectors("extractTextFromPrompt")
            if all(b["type"] == "resource_link" for b in args[0])
        ],
    )
    def test_links_are_written_as_in_the_reference_and_their_name_is_kept(
        self, blocks: list[Any], expected: str
    ) -> None:
        assert prepared(*blocks).message == f"{expected} (n)"

    @pytest.mark.requirement("C075")
    def test_what_else_is_known_of_a_link_is_kept(self) -> None:
        known = link(
            "file:///w/a.py",
            name="A",
            title="The file",
            mimeType="text/x-python",
            size=1234,
            description="main\nmodule",
        )
        assert prepared(known).message == (
            "[Resource link (The file)] file:///w/a.py (A, text/x-python, 1,234 bytes): "
            "main\\nmodule"
        )

    @pytest.mark.parametrize(
        "fields",
        [
            {"name": "a.py"},
            {"name": "file:///w/a.py"},
            {"name": " ", "title": "", "size": -1, "description": None},
            {"name": 7, "size": True, "mimeType": []},
        ],
    )
    def test_what_says_nothing_new_is_left_out(self, fields: dict[str, Any]) -> None:
        assert prepared(link("file:///w/a.py", **fields)).message == (
            "[Resource link] file:///w/a.py"
        )

    def test_a_title_cannot_end_its_brackets(self) -> None:
        shown = prepared(link("u", name="u", title="x)] file:///etc")).message
        assert shown == "[Resource link (x\\)\\] file:///etc)] u"


class TestAttachments:
    @pytest.mark.requirement("C074")
    def test_an_image_alone_is_a_prompt(self) -> None:
        prompt = prepared(image())
        assert prompt == PreparedPrompt("", (Attachment("image", "image/png", PNG),))

    @pytest.mark.requirement("C074")
    def test_images_keep_their_order_and_bytes(self) -> None:
        second = image(mimeType="image/jpeg", uri="file:///w/a%20b.jpg")
        prompt = prepared(text("two"), image(), second)
        assert prompt.message == "two"
        assert prompt.attachments == (
            Attachment("image", "image/png", PNG),
            Attachment("image", "image/jpeg", PNG, "a b.jpg"),
        )

    @pytest.mark.requirement("C074")
    def test_a_data_url_is_unwrapped(self) -> None:
        url = f"data:image/webp;name=x;base64,{PNG}"
        assert prepared(image(data=url)).attachments[0].content == PNG
        bare = {"type": "image", "data": url}
        assert prepared(bare).attachments == (Attachment("image", "image/webp", PNG),)

    @pytest.mark.requirement("C074")
    @pytest.mark.requirement("C076")
    @pytest.mark.parametrize(
        ("mime_type", "kind"), [("image/png", "image"), ("application/pdf", "file")]
    )
    def test_a_blob_goes_beside_the_text_that_names_it(self, mime_type: str, kind: str) -> None:
        prompt = prepared(
            text("see"), resource(uri="file:///w/doc%20x.bin?q#f", blob=PNG, mimeType=mime_type)
        )
        assert prompt.message == "see\n[Attached resource] file:///w/doc%20x.bin?q#f"
        assert prompt.attachments == (Attachment(kind, mime_type, PNG, "doc x.bin"),)

    def test_a_blob_without_type_or_address_is_a_file(self) -> None:
        prompt = prepared(resource(blob=PNG))
        assert prompt.message == ""
        assert prompt.attachments == (Attachment("file", "application/octet-stream", PNG),)

    @pytest.mark.parametrize("uri", ["file:///", "file:///..", "http://[bad", "", 7, None])
    def test_an_address_without_a_file_name_gives_none(self, uri: Any) -> None:
        assert prepared(image(uri=uri)).attachments[0].file_name is None

    def test_a_file_name_is_one_short_line(self) -> None:
        name = prepared(image(uri="file:///" + "a%0A" * 200)).attachments[0].file_name
        assert name is not None
        assert "\n" not in name
        assert len(name) <= 200


class TestRefusals:
    @pytest.mark.requirement("C074")
    @pytest.mark.requirement("C076")
    @pytest.mark.requirement("ACP-60")
    @pytest.mark.parametrize(
        ("block", "member"),
        [
            ({"type": "audio", "data": PNG, "mimeType": "audio/wav"}, "type"),
            ({"type": "foo"}, "type"),
            ({"type": "foo\n\ud83d" * 1_000}, "type"),
            ({"type": 7}, "type"),
            ({}, "type"),
            (None, "type"),
            ("text", "type"),
            ([], "type"),
            ({"type": "text"}, "text"),
            ({"type": "text", "text": None}, "text"),
            (image(data=""), "data"),
            (image(data="data:image/png;base64,"), "data"),
            (image(data="%%%"), "data"),
            (image(data="AAA"), "data"),
            (image(data="AAAA===="), "data"),
            (image(data="ÄÖ=="), "data"),
            (image(data="data:image/png,plain"), "data"),
            (image(data=None), "data"),
            (image(mimeType=None), "mimeType"),
            (image(mimeType=" "), "mimeType"),
            (link(7), "uri"),  # type: ignore[arg-type]  # what an editor may send
            ({"type": "resource"}, "resource"),
            (resource(uri="u"), "resource"),
            (resource(uri="u", text=7), "resource"),
            (resource(uri="u", blob=""), "resource.blob"),
            (resource(uri="u", blob="?"), "resource.blob"),
            (resource(uri="u", blob=[]), "resource.blob"),
        ],
    )
    def test_what_cannot_be_sent_is_refused_by_place_and_name(
        self, block: Any, member: str
    ) -> None:
        error = refused(text("a"), text("b"), block)
        assert error.data == {"field": f"prompt[2].{member}"}
        assert error.message.startswith(f"prompt[2].{member} ")
        assert len(error.message) < 500
        error.message.encode()

    @pytest.mark.requirement("C076")
    def test_the_refusal_says_which_type_it_was(self) -> None:
        assert "'audio'" in refused({"type": "audio"}).message


class TestSize:
    def test_two_mebibytes_are_taken(self) -> None:
        assert len(prepared(text("x" * MAX_PROMPT)).message) == MAX_PROMPT

    @pytest.mark.parametrize(
        "blocks",
        [
            [text("x" * (MAX_PROMPT + 1))],
            [text("é" * (MAX_PROMPT // 2)), text("x")],
            [text("x" * MAX_PROMPT), text("")],
            [resource(uri="u", text="x" * MAX_PROMPT)],
            [link("u" * MAX_PROMPT)],
        ],
    )
    def test_one_byte_more_is_refused_with_both_sizes(self, blocks: list[Any]) -> None:
        with pytest.raises(PromptTooLarge) as error:
            prepared(*blocks)
        assert error.value.data["limit"] == MAX_PROMPT
        assert error.value.data["size"] > MAX_PROMPT
        assert f"{error.value.data['size']:,}" in error.value.message
        assert "2,097,152" in error.value.message

    def test_too_much_text_is_refused_before_anything_else_is_read(self) -> None:
        with pytest.raises(PromptTooLarge):
            prepared(text("x" * (MAX_PROMPT + 1)), {"type": "audio"})

    def test_the_prefix_counts(self) -> None:
        with pytest.raises(PromptTooLarge):
            with_cwd("x" * MAX_PROMPT, "/w")

    def test_attachments_do_not_count_as_text(self) -> None:
        assert prepared(image(data="A" * (MAX_PROMPT * 2))).attachments


class TestWorkingDirectory:
    @pytest.mark.requirement("C096")
    @pytest.mark.parametrize(
        ("cwd", "home", "shown"),
        [
            ("/srv/x", None, "/srv/x"),
            ("/home/me", "/home/me", "~"),
            ("/home/me/x", "/home/me/", "~/x"),
            ("/home/merlin/x", "/home/me", "/home/merlin/x"),
            ("/x", "/", "/x"),
            ("C:\\Users\\me\\x", "C:\\Users\\me", "~\\x"),
            ("/w/a\nb\x1b'\"", None, "/w/a\\nb\\x1b'\""),
        ],
    )
    def test_it_goes_before_the_prompt_on_one_line(
        self, cwd: str, home: str | None, shown: str
    ) -> None:
        assert with_cwd("hi", cwd, home) == f"[Working directory: {shown}]\n\nhi"

    @pytest.mark.requirement("C096")
    @pytest.mark.parametrize("command", ["/status", "  /think high", "\n/stop"])
    def test_a_slash_command_stays_at_the_start(self, command: str) -> None:
        assert with_cwd(command, "/w") == command

    def test_an_image_alone_gets_it_too(self) -> None:
        prompt = prompt_to_message([image()], cwd="/w", home=None, prefix_cwd=True)
        assert prompt.message == "[Working directory: /w]\n\n"


KNOWN_BLOCKS = st.one_of(
    st.builds(text, st.text()),
    st.builds(lambda uri, body: resource(uri=uri, text=body), st.text(), st.text()),
    st.builds(lambda uri, title: link(uri, title=title), st.text(), st.text()),
    st.builds(lambda data: image(data=base64.b64encode(data).decode()), st.binary(min_size=1)),
)
ODD_BLOCKS = st.dictionaries(
    st.sampled_from(["type", "text", "uri", "data", "resource", "mimeType"]),
    st.none() | st.text() | st.sampled_from(["text", "image", "resource", "resource_link"]),
)


@given(st.lists(KNOWN_BLOCKS, max_size=6), st.booleans())
@pytest.mark.requirement("C075")
def test_whatever_the_blocks_hold_is_sent_in_order(blocks: list[Any], prefix_cwd: bool) -> None:
    asked = [text("."), *blocks]
    prompt = prompt_to_message(asked, cwd="/w", home="/", prefix_cwd=prefix_cwd)
    prompt.message.encode()
    at = 0
    for block in blocks:
        inner = block["resource"] if block["type"] == "resource" else block
        for part in (escape_controls(inner.get("uri") or ""), inner.get("text") or ""):
            at = prompt.message.index(part, at) + len(part)
    images = [block["data"] for block in blocks if block["type"] == "image"]
    assert [attachment.content for attachment in prompt.attachments] == images


@given(st.lists(KNOWN_BLOCKS | ODD_BLOCKS, max_size=6))
def test_odd_blocks_are_sent_or_refused_and_break_nothing(blocks: list[Any]) -> None:
    with contextlib.suppress(InvalidParams):
        prepared(*blocks).message.encode()
