"""A connection that is cut: statements that read are sent again, and a transaction's outcome is asked for."""

import os
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from callboard.actors.protocol.errors import StoreFailed, StoreLocked, StoreUnreadable
from callboard.runtime.log.postgres import link as links
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.link import (
    _BEGIN,
    Cut,
    Link,
)
from tests.postgres_server import execute, shared
from tests.tables import table


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link(address_of(shared().url()))
    made.connect()
    made.execute("CREATE TEMP TABLE here(n int)")
    yield made
    made.close()


def end(link: Link) -> None:
    """Let the server end the connection."""
    ((process,),) = link.execute("SELECT pg_backend_pid()")
    execute(f"SELECT pg_terminate_backend({process}, 5000)")


def test_a_statement_that_reads_goes_over_a_new_connection(link: Link) -> None:
    end(link)
    assert link.read("SELECT 7") == [(7,)]


def test_a_write_outside_a_transaction_is_not_sent_again(link: Link) -> None:
    end(link)
    with pytest.raises(Cut):
        link.execute("SELECT 7")
    assert link.execute("SELECT 7") == [(7,)]


def cut_once(link: Link, monkeypatch: pytest.MonkeyPatch, at: str, *, before: bool) -> list[str]:
    """Cut the connection once, before or after the server gets a statement. Return those that are sent."""
    sent: list[str] = []
    real: Callable[..., Any] = Link.execute

    def execute_cut(self: Link, query: str, values: Any = (), doing: str = "") -> list[Any]:
        is_first = query == at and at not in sent
        sent.append(query)
        if is_first and before:
            end_other(self)
            raise Cut
        done: list[Any] = real(self, query, values, doing)
        if is_first:
            end_other(self)
            raise Cut
        return done

    def end_other(self: Link) -> None:
        self.drop()

    monkeypatch.setattr(Link, "execute", execute_cut)
    return sent


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    "at", [_BEGIN, "INSERT INTO kept VALUES (1)", "COMMIT"], ids=["begin", "inside", "commit"]
)
def test_a_transaction_that_is_cut_anywhere_is_done_once(
    link: Link, monkeypatch: pytest.MonkeyPatch, at: str, before: bool
) -> None:
    execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept(n int)")
    sent = cut_once(link, monkeypatch, at, before=before)
    link.transact("test", lambda: link.execute("INSERT INTO kept VALUES (1)"))
    assert execute("SELECT * FROM kept") == [(1,)]
    assert at in sent
    assert sent.count("COMMIT") == (2 if at == "COMMIT" and before else 1)


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_pooler_that_loses_prepared_statements_gets_none_from_then_on(link: Link, is_inside: bool) -> None:
    execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept(n int)")

    def work() -> list[Any]:
        return link.execute("INSERT INTO kept VALUES (%s) RETURNING n", (7,))

    for _ in range(6):
        work()
    link.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")  # unseen by psycopg
    assert (link.transact("test", work) if is_inside else work()) == [(7,)]
    assert link.read("SELECT name, statement FROM pg_prepared_statements") == []
    for _ in range(6):
        work()
    assert link.read("SELECT name, statement FROM pg_prepared_statements") == []
    assert execute("SELECT count(*) FROM kept") == [(13,)]


def test_a_transaction_that_fails_leaves_nothing(link: Link) -> None:
    def work() -> None:
        link.execute("INSERT INTO here VALUES (1)")
        raise LookupError

    with pytest.raises(LookupError):
        link.transact("test", work)
    assert link.read("SELECT * FROM here") == []


def test_reading_inside_a_transaction_never_goes_over_another_connection(link: Link) -> None:
    seen: list[int] = []

    def work() -> None:
        seen.append(1)
        if len(seen) == 1:
            link.drop()
        assert link.read("SELECT 1") == [(1,)]

    link.transact("test", work)
    assert len(seen) == 2


