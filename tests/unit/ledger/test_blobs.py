"""Large base64 data, taken out of a payload and put back."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.blobs import MIN_LENGTH, extract, references, restore
from ledger.codec import decode, encode

DATA = bytes(range(256)) * 20
IMAGE = base64.b64encode(DATA).decode()


def roundtrip(payload: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """Extract and restore; the payload must be what it was."""
    text, blobs = extract(encode(payload))
    stored = decode(text)
    assert references(stored) == set(blobs)
    restore(stored, blobs)
    assert stored == payload
    return text, blobs


@pytest.mark.parametrize(
    "payload",
    [
        {"prompt": [{"type": "image", "mimeType": "image/png", "data": IMAGE}]},
        {"prompt": [{"type": "resource", "resource": {"uri": "u", "blob": IMAGE}}]},
        {"rawOutput": {"deep": [[{"data": IMAGE}, {"data": IMAGE, "blob": IMAGE}]]}},
        {"data": IMAGE},
    ],
    ids=["image", "resource", "nested, several times", "top"],
)
def test_base64_is_stored_once_and_beside_the_payload(payload: dict[str, Any]) -> None:
    text, blobs = roundtrip(payload)
    assert list(blobs.values()) == [DATA]
    assert len(text) < 500


@pytest.mark.parametrize(
    "payload",
    [
        {"text": IMAGE},
        {"data": IMAGE[: MIN_LENGTH - 4]},
        {"data": "x" * 5000 + "!"},
        {"data": IMAGE[:-1]},
        {"data": "ÄÖÜ" * 5000},
        {"data": ["x" * 5000]},
        {"data": IMAGE, "blob": {"$blob": "not one of ours"}},
        {"data": IMAGE[:-2] + "R==", "text": "not the usual last character"},
    ],
    ids=["elsewhere", "short", "no base64", "cut", "not ascii", "list", "looks done", "unusual"],
)
def test_all_else_stays_in_the_payload(payload: dict[str, Any]) -> None:
    text, blobs = extract(encode(payload))
    assert (text, blobs) == (encode(payload), {})


@given(
    st.recursive(
        st.sampled_from([IMAGE, IMAGE[:100], base64.b64encode(DATA[1:]).decode(), None, 1]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["data", "blob", "x"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_a_payload_of_any_shape_comes_back_equal(value: Any) -> None:
    roundtrip({"value": value})


def test_a_missing_blob_is_no_silent_loss() -> None:
    text, _ = extract(encode({"data": IMAGE}))
    with pytest.raises(KeyError):
        restore(decode(text), {})
