"""A connection that is cut: statements that read are sent again, and a transaction's outcome is asked for."""

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

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
    link.wait(woken, 0)
    assert heard == []
    execute("NOTIFY here, 'from another'")
    while not heard:
        link.wait(woken, 10)
    link.execute("NOTIFY here, 'its own'")  # arrives with the answer
    assert heard == ["from another", "its own"]
    wake.send(b"x")
    link.wait(woken, 10)
    woken.recv(1)
    end(link)
    with pytest.raises(Cut):  # noqa: PT012  # the reason of the server comes before the end
        for _ in range(2):
            link.wait(woken, 10)
    for one in (link, woken, wake):
        one.close()
