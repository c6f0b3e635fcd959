"""A batch in few values comes out of SQLite as the rows that went in, with any contents."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, SessionOpened
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import Fenced, StoreFailed, WrongHead
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.sqlite.batch import BatchPlan, KnownHead, insert_batch, kept_title, make_batch_view
from callboard.runtime.log.sqlite.meta import prepare
from callboard.runtime.log.sqlite.rows import BLOB, TEXT, Chunk, Rows
from callboard.runtime.log.sqlite.schema import SEQ_BITS, pragma
from tests.runtime.log.kit import events
from tests.runtime.log.transcripts import answer_alike


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    prepare(made, tmp_path / "log.db", "process", HashChain())
    yield made
    made.close()


# --- a batch in one statement: all of it, or nothing where something is not as it was thought to be --------

ONE = json.dumps([[1, 1, 0, 3]])
"""Session 1, under epoch 1, goes on from event 0 to event 3."""


@pytest.fixture
def two_sessions(connection: sqlite3.Connection) -> sqlite3.Connection:
    for name in "ab":
        connection.execute(
            "INSERT INTO sessions(session_id, epoch, head, created_ms, title, origin) "
            "VALUES (?, 1, 0, 1, '', ?)",
            (name, GENESIS),
        )
    return connection


def chunk(kind: str = TEXT, count: int = 3) -> Chunk:
    rows = Rows(kind)
    given = events(1, count)
    rows.add(1 << SEQ_BITS, given, HashChain().seal_all("a", GENESIS, given))
    made = rows.only_chunk()
    assert made is not None
    return made


def heads_and_rows(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    heads = connection.execute("SELECT head, epoch FROM sessions ORDER BY id").fetchall()
    return [
        *heads,
        *connection.execute("SELECT id & 0xffffffff, typeof(body) FROM events ORDER BY id").fetchall(),
    ]


UNTOUCHED = [(0, 1), (0, 1)]


@pytest.mark.parametrize(("kind", "stored_as"), [(TEXT, "text"), (BLOB, "blob")])
def test_rows_and_heads_go_in_together(two_sessions: sqlite3.Connection, kind: str, stored_as: str) -> None:
    make_batch_view(two_sessions, kind)
    assert pragma(two_sessions, "temp_store") == 2  # in memory
    assert insert_batch(two_sessions, pragma(two_sessions, "data_version"), ONE, "[]", chunk(kind))
    assert heads_and_rows(two_sessions) == [(3, 1), (0, 1), *[(seq, stored_as) for seq in (1, 2, 3)]]
    assert not two_sessions.in_transaction


@pytest.mark.parametrize(
    "moves",
    [
        [[1, 1, 1, 3]],
        [[1, 2, 0, 3]],
        [[9, 1, 0, 3]],
        [[1, 1, 0, 3], [2, 1, 5, 6]],
        [[1, 1, 0, 3], [2, 2, 0, 0]],
    ],
    ids=["another head", "another epoch", "no session", "one of two", "the epoch of one of two"],
)
def test_a_session_that_is_elsewhere_keeps_everybody_out(
    two_sessions: sqlite3.Connection, moves: list[list[int]]
) -> None:
    make_batch_view(two_sessions, TEXT)
    assert not insert_batch(
        two_sessions, pragma(two_sessions, "data_version"), json.dumps(moves), "[]", chunk()
    )
    assert heads_and_rows(two_sessions) == UNTOUCHED
    assert not two_sessions.in_transaction


def test_any_change_by_another_connection_refuses_the_batch(
    two_sessions: sqlite3.Connection, tmp_path: Path
) -> None:
    make_batch_view(two_sessions, TEXT)
    version = pragma(two_sessions, "data_version")
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("UPDATE meta SET value = 'somebody else' WHERE key = 'owner'")
    other.close()
    assert not insert_batch(two_sessions, version, ONE, "[]", chunk())
    assert heads_and_rows(two_sessions) == UNTOUCHED
    assert insert_batch(two_sessions, pragma(two_sessions, "data_version"), ONE, "[]", chunk()), "asked again"


def test_a_row_that_is_there_already_keeps_its_place(two_sessions: sqlite3.Connection) -> None:
    make_batch_view(two_sessions, TEXT)
    version = pragma(two_sessions, "data_version")
    assert insert_batch(two_sessions, version, ONE, "[]", chunk())
    two_sessions.execute("UPDATE sessions SET head = 0")
    before = two_sessions.execute("SELECT * FROM events").fetchall()
    assert not insert_batch(two_sessions, version, ONE, "[]", chunk(count=2))
    assert two_sessions.execute("SELECT * FROM events").fetchall() == before


def test_nothing_of_it_is_in_the_file(two_sessions: sqlite3.Connection, tmp_path: Path) -> None:
    make_batch_view(two_sessions, TEXT)
    other = sqlite3.connect(tmp_path / "log.db")
    names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
    other.close()
    assert not names & {"batch", "insert_batch"}


# --- the plan of a batch -----------------------------------------------------------------------------------

CIPHER = Cipher(b"e" * 32, b"salt" * 4)
OPENED = SessionOpened(2, "chief", (), ModelSpec("m"), tags=("t",))
KNOWN = {"a": KnownHead(1, 1, 0, GENESIS), "b": KnownHead(2, 1, 0, GENESIS)}


def appended(*bodies: Any, head: int = 0, at: int = 10, name: str = "a", epoch: int = 1) -> Append:
    """Return messages that continue a session."""
    made = [Event(seq, at + seq, "host", SUPERVISOR, 0, body) for seq, body in enumerate(bodies, head + 1)]
    return Append(name, head, epoch, made)


def add_all(plan: BatchPlan, *parts: Append) -> list[Head | Exception]:
    """Add parts as a store does: each goes on from the head that the plan knows."""
    return [plan.add(part, plan.heads.get(part.session_id, KNOWN[part.session_id])) for part in parts]


@pytest.mark.parametrize("cipher", [None, CIPHER], ids=["readable", "encrypted"])
def test_the_parts_of_a_session_in_a_batch_are_one_move_and_one_change(
    two_sessions: sqlite3.Connection, cipher: Cipher | None
) -> None:
    kind = BLOB if cipher else TEXT
    make_batch_view(two_sessions, kind)
    plan, ask = BatchPlan(Rows(kind, cipher=cipher), HashChain(), cipher), Ask("r", text_json("x" * 5_000))
    parts = [
        appended(OPENED, ask),
        appended(Cancel(""), name="b", at=70),
        appended(AskEnded("r", "answered"), head=2, at=20),
        appended(head=3),
    ]
    answers = add_all(plan, *parts)
    assert not plan.is_refused
    assert json.loads(plan.moves()) == [[1, 1, 0, 3, 23], [2, 1, 0, 1, 71]]
    assert json.loads(plan.changes()) == [[1, "open", "answered", "chief", 0, True]]
    assert plan.opened == {"a": OPENED}
    chunk = plan.rows.only_chunk()
    assert chunk is not None
    assert insert_batch(
        two_sessions, pragma(two_sessions, "data_version"), plan.moves(), plan.changes(), chunk
    )
    found = two_sessions.execute("SELECT head, last_ms, status, kind, host FROM sessions ORDER BY id")
    assert found.fetchall() == [(3, 23, "open", "answered", "chief"), (1, 71, "open", "", "")]
    chain, previous = HashChain(), GENESIS
    sealing = chain.seal_all(
        "a", GENESIS, [event for part in parts if part.session_id == "a" for event in part.events]
    )
    rows = two_sessions.execute(
        "SELECT id & 0xffffffff, CAST(body AS BLOB), digest FROM events WHERE id >> 32 = 1"
    )
    for (seq, body, digest), plain, sealed_as in zip(rows, sealing.bodies, sealing.digests, strict=True):
        assert (cipher.open(("event", "a", seq), body) if cipher else body) == plain
        assert (digest, previous) == (sealed_as, previous)
    assert answers == [
        Head(2, sealing.digests[1]),
        Head(1, plan.heads["b"].digest),
        Head(3, sealing.digests[2]),
        Head(3, sealing.digests[2]),
    ]
    assert plan.heads["a"] == KnownHead(1, 1, 3, sealing.digests[2])


def test_a_part_without_events_moves_nothing_and_changes_no_row() -> None:
    plan = BatchPlan(Rows(), HashChain(), None)
    assert add_all(plan, appended()) == [Head(0, GENESIS)]
    assert json.loads(plan.moves()) == [[1, 1, 0, 0, None]]
    assert (plan.changes(), plan.opened, plan.rows.only_chunk()) == ("[]", {}, None)


def test_one_part_that_is_refused_refuses_the_batch_and_is_not_in_its_plan() -> None:
    unwritable = appended(Ask("\ud800", text_json("go")))
    for refused, error in (
        (appended(Cancel(""), epoch=2), Fenced),
        (appended(Cancel(""), head=4), WrongHead),
        (unwritable, StoreFailed),
        (unwritable._replace(epoch=2), Fenced),
    ):
        plan = BatchPlan(Rows(), HashChain(), None)
        plan.answers = add_all(plan, refused, appended(Cancel(""), name="b"))
        assert isinstance(plan.answers[0], error)
        assert plan.is_refused
        assert [*plan.heads] == ["b"]
        assert json.loads(plan.moves()) == [[2, 1, 0, 1, 11]]


@pytest.mark.parametrize("options", [{}, {"encryption_key": b"k" * 32}])
def test_batches_of_every_kind_say_what_a_log_in_memory_says(tmp_path: Path, options: dict[str, Any]) -> None:
    answer_alike(MemoryLog(), tmp_path / "file.db", **options)


def test_a_batch_takes_steps_for_a_title_for_details_and_for_a_refusal() -> None:
    opened, ask = SessionOpened(2, "host", (), ModelSpec("m"), tags=("t",)), Ask("1", text_json("words"))

    def planned(
        *bodies: Any, has_title: bool = False, epoch: int = 1
    ) -> tuple[bool, bool, dict[str, object]]:
        plan = BatchPlan(Rows(), HashChain(), None)
        given = [Event(at, 5, "client", SUPERVISOR, 0, body) for at, body in enumerate(bodies, 1)]
        plan.add(Append("s", 0, 1, given), KnownHead(1, epoch, 0, GENESIS, has_title))
        plan.answers.append(Head(0, b"") if epoch == 1 else Fenced("s"))
        known = plan.heads.get("s")
        return plan.takes_steps, known is not None and known.has_title, {**plan.titles}

    assert planned(opened) == (True, False, {})
    assert planned(ask) == (True, True, {"s": "words"})
    assert planned(ask, has_title=True) == (False, True, {})
    assert planned(Cancel("x")) == (False, False, {})
    assert planned(Cancel("x"), has_title=True) == (False, True, {})
    assert planned(Cancel("x"), epoch=2) == (True, False, {})
    assert kept_title(Cipher(b"k" * 32, b"s" * 16), "s", "") == ""