def test_conflicts_are_repeated_and_then_reported(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PAUSE_S", 0.0)
    with pytest.raises(StoreLocked, match="try again"):
        link.transact("test", lambda: link.execute("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))


def test_no_transaction_waits_or_idles_without_limit(link: Link) -> None:
    names = "current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"
    assert link.transact("test", lambda: link.read(f"SELECT {names}")) == [("5s", "5s")]


def test_a_server_that_is_not_there_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PATIENCE_S", 0.05)
    gone = Link(address_of("postgresql://u:s3cret@/db?host=/nowhere"))
    with pytest.raises(StoreUnreadable, match="check that the server runs"):
        gone.connect()
    with pytest.raises(StoreFailed, match="reading after a cut connection failed") as caught:
        gone.read("SELECT 1")
    assert "s3cret" not in str(caught.value)
    gone.close()
    with pytest.raises(StoreFailed, match="not open"):
        gone.read("SELECT 1")


def test_a_server_that_starts_is_asked_again_after_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone, pauses = Link(address_of("postgresql://h/db")), list[float]()

    def connect() -> None:
        raise gone._driver.OperationalError("the database system is starting up")

    monkeypatch.setattr(gone, "_connect", connect)
    monkeypatch.setattr(gone, "pause", pauses.append)
    with pytest.raises(StoreFailed):
        gone.again("reading")
    assert pauses == [min(links.PAUSE_S * 2**at, links.PAUSE_S_MAX) for at in range(len(pauses))]
    assert sum(pauses[:-1]) <= links.PATIENCE_S < sum(pauses)


def test_a_forked_process_does_not_use_the_connection_of_its_parent(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    connection = link._connection
    link.drop()
    assert not connection.closed
    with pytest.raises(StoreLocked, match="forked"):
        link.read("SELECT 1")
    connection.close()


def test_a_link_waits_for_notifications_and_for_its_caller() -> None:
    heard: list[str] = []
    link = Link(address_of(shared().url()))
    link.on_notify = heard.append
    woken, wake = socket.socketpair()
    with pytest.raises(Cut):
        link.wait(woken, 0)  # not connected
    link.connect()
    link.execute("LISTEN here")
    link.wait(woken, 0)  # returns, although nothing has come
    assert heard == []
    execute("NOTIFY here, 'from another'")
    while not heard:
        link.wait(woken, 10)
    link.execute("NOTIFY here, 'its own'")  # arrives with the answer
    assert heard == ["from another", "its own"]
    wake.send(b"x")
    link.wait(woken, 3_600)
    woken.recv(1)
    end(link)
    with pytest.raises(Cut):  # noqa: PT012  # the reason of the server comes before the end
        for _ in range(2):
            link.wait(woken, 10)
    for one in (link, woken, wake):
        one.close()


# --- a driver that fails as told --------------------------------------------------------


class Connection:
    """A connection that raises an error at each statement, and ends as told."""

    def __init__(self, error: Exception, *, closed: bool = False, broken: bool = False) -> None:
        self.closed, self.broken = closed, broken
        self.ended: list[int] = []
        self._error = error

    def execute(self, *_: object, **__: object) -> None:
        raise self._error

    def close(self) -> None:
        self.ended.append(1)


def linked(*connections: Connection, monkeypatch: pytest.MonkeyPatch) -> Link:
    """Return a link that gets these connections, one after the other; the last one stays."""
    link, left = Link(address_of("postgresql://h/db")), [*connections]

    def connect() -> None:
        link._connection = left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(link, "_connect", connect)
    assert (link.server, link.is_pooled) == (0, False)
    return link


def refused(state: str) -> psycopg.Error:
    error = psycopg.errors.lookup(state)("words")
    assert error.sqlstate == state
    return error


@table(
    "error, ends, raised, is_dropped",
    [
        (psycopg.OperationalError("gone"), {"closed": True}, Cut, True),
        (psycopg.OperationalError("gone"), {"broken": True}, Cut, True),
        (refused("40001"), {}, psycopg.errors.SerializationFailure, False),
        (refused("23505"), {}, psycopg.errors.UniqueViolation, False),
        (refused("42601"), {}, StoreFailed, False),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), {}, StoreFailed, False),
    ],
)
def test_an_error_is_raised_as_its_caller_can_use_it(
    error: Exception, ends: dict[str, bool], raised: type[Exception], is_dropped: bool
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        connection = Connection(error, **ends)
        link = linked(connection, monkeypatch=monkeypatch)
        with pytest.raises(raised):
            link.execute("SELECT 1", (), "writing")
        assert (link._connection is None) == is_dropped == bool(connection.ended)


def test_a_connection_that_is_cut_each_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    link = linked(Connection(psycopg.OperationalError("gone"), closed=True), monkeypatch=monkeypatch)
    with pytest.raises(StoreFailed, match="reading failed: the connection is cut each time"):
        link.read("SELECT 1")
    with pytest.raises(StoreLocked, match="saving is in the way of other transactions each time"):
        link.transact("saving", lambda: None)


def test_a_transaction_is_repeated_only_after_a_conflict_with_longer_and_longer_pauses(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses, left = list[float](), [refused("40P01"), refused("40001"), refused("23505"), refused("23505")]
    monkeypatch.setattr(link, "pause", pauses.append)

    def work() -> None:
        raise left.pop(0)

    with pytest.raises(StoreFailed, match=r"saving failed: words \(23505\)"):
        link.transact("saving", work)
    assert (pauses, len(left)) == ([0, links.PAUSE_S], 1)


def test_a_transaction_whose_rollback_fails_leaves_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(psycopg.OperationalError("gone"))
    link = linked(connection, monkeypatch=monkeypatch)
    link.connect()
    real = link.execute
    monkeypatch.setattr(link, "execute", lambda *given: [("7",)] if given[0] is _BEGIN else real(*given))

    def work() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        link.transact("saving", work)
    assert connection.ended == [1]
    assert link._connection is None


def test_the_outcome_of_a_transaction_is_asked_for_until_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    link, pauses = Link(address_of("postgresql://h/db")), list[float]()
    answers = ["in progress", "in progress", "aborted", "committed"]
    monkeypatch.setattr(link, "pause", pauses.append)
    monkeypatch.setattr(link, "read", lambda *_: [(answers.pop(0),)])
    assert [link._is_committed("7", "saving") for _ in range(2)] == [False, True]
    assert pauses == [links.PAUSE_S] * 2


@table(
    "error",
    [psycopg.OperationalError("closed"), OSError("closed"), ValueError("Invalid file descriptor: -1")],
)
def test_a_connection_that_is_closed_while_its_link_waits_is_cut(error: Exception) -> None:
    def fileno() -> int:
        raise error

    link = Link(address_of("postgresql://h/db"))
    link._connection = SimpleNamespace(fileno=fileno, close=lambda: None)
    woken, wake = socket.socketpair()
    with woken, wake, pytest.raises(Cut):
        link.wait(woken, 0)
    assert link._connection is None


def test_a_transaction_can_be_the_tenth_and_a_statement_without_values_may_have_a_percent_sign(
    link: Link,
) -> None:
    for number in range(10):
        assert link.transact("test", lambda number=number: link.read("SELECT %s", (number,))) == [(number,)]  # type: ignore[misc]  # a lambda's default
    assert link.read("SELECT '50%'") == [("50%",)]


def test_a_peer_that_has_vanished_is_noticed_within_half_a_minute(link: Link) -> None:
    given = {name: str(value) for name, value in link._connection.info.get_parameters().items()}
    probes = int(given["keepalives_interval"]) * int(given["keepalives_count"])
    assert int(given["keepalives_idle"]) + probes <= 30
    assert int(given["tcp_user_timeout"]) <= 30_000
    assert int(given["connect_timeout"]) <= 30
    assert given["application_name"] == "callboard"
