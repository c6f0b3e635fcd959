"""The rows of sessions: queries that are refused, and changes that events make."""

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from callboard.actors.protocol.errors import CorruptLog, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.stores.forks import forked
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.session_rows import (
    NO_CHANGE,
    Details,
    RowChange,
    SessionQuery,
    SessionRow,
    change_of,
    details_of,
    first_title,
    has_title,
    parents_first,
    title_of,
    whole_trees,
    with_forks,
)
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import run
from tests.runtime.log.transcripts import answer_alike
from tests.tables import table


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


def test_the_title_of_a_session_is_that_of_its_first_ask() -> None:
    assert of(ASK, Ask("b", Json(b'"more"'))).asked == ASK


@table(
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


@table(
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


@table("after", ["5", "5.", "x.1", "5.1 ", "5.1.2"])
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


def rows_of(parents: list[int]) -> list[SessionRow]:
    """Return rows of which each, but the first, may be a fork of an earlier one."""
    return [
        SessionRow(f"s{at}", 1, 9, 0, "", at + 1, parent=f"s{parent % at}" if at and parent % 3 else "")
        for at, parent in enumerate(parents)
    ]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=20), st.sets(st.integers(0, 19)))
def test_a_tree_of_forks_is_taken_whole_or_not_at_all(parents: list[int], chosen: set[int]) -> None:
    rows = rows_of(parents)
    found = whole_trees(rows, lambda row: row.number - 1 in chosen)
    names = [row.session_id for row in found]
    for row in rows:
        below = with_forks(rows, row.session_id)
        assert below[-1] == row.session_id
        if row.session_id in names:
            assert all(int(name[1:]) in chosen for name in below)
            assert [name for name in names if name in below] == sorted(below, key=lambda one: -int(one[1:]))
    roots = [row for row in rows if not row.parent]
    wanted = [root for root in roots if {int(one[1:]) for one in with_forks(rows, root.session_id)} <= chosen]
    assert sorted(root.session_id for root in wanted) == sorted(
        name for name in names if name in {root.session_id for root in roots}
    )


@given(st.lists(st.integers(0, 60), min_size=1, max_size=20), st.randoms())
def test_each_fork_comes_behind_its_parent_and_all_else_in_its_order(
    parents: list[int], chance: Random
) -> None:
    rows = rows_of(parents)
    chance.shuffle(rows)
    found = parents_first(rows)
    places = {row.session_id: place for place, row in enumerate(found)}
    assert sorted(places) == sorted(row.session_id for row in rows)
    assert all(places[row.parent] < places[row.session_id] for row in rows if row.parent)
    roots = [row for row in rows if not row.parent]
    assert parents_first(roots) == roots
    assert parents_first(found) == found


def test_a_fork_whose_parent_was_deleted_keeps_its_place() -> None:
    rows = [SessionRow(name, 1, 9, 0, "", at, parent=parent) for at, (name, parent) in enumerate(TREE)]
    assert [row.session_id for row in parents_first(rows)] == ["orphan", "a", "b", "c", "d"]


TREE = (("orphan", "gone"), ("c", "b"), ("b", "a"), ("a", ""), ("d", "a"))
DAMAGE = {
    "a base of another event": "UPDATE sessions SET base = 5 WHERE session_id = 'f'",
    "a digest of another event": "UPDATE sessions SET origin = zeroblob(32) WHERE session_id = 'f'",
    "no parent": "UPDATE sessions SET parent = '' WHERE session_id = 'f'",
    "a parent that is not there": "UPDATE sessions SET parent = 'x' WHERE session_id = 'f'",
    "a circle": "UPDATE sessions SET parent = 'g' WHERE session_id = 'f'",
    "itself": "UPDATE sessions SET parent = 'f' WHERE session_id = 'f'",
    "a base that is not a number": "UPDATE sessions SET base = 'six' WHERE session_id = 'f'",
    "a base behind the end": "UPDATE sessions SET base = 10 WHERE session_id = 'f'",
    "an event of the parent": "UPDATE events SET at = 7 WHERE id = (1 << 32) | 4",
    "a shared event that is gone": "DELETE FROM events WHERE id = (1 << 32) | 2",
}


