"""The rows of sessions: queries that are refused, and changes that events make."""

import pytest
from msgspec import structs

from callboard.actors.protocol.client_messages import (
    Ask,
    AskEnded,
    Cancel,
    Forked,
    Resumed,
    SessionClosed,
    SessionOpened,
)
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.log.session_rows import (
    NO_CHANGE,
    Details,
    RowChange,
    SessionQuery,
    SessionRow,
    change_of,
    details_of,
)


def of(*bodies: object) -> RowChange:
    return change_of([Event(1, 1, "client", "supervisor", 0, body) for body in bodies])  # type: ignore[arg-type]  # messages


REOPENED = Resumed(1, reopens=True)
ASK, ENDED = Ask("a", Json(b'"go"')), AskEnded("a", "answered")


def test_events_among_agents_change_nothing() -> None:
    assert of(Cancel(), DelegationEnded(1, 0, "reported"), DelegationEnded(1, 1, "lost_race")) is NO_CHANGE


def test_failures_count_from_the_last_ask_on() -> None:
    failed = DelegationEnded(1, 0, "budget")
    assert of(failed, failed).failures_after(3) == 5
    assert of(failed, ASK, failed).failures_after(3) == 1
    assert of(ENDED, SessionClosed()).failures_after(3) == 3


@pytest.mark.parametrize(
    ("bodies", "before", "after"),
    [
        ((ASK,), "open", "unfinished"),
        ((ASK, ENDED), "open", "open"),
        ((ENDED, SessionClosed()), "unfinished", "closed"),
        ((Resumed(1),), "closed", "closed"),
        ((REOPENED,), "closed", "open"),
        ((Resumed(1),), "unfinished", "unfinished"),
        ((REOPENED, Resumed(1)), "closed", "open"),
        ((SessionClosed(), REOPENED), "open", "open"),
        ((REOPENED, ASK), "closed", "unfinished"),
        ((ASK, Resumed(1)), "open", "unfinished"),
        ((), "unfinished", "unfinished"),
    ],
)
def test_the_status_follows_the_messages_of_the_client(
    bodies: tuple[object, ...], before: str, after: str
) -> None:
    assert of(*bodies).status_after(before) == after


@pytest.mark.parametrize(
    "wrong", [{"status": "done"}, {"limit": -1}, {"limit": 1.5}, {"limit": True}], ids=repr
)
def test_a_query_that_cannot_be_meant_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(MisuseError):
        SessionQuery(**wrong)  # type: ignore[arg-type]  # wrong values on purpose


def test_a_cursor_is_the_place_of_its_row() -> None:
    row = SessionRow("s", 1, 0, -5, "", 12)
    assert SessionQuery(after=row.cursor).place == (-5, 12)
    assert SessionQuery().place is None


TAGGED = SessionOpened(1, "clerk", (), ModelSpec("m"), tags=("a", "b"), metadata=Json(b'{"n":1}'))
PLAIN = SessionOpened(1, "clerk", (), ModelSpec("m"))


def test_tags_and_metadata_come_from_the_first_message() -> None:
    change = of(TAGGED, ASK)
    assert (change.host, change.opened) == ("clerk", TAGGED)
    assert details_of(TAGGED) == Details(("a", "b"), {"n": 1})
    for one in (structs.replace(TAGGED, tags=()), structs.replace(TAGGED, metadata=NULL)):
        assert of(one).opened is one
    assert (of(PLAIN).host, of(PLAIN).opened) == ("clerk", None)
    assert details_of(PLAIN) == Details()


def test_a_resume_changes_the_host_only_if_it_names_one() -> None:
    assert of(PLAIN, Resumed(1)).host == "clerk"
    assert of(PLAIN, Resumed(1, host="boss")).host == "boss"


@pytest.mark.parametrize(
    ("forked", "before", "status", "host"),
    [
        (Forked("s", 1, "", Resumed(1), host="clerk"), "open", "open", "clerk"),
        (Forked("s", 1, "", Resumed(1, host="boss"), host="clerk"), "open", "open", "boss"),
        (Forked("s", 1, "", REOPENED), "closed", "open", ""),
        (Forked("s", 1, "", REOPENED, is_running=True), "closed", "unfinished", ""),
    ],
)
def test_a_fork_is_unfinished_if_it_begins_in_the_middle_of_an_ask(
    forked: Forked, before: str, status: str, host: str
) -> None:
    assert (of(forked).status_after(before), of(forked).host) == (status, host)


@pytest.mark.parametrize(
    ("query", "is_chosen"),
    [
        (SessionQuery(), True),
        (SessionQuery(tag="a"), True),
        (SessionQuery(tag="c"), False),
        (SessionQuery(since_ms=9), True),
        (SessionQuery(since_ms=10), False),
        (SessionQuery(status="open"), True),
        (SessionQuery(status="closed"), False),
        (SessionQuery(tag="a", status="closed"), False),
        (SessionQuery(tag="c", since_ms=0), False),
    ],
)
def test_a_query_chooses_the_rows_that_meet_all_of_it(query: SessionQuery, is_chosen: bool) -> None:
    assert query.has(SessionRow("s", 1, 0, 0, "", tags=("a", "b"), last_ms=9)) is is_chosen


@pytest.mark.parametrize("after", ["5", "5.", "x.1", "5.1 ", "5.1.2"])
def test_a_text_that_is_no_cursor_is_refused(after: str) -> None:
    with pytest.raises(MisuseError, match="is not a cursor"):
        _ = SessionQuery(after=after).place


def test_a_new_row_has_nothing_in_it() -> None:
    row = SessionRow("s", 1, 0, 5, "title")
    assert (row.number, row.status, row.kind, row.failures, row.last_ms, row.host) == (
        0,
        "open",
        "",
        0,
        0,
        "",
    )
    assert (row.tags, row.metadata, row.waits_ms, row.parent, row.base) == ((), {}, 0, "", 0)
    assert (NO_CHANGE.failures_after(0), NO_CHANGE.opened, Details().waits_ms) == (0, None, 0)
