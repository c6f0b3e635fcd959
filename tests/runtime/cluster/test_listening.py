"""The connection on which a client listens: it comes back after each cut, and is not made in vain."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from callboard.runtime.cluster import listening
from callboard.runtime.cluster.listening import Listener
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.arrays import texts
from callboard.runtime.log.postgres.followers import EVENTS, HOST_TEXT, NOTIFY
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.notices import Piece, TextPiece, notices
from tests.postgres_server import execute
from tests.runtime.cluster.kit import run
from tests.runtime.log.postgres.places import OnServer
from tests.runtime.log.postgres.test_pgbouncer import Pooler, pooler
from tests.waiting import until

__all__ = ["pooler"]  # the fixture
NO_CIPHER: Cipher | None = None


class Heard:
    """What a listener has told its client."""

    def __init__(self, place: OnServer) -> None:
        self.place = place
        self.news: list[str] = []
        self.pieces: list[tuple[str, Piece]] = []
        self.states: list[bool] = []

    def on_news(self, news: list[str], pieces: list[tuple[str, Piece]]) -> None:
        self.news += news
        self.pieces += pieces

    def rows(self) -> dict[str, tuple[int, str, int]]:
        """Return number, channel and wish of each session that is followed."""
        found = execute(
            f"SELECT d.session, d.id, f.channel, d.wish FROM {self.place.schema}.followed AS d "
            f"JOIN {self.place.schema}.followers AS f ON f.id = d.follower"
        )
        return {session: tuple(rest) for session, *rest in found}

    def notify(self, *sessions: str, piece: TextPiece | None = None) -> None:
        """Send news of sessions, or a piece of their text, as their owner does."""
        for session in sessions:
            number, channel, _ = self.rows()[session]
            pieces = [] if piece is None else [(number, session, piece)]
            (payload,) = notices([] if pieces else [number], pieces)
            _send(self.place, channel, payload)


def _send(place: OnServer, channel: str, payload: str) -> None:
    link = Link(address_of(place.url))
    link.connect()
    link.execute(NOTIFY, (texts([channel]), texts([payload])))
    link.close()


@asynccontextmanager
async def listens(place: OnServer, url: str = "") -> AsyncIterator[tuple[Listener, Heard]]:
    log = place.log()
    await log.open()  # makes the tables
    await log.close()
    heard = Heard(place)
    listener = Listener(address_of(url or place.url), NO_CIPHER, heard.on_news, heard.states.append)
    try:
        yield listener, heard
    finally:
        await listener.aclose()


def test_a_client_hears_of_the_sessions_that_it_follows_now(place: OnServer) -> None:
    async def scene() -> None:
        async with listens(place) as (listener, heard):
            listener.change({"a": EVENTS, "b": HOST_TEXT})
            await until(lambda: heard.states == [True] and len(heard.rows()) == 2)
            text = TextPiece(1, 7, "host", 1, 1, 0, "hi")
            heard.notify("a", "b")
            heard.notify("b", piece=text)
            await until(lambda: heard.pieces)
            assert (heard.news, heard.pieces) == (["a", "b"], [("b", text)])
            before = heard.rows()["a"]
            listener.change({"a": HOST_TEXT, "b": None, "c": EVENTS})
            await until(lambda: {name: row[2] for name, row in heard.rows().items()} == {"a": 1, "c": 0})
            assert heard.rows()["a"] != before  # so that owners greet it
            (payload,) = notices([before[0]], [])
            _send(place, before[1], payload)
            _send(place, before[1], "not ours")
            heard.notify("c")
            await until(lambda: heard.news[2:])
            assert heard.news[2:] == ["c"]
        assert heard.states == [True, False]
        assert heard.rows() == {}
        assert execute(f"SELECT 1 FROM {place.schema}.followers") == []

    run(scene)


def test_a_listener_whose_connection_is_cut_is_a_new_follower(
    place: OnServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with listens(place) as (listener, heard):
            listener.change({"a": EVENTS})
            await until(lambda: "a" in heard.rows())
            before = heard.rows()["a"]
            execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT%followed%'"
            )
            await until(lambda: heard.rows().get("a", before)[1] != before[1])
            await until(lambda: heard.states == [True, False, True])
            heard.notify("a")
            await until(lambda: heard.news)
            # A crash of the server empties the tables, and so does the end of a lease.
            execute(f"DELETE FROM {place.schema}.followers")
            await until(lambda: heard.rows())
            await until(lambda: len(heard.states) == 5)

    with pytest.MonkeyPatch.context() as soon:
        soon.setattr(listening, "RENEW_MS", 50)
        run(scene)
    assert not caplog.records


def test_a_server_that_is_not_there_is_tried_again_and_named_once(
    place: OnServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "AGAIN_S_MAX", 0.01)

    connect, attempts = Link.connect, 0

    def connects(link: Link) -> None:
        nonlocal attempts
        if threading.current_thread().name == "callboard notifications":
            attempts += 1
            link.address.parameters["port"] = "1" if attempts < 4 else "5432"
        connect(link)

    async def scene() -> None:
        async with listens(place) as (listener, heard):
            listener.change({"a": EVENTS})
            await until(lambda: "a" in heard.rows() and heard.states)  # the state comes by the loop
            assert (attempts, heard.states) == (4, [True])

    monkeypatch.setattr(Link, "connect", connects)
    run(scene)
    assert len([one for one in caplog.records if "asked once a second" in one.message]) == 1


@pytest.mark.slow
def test_behind_a_pooler_a_client_stops_listening_and_says_so(
    pooler: Pooler, place: OnServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listening, "PROBE_S", 0.2)

    async def scene() -> None:
        async with listens(place, pooler.url(place.schema)) as (listener, heard):
            listener.change({"a": EVENTS})
            await asyncio.wait({listener._ended})
            assert heard.states == []
            assert heard.rows() == {}
            assert execute(f"SELECT 1 FROM {place.schema}.followers") == []

    with caplog.at_level(logging.WARNING):
        run(scene)
    assert ["without the pooler" in one.message for one in caplog.records] == [True]


@pytest.mark.slow
def test_behind_a_pooler_in_session_mode_a_client_listens(
    pooler: Pooler, place: OnServer, caplog: pytest.LogCaptureFixture
) -> None:
    pooler.stop()
    pooler.mode = "session"
    pooler.start()

    async def scene() -> None:
        async with listens(place, pooler.url(place.schema)) as (listener, heard):
            listener.change({"a": EVENTS})
            await until(lambda: heard.states == [True] and heard.rows())
            heard.notify("a")
            await until(lambda: heard.news == ["a"])

    run(scene)
    assert not caplog.records
