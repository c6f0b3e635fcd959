"""The sessions that a client follows: its listener is told of them, and known ones are asked less often."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from callboard.runtime.cluster import interest as module
from callboard.runtime.cluster.interest import Interest
from callboard.runtime.cluster.standings import CALM_S, PAUSE_S_MAX
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.followers import ALL_TEXT, EVENTS, HOST_TEXT
from callboard.runtime.log.postgres.notices import TextPiece
from tests.runtime.cluster.test_standings import Answering

LEASES = Leases.__new__(Leases)  # its address and cipher are only handed on
LEASES.address, LEASES.cipher = cast("Any", None), None


class Listening:
    """A listener that notes the wishes that it is told."""

    def __init__(self, address: object, cipher: object, on_news: Callable[..., Any], on_state: Any) -> None:
        self.told: list[Mapping[str, int | None]] = []
        self.on_news, self.on_state = on_news, on_state
        made.append(self)

    def change(self, wishes: Mapping[str, int | None]) -> None:
        self.told.append(wishes)

    async def aclose(self) -> None:
        self.told.append({})


made: list[Listening] = []


@pytest.fixture(autouse=True)
def listening(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(module, "Listener", Listening)
    monkeypatch.setattr(module, "LATER_S", 0.001)


async def told(count: int) -> Mapping[str, int | None]:
    """Return what the listener is told, once it is told so many things."""
    while not made or len(made[0].told) < count:  # noqa: ASYNC110  # a timer tells no one
        await asyncio.sleep(0.001)
    return made[0].told[-1]


def test_the_highest_wish_of_all_readers_is_told_and_what_is_taken_back_is_not() -> None:
    async def scene() -> None:
        interest = Interest(Answering(), LEASES)
        with interest.following("a", EVENTS):
            with interest.following("short", ALL_TEXT), interest.following("\0", EVENTS):
                pass
            with interest.following("a", HOST_TEXT) as live:
                assert await told(1) == {"a": HOST_TEXT}
                with interest.following("a", ALL_TEXT) as same:
                    assert same is live
                    assert await told(2) == {"a": ALL_TEXT}
                assert await told(3) == {"a": HOST_TEXT}
            assert await told(4) == {"a": EVENTS}
        assert await told(5) == {"a": None}
        await interest.aclose()
        with interest.following("a", EVENTS):  # a reader that is left after its client
            await asyncio.sleep(0.01)
        assert len(made) == 1
        assert made[0].told[5:] == [{}]

    asyncio.run(scene())


def test_a_known_session_is_asked_less_often_until_the_client_is_deaf() -> None:
    async def scene() -> None:
        log = Answering()
        interest = Interest(log, LEASES)
        with interest.following("a", EVENTS), interest.following("b", EVENTS):
            await told(1)
            asking = [asyncio.create_task(interest.standings.other_than(one, 3, 9.0)) for one in ("a", "b")]
            await asyncio.sleep(0)
            made[0].on_state(True)
            assert interest.is_listening
            await log.was_asked.wait()  # something may have been missed
            assert log.asked == [{("a", 3), ("b", 3)}]
            log.was_asked.clear()
            made[0].on_news(["a", "of nobody"], [])
            await log.was_asked.wait()
            assert log.asked[1:] == [{("a", 3)}]
            assert [interest.pause_max_s(one) for one in ("a", "b", "of nobody")] == [
                CALM_S,
                PAUSE_S_MAX,
                PAUSE_S_MAX,
            ]
            made[0].on_state(False)
            assert not interest.is_listening
            assert interest.pause_max_s("a") == PAUSE_S_MAX
            for one in asking:
                one.cancel()
        await interest.aclose()

    asyncio.run(scene())


def test_text_goes_to_the_readers_of_its_session() -> None:
    async def scene() -> None:
        interest = Interest(Answering(), LEASES)
        with interest.following("a", HOST_TEXT) as live:
            await told(1)
            made[0].on_news([], [(name, TextPiece(1, 3, "host", 1, 1, 0, name)) for name in ("a", "left")])
            assert [one.after(0) for one in live.replies.values()] == ["a"]
        await interest.aclose()

    asyncio.run(scene())