@pytest.mark.parametrize("key", [None, b"k" * 32])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_a_lineage_is_found(tmp_path: Path, damage: str, key: bytes | None) -> None:
    path = tmp_path / "log.db"

    async def write() -> None:
        log = SQLiteLog(path, encryption_key=key)
        await log.open()
        await log.create("s", 1, "")
        await forked(log)
        await log.close()

    run(write)
    with SQLiteReader(path, encryption_key=key) as reader:
        assert reader.verify_chain("g").seq == 9
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(DAMAGE[damage])
    with SQLiteReader(path, encryption_key=key) as reader:
        for name in "fg":
            with pytest.raises(CorruptLog):
                reader.verify_chain(name)


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_a_copy_of_a_fork_holds_the_sessions_that_it_shares_events_with(
    tmp_path: Path, key: bytes | None
) -> None:
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"

    async def write() -> dict[str, Head]:
        log = SQLiteLog(path, encryption_key=key)
        await log.open()
        await log.create("s", 1, "")
        await log.create("other", 1, "")
        await forked(log)
        heads = {name: await log.head(name) for name in "sfgh"}
        await log.close()
        return heads

    heads = run(write)
    with SQLiteReader(path, encryption_key=key) as reader:
        reader.copy_to(copy, "g")
        wanted = reader.events("g")
    with SQLiteReader(copy, encryption_key=key) as reader:
        assert sorted(row.session_id for row in reader.sessions()) == ["f", "g", "s"]
        assert {name: reader.verify_chain(name) for name in "sfg"} == {name: heads[name] for name in "sfg"}
        assert reader.events("g") == wanted


def test_trees_are_told_apart_by_their_roots_also_where_the_root_was_deleted() -> None:
    def row(number: int, name: str, parent: str = "") -> SessionRow:
        return SessionRow(name, 1, 9, 0, "", number, parent=parent)

    rows = [
        row(1, "a"),
        row(2, "b", "a"),
        row(3, "c", "b"),
        row(4, "x"),
        row(5, "f", "gone"),
        row(6, "g", "gone"),
    ]

    def taken(*chosen: str) -> list[str]:
        return [one.session_id for one in whole_trees(rows, lambda row: row.session_id in chosen)]

    assert taken("a", "b", "c", "x") == ["x", "c", "b", "a"]
    assert taken("b", "c", "f") == []
    assert taken("c", "g", "x") == ["x"]
    assert taken("f", "g") == ["g", "f"]


def test_the_rows_of_sessions_are_the_same_in_both_stores(tmp_path: Path) -> None:
    answer_alike(MemoryLog(), tmp_path / "file.db")


def text(value: object) -> Json:
    return Json(msgspec.json.encode(value))


@table(
    ("prompt", "title"),
    [
        ("find it", "find it"),
        ("x" * 201, "x" * 200),
        ([{"type": "text", "text": "one"}, {"type": "image"}, {"text": 5}, {"text": "two"}], "one two"),
        ([{"type": "image"}], ""),
        ([5, "x"], ""),
        (None, ""),
        (7, "7"),
    ],
)
def test_a_title_is_the_beginning_of_the_words_of_a_prompt(prompt: object, title: str) -> None:
    assert title_of(text(prompt)) == title
    ask = Event(2, 5, "client", "supervisor", 0, Ask("a", text(prompt)))
    later = Event(3, 5, "client", "supervisor", 0, Ask("b", text("later")))
    assert first_title([Event(1, 5, "client", "supervisor", 0, Cancel("x")), ask, later]) == title
    assert first_title([]) == ""


@pytest.mark.parametrize(
    ("fields", "has"),
    [({}, False), ({"title": "own"}, True), ({"kind": "answered"}, True), ({"status": "unfinished"}, True)],
)
def test_a_session_without_a_title_has_that_of_its_first_ask(fields: dict[str, str], has: bool) -> None:
    row = structs.replace(SessionRow("s", 1, 0, 5, ""), **fields)
    assert has_title(row) is has
    change = change_of([Event(1, 5, "client", "supervisor", 0, Ask("a", text("first")))])
    assert change.title_after(row) == (row.title if has else "first")
    assert NO_CHANGE.title_after(row) == row.title
