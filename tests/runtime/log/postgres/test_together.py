"""Together: calls that wait for a thread are answered in a few turns, each with its own result or error."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence

from callboard.actors.protocol.errors import CorruptLog, SessionNotFound, StoreFailed
from callboard.runtime.log.postgres.thread import Worker
from callboard.runtime.log.postgres.together import TOGETHER_MAX, Together


class Scene:
    """A thread that is busy until all calls wait, and the keys that each turn was given."""

    def __init__(self) -> None:
        self.worker = Worker("test")
        self.is_free = threading.Event()
        self.given: list[list[str]] = []
        self.together = Together(self.worker, self.work)

    def work(self, keys: Sequence[str]) -> list[str | Exception]:
        self.given.append([*keys])
        if "damaged" in keys:
            raise CorruptLog("one of them", "damaged", 1)
        if "down" in keys:
            raise StoreFailed("the server")
        return [SessionNotFound(key) if key == "none" else key.upper() for key in keys]

    async def ask(self, *keys: str) -> list[str | BaseException]:
        self.worker.put(self.is_free.wait)
        calls = [asyncio.ensure_future(self.together.run(key)) for key in keys]
        await asyncio.sleep(0)
        self.is_free.set()
        return await asyncio.gather(*calls, return_exceptions=True)


def run(main: Callable[[Scene], Coroutine[None, None, None]]) -> None:
    scene = Scene()
    try:
        asyncio.run(main(scene))
    finally:
        scene.worker.stop(lambda: None)
        scene.worker.join()


def test_calls_that_wait_are_answered_by_one_turn_each_with_its_own() -> None:
    async def main(scene: Scene) -> None:
        one, none, two = await scene.ask("one", "none", "two")
        assert (one, type(none), two) == ("ONE", SessionNotFound, "TWO")
        assert scene.given == [["one", "none", "two"]]
        assert await scene.together.run("later") == "LATER"

    run(main)


def test_a_key_that_is_asked_twice_is_given_in_two_turns() -> None:
    async def main(scene: Scene) -> None:
        assert await scene.ask("a", "b", "a", "c", "a") == ["A", "B", "A", "C", "A"]
        assert scene.given == [["a", "b"], ["a", "c"], ["a"]]

    run(main)


def test_a_turn_is_given_so_many_calls_at_most() -> None:
    async def main(scene: Scene) -> None:
        keys = [f"k{at}" for at in range(2 * TOGETHER_MAX + 1)]
        assert await scene.ask(*keys) == [key.upper() for key in keys]
        assert [len(one) for one in scene.given] == [TOGETHER_MAX, TOGETHER_MAX, 1]

    run(main)


def test_an_error_that_may_be_of_one_call_spoils_no_other() -> None:
    async def main(scene: Scene) -> None:
        a, damaged, b = await scene.ask("a", "damaged", "b")
        assert (a, type(damaged), b) == ("A", CorruptLog, "B")
        assert scene.given == [["a", "damaged", "b"], ["a"], ["damaged"], ["b"]]

    run(main)


def test_a_server_that_fails_is_not_asked_for_each_call() -> None:
    async def main(scene: Scene) -> None:
        assert [*map(type, await scene.ask("a", "down", "b"))] == [StoreFailed] * 3
        assert len(scene.given) == 1

    run(main)


def test_a_cancelled_caller_stops_no_call() -> None:
    async def main(scene: Scene) -> None:
        scene.worker.put(scene.is_free.wait)
        calls = [asyncio.ensure_future(scene.together.run(key)) for key in "ab"]
        await asyncio.sleep(0)
        calls[0].cancel()
        scene.is_free.set()
        assert await calls[1] == "B"
        assert scene.given == [["a", "b"]]

    run(main)
