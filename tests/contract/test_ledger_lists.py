"""What every ledger promises: finding and listing sessions."""

from __future__ import annotations

import pytest

from ledger import DeleteSession, EventLedger, Incomplete, Page, SessionRecord, normal_path
from tests.support.ledgers import entry, session


def ids(found: list[SessionRecord]) -> list[str]:
    return [record.session_id for record in found]


def test_a_session_is_found_by_id_and_key_together(ledger: EventLedger) -> None:
    ledger.write([session("s1"), session("s2")])
    found = ledger.find("s1", "agent:s1")
    assert found is not None
    assert found.session_id == "s1"
    assert ledger.find("s1", "agent:s2") is None
    assert ledger.find("s3", "agent:s1") is None


def test_the_session_of_a_key_is_the_complete_one_updated_last(ledger: EventLedger) -> None:
    for number, at in enumerate([1000, 3000, 2000, 4000]):
        ledger.write([session(f"s{number}", at, session_key="k")])
    ledger.write([Incomplete("s3"), session("other", 9000)])
    found = ledger.find_by_key("k")
    assert found is not None
    assert found.session_id == "s1"
    ledger.write([Incomplete(f"s{number}") for number in range(3)])
    found = ledger.find_by_key("k")
    assert found is not None
    assert found.session_id == "s3"


def test_sessions_are_listed_updated_last_first_and_then_by_id(ledger: EventLedger) -> None:
    ledger.write([session("b", 1000), session("a", 1000), session("c", 2000), session("d", 500)])
    ledger.write([entry("x", "d", at=3000)])
    assert ids(ledger.list_sessions(Page())) == ["d", "c", "a", "b"]


def test_a_list_shows_what_is_stored(ledger: EventLedger) -> None:
    ledger.write([session(), entry("one")])
    [listed] = ledger.list_sessions(Page())
    replay = ledger.read("s1")
    assert replay is not None
    assert listed == replay.session


@pytest.mark.requirement("C058")
def test_every_session_is_listed_once_whatever_comes_and_goes_between_pages(
    ledger: EventLedger,
) -> None:
    names = [f"s{number:03}" for number in range(120)]
    ledger.write([session(name, 1000) for name in names])
    seen: list[str] = []
    after: tuple[int, str] | None = None
    while page := ledger.list_sessions(Page(limit=7, after=after)):
        assert len(page) <= 7
        seen += ids(page)
        after = (page[-1].updated_at, page[-1].session_id)
        ledger.write([session(f"new{len(seen)}", 5000), DeleteSession(seen[-2])])
    assert seen == names


@pytest.mark.parametrize(
    "asked",
    ["/w/project", "/w/project/", "//w//project", "/w/./x/../project"],
)
@pytest.mark.requirement("C058", "C059")
def test_the_sessions_of_a_directory_are_listed_however_it_is_written(
    ledger: EventLedger, asked: str
) -> None:
    ledger.write(
        [
            session("s1", cwd="/w/project"),
            session("s2", cwd="/w/project/", at=2000),
            session("s3", cwd="/w/project/sub"),
            session("s4", cwd="/w/Project"),
            session("s5", cwd="/w/project2"),
        ]
    )
    found = ledger.list_sessions(Page(cwd=asked))
    assert ids(found) == ["s2", "s1"]
    assert [record.cwd for record in found] == ["/w/project/", "/w/project"]


def test_a_session_that_moved_is_listed_where_it_is_now(ledger: EventLedger) -> None:
    ledger.write([session(cwd="/w/old"), session(cwd="/w/new")])
    assert ids(ledger.list_sessions(Page(cwd="/w/old"))) == []
    assert ids(ledger.list_sessions(Page(cwd="/w/new"))) == ["s1"]


def test_the_directory_is_sought_before_the_page_is_cut(ledger: EventLedger) -> None:
    ledger.write([session(f"a{n}", 2000, cwd="/w/a") for n in range(5)])
    ledger.write([session(f"b{n}", 1000, cwd="/w/b") for n in range(5)])
    first = ledger.list_sessions(Page(limit=3, cwd="/w/b"))
    assert ids(first) == ["b0", "b1", "b2"]
    rest = ledger.list_sessions(Page(limit=3, cwd="/w/b", after=(1000, "b2")))
    assert ids(rest) == ["b3", "b4"]


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/a/../..", "/"),
        ("relative/./x", "relative/x"),
        ("C:\\Users\\Me\\", "c:\\users\\me"),
        ("c:/users/ME/x/..", "c:\\users\\me"),
        ("\\\\Server\\Share\\d", "\\\\server\\share\\d"),
    ],
)
def test_a_directory_has_one_normal_name(path: str, normal: str) -> None:
    assert normal_path(path) == normal
    assert normal_path(normal) == normal
