import asyncio
import contextvars
import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from pykka import ActorDeadError, ActorRegistry, ThreadingActor, Timeout

from callboard.actors.protocol.errors import InsideLoop, MisuseError
from callboard.runtime.scheduling.loop_actor import LoopActor, LoopFuture
from callboard.runtime.scheduling.run_queue import PASS_MESSAGES_MAX


class Recorder(LoopActor):
    """Keeps its messages, calls those that can be called, raises what can be raised, echoes the rest."""

    use_registry = False

    def __init__(self, name: str = "host") -> None:
        super().__init__(urn=name)
        self.seen: list[Any] = []
        self.hooks: list[Any] = []

    def on_start(self) -> None:
        self.hooks.append("start")

    def on_stop(self) -> None:
        self.hooks.append("stop")

    def on_failure(self, *exc_info: Any) -> None:
        self.hooks.append(("failure", exc_info[1]))

    def on_crash(self, error: BaseException) -> None:
        self.hooks.append(("crash", error))

    def on_receive(self, message: Any) -> Any:
        self.seen.append(message)
        if isinstance(message, BaseException):
            raise message
        return message() if callable(message) else message


class Registered(Recorder):
    use_registry = True


@pytest.fixture
def _empty_registry() -> Iterator[None]:
    yield
    for ref in ActorRegistry.get_all():
        ActorRegistry.unregister(ref)


async def settle(*actors: LoopActor) -> None:
    """Wait until the actors have handled their messages."""
    for actor in actors:
        await actor.actor_ref.ask("settle", block=False)


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()


# Order and fairness


def test_messages_are_handled_in_the_order_of_their_posts_by_every_way() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        ref = actor.actor_ref
        for number in range(0, 300, 3):
            actor.deliver(number)
            ref.tell(number + 1)
            ref.ask(number + 2, block=False)
        await settle(actor)
        assert actor.seen == [*range(300), "settle"]

    asyncio.run(main())


def test_messages_that_follow_each_other_are_handled_together_where_an_actor_can() -> None:
    class Together(Recorder):
        def on_receive_together(self, messages: list[Any]) -> None:
            self.seen.append([*messages])

    async def main() -> None:
        actor = Together.spawn()
        for number in (1, 2):
            actor.deliver(number)
        actor.actor_ref.tell("by way of the ref")
        actor.deliver(3)
        for number in range(PASS_MESSAGES_MAX):
            actor.deliver(number)
        await settle(actor)
        first = [3, *range(PASS_MESSAGES_MAX - 4)]
        rest = list(range(PASS_MESSAGES_MAX - 4, PASS_MESSAGES_MAX))
        assert actor.seen == [[1, 2], "by way of the ref", first, rest, "settle"]

    asyncio.run(main())


def test_a_post_is_never_handled_before_its_poster_has_returned_to_the_loop() -> None:
    async def main() -> None:
        first, second = Recorder.spawn("first"), Recorder.spawn("second")
        during: list[int] = []

        def post() -> None:
            second.deliver("hello")
            first.deliver("hello")
            during.extend([len(second.seen), len(first.seen)])

        first.deliver(post)
        await asyncio.sleep(0)
        await settle(first)
        await settle(second)
        assert during == [0, 1]
        assert [first.seen, second.seen] == [[post, "hello", "settle"], ["hello", "settle"]]

    asyncio.run(main())


def test_an_actor_with_a_long_inbox_lets_others_have_their_turn() -> None:
    async def main() -> None:
        busy, idle = Recorder.spawn("busy"), Recorder.spawn("idle")
        await settle(busy, idle)
        behind: list[int] = []
        for number in range(PASS_MESSAGES_MAX * 5):
            busy.deliver(number)
        idle.deliver(lambda: behind.append(len(busy.seen)))
        await settle(idle)
        assert behind[0] <= PASS_MESSAGES_MAX + 1

    asyncio.run(main())


def test_actors_that_never_run_dry_do_not_keep_the_loop_from_other_work() -> None:
    async def main() -> None:
        actors = [Recorder.spawn() for _ in range(3)]

        def again(actor: Recorder) -> Callable[[], None]:
            return lambda: actor.deliver(again(actor))

        for actor in actors:
            actor.deliver(again(actor))
        for passes in range(1, 20):
            before = sum(len(actor.seen) for actor in actors)
            await asyncio.sleep(0)
            assert sum(len(actor.seen) for actor in actors) - before <= PASS_MESSAGES_MAX, passes
        for actor in actors:
            await actor.actor_ref.stop(block=False)

    asyncio.run(main())


# Threads


def test_posts_of_other_threads_are_handled_on_the_loops_thread_in_each_ones_order() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        places: set[int] = set()

        def post(name: int) -> None:
            for number in range(500):
                actor.deliver((name, number))
                actor.actor_ref.tell(lambda: places.add(threading.get_ident()))

        threads = [threading.Thread(target=post, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
        await settle(actor)
        assert places == {threading.get_ident()}
        for name in range(4):
            assert [m[1] for m in actor.seen if type(m) is tuple and m[0] == name] == list(range(500))

    asyncio.run(main())


def test_another_thread_can_wait_for_an_answer_and_for_a_stop() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        ref = actor.actor_ref
        assert await asyncio.to_thread(ref.ask, "hello") == "hello"
        assert await asyncio.to_thread(
            lambda: ref.proxy().seen.get(),
        ) == ["hello"]
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(ref.ask, ValueError("no"))
        assert await asyncio.to_thread(ref.stop) is True
        assert await asyncio.to_thread(ref.stop) is False

    asyncio.run(main())


def test_an_actor_can_be_given_a_loop_and_started_from_anywhere() -> None:
    loop = asyncio.new_event_loop()

    class Placed(Recorder):
        event_loop: ClassVar[asyncio.AbstractEventLoop | None] = loop

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ref = Placed.start("placed")
    assert ref.ask(threading.get_ident) == thread.ident
    assert ref.stop() is True
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_handlers_run_in_the_context_the_actor_was_started_in() -> None:
    whose = contextvars.ContextVar("whose", default="nobody's")

    async def main() -> None:
        whose.set("starter's")
        actor = Recorder.spawn()
        await settle(actor)
        whose.set("poster's")
        assert await actor.actor_ref.ask(whose.get, block=False) == "starter's"

    asyncio.run(main())


# What would block its own loop


def test_a_blocking_ask_on_its_own_loop_is_refused_and_posts_nothing() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        with pytest.raises(InsideLoop, match=r"ask\(\) would block .* await the future"):
            actor.actor_ref.ask("hello")
        with pytest.raises(InsideLoop):
            actor.actor_ref.proxy().seen = []
        await settle(actor)
        assert actor.seen == ["settle"]

    asyncio.run(main())


def test_a_blocking_stop_on_its_own_loop_is_refused_and_stops_nothing() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        with pytest.raises(InsideLoop, match=r"stop\(\) would block"):
            actor.actor_ref.stop()
        await settle(actor)
        assert actor.actor_ref.is_alive()
        await actor.actor_ref.stop(block=False)
        assert actor.actor_ref.stop() is False  # nothing to wait for

    asyncio.run(main())


def test_getting_a_future_on_the_loop_is_refused_until_it_is_answered() -> None:
    async def main() -> None:
        future = Recorder.start().ask("hello", block=False)
        for derived in (future, future.map(str.upper), future.join(future)):
            with pytest.raises(InsideLoop, match=r"get\(\) would block"):
                derived.get()
        with pytest.raises(Timeout):
            future.get(timeout=0)
        assert await future == "hello"
        assert future.get() == "hello"

    asyncio.run(main())


def test_getting_a_future_of_an_unknown_loop_is_refused_where_a_loop_runs() -> None:
    async def main() -> None:
        future: LoopFuture[int] = LoopFuture()
        with pytest.raises(InsideLoop):
            future.get(timeout=60)
        in_thread(lambda: future.set(1))
        assert future.get() == 1

    asyncio.run(main())


def test_an_actor_of_another_loop_may_be_waited_for() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    class Elsewhere(Recorder):
        event_loop: ClassVar[asyncio.AbstractEventLoop | None] = loop

    async def main() -> None:
        ref = Elsewhere.start()
        assert ref.ask(lambda: threading.Event().wait(0.01)) is False
        assert await ref.ask("awaited", block=False) == "awaited"
        assert ref.stop() is True

    asyncio.run(main())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


# Futures


@pytest.mark.parametrize("fails", [False, True])
def test_a_future_wakes_those_who_wait_after_it_has_its_answer(fails: bool) -> None:
    future, found = LoopFuture[int](), list[object]()

    def opened() -> None:
        try:
            found.append(future.get(timeout=0))
        except ValueError as error:
            found.append(error)

    gate: Any = SimpleNamespace(open=opened, is_open=True)
    future._answered = gate
    error = ValueError("no")
    if fails:
        future.set_exception((ValueError, error, None))
    else:
        future.set(7)
    assert found == [error if fails else 7]


def test_a_future_can_be_awaited_by_many_and_again() -> None:
    async def main() -> None:
        future = Recorder.start().ask("hello", block=False)

        async def wait() -> object:
            return await future

        assert set(await asyncio.gather(wait(), wait())) == {"hello"}
        assert await future == "hello"

    asyncio.run(main())


def test_an_awaited_future_raises_what_the_handler_raised_and_the_actor_lives() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        with pytest.raises(ValueError, match="no"):
            await actor.actor_ref.ask(ValueError("no"), block=False)
        assert await actor.actor_ref.ask("hello", block=False) == "hello"
        assert actor.hooks == ["start"]

    asyncio.run(main())


def test_futures_made_of_others_can_be_awaited_before_those_are_answered() -> None:
    async def main() -> None:
        ref = Recorder.start()

        def ask(value: object) -> Any:
            return ref.ask(value, block=False)

        assert await ask(2).map(lambda value: value + 1).map(str) == "3"
        assert await ask(1).join(ask(2), ask(3)) == [1, 2, 3]
        assert await ask([1, 2, 3]).filter(lambda value: value > 1) == [2, 3]
        assert await ask([1, 2, 3]).reduce(lambda left, right: left + right, 10) == 16
        with pytest.raises(ValueError, match="no"):
            await ask(ValueError("no")).map(str)

    asyncio.run(main())


def test_the_loop_may_await_what_a_thread_waits_for_already() -> None:
    async def main() -> None:
        ref = Recorder.start()
        answer: LoopFuture[str] = LoopFuture()
        louder = cast(LoopFuture[str], answer.map(str.upper))
        thread = asyncio.create_task(asyncio.to_thread(louder.get))
        while louder._condition.acquire(blocking=False):  # until the thread holds the lock of its future
            louder._condition.release()
            await asyncio.sleep(0)
        ref.tell(lambda: answer.set("hello"))
        assert [await louder, await thread] == ["HELLO", "HELLO"]

    asyncio.run(main())


def test_giving_up_on_a_future_leaves_it_to_the_others() -> None:
    async def main() -> None:
        future: LoopFuture[int] = LoopFuture()

        async def wait() -> int:
            return await future  # type: ignore[no-any-return]  # a future of any type

        impatient, patient = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.wait([impatient])
        await asyncio.to_thread(future.set, 1)
        assert await patient == 1
        assert impatient.cancelled()

    asyncio.run(main())


# The registry


def test_an_actor_outside_the_registry_is_unknown_to_it_and_not_stopped_by_it() -> None:
    async def main() -> None:
        actor = Recorder.spawn("host.1")
        assert ActorRegistry.get_all() == []
        assert ActorRegistry.get_by_urn("host.1") is None
        assert await asyncio.to_thread(ActorRegistry.stop_all) == []
        await settle(actor)
        assert actor.actor_ref.is_alive()
        assert str(actor) == "Recorder (host.1)"

    asyncio.run(main())


@pytest.mark.usefixtures("_empty_registry")
def test_an_actor_of_the_registry_is_there_from_its_start_to_its_stop() -> None:
    async def main() -> None:
        actor = Registered.spawn("known")
        assert ActorRegistry.get_by_urn("known") == actor.actor_ref
        assert await actor.actor_ref.stop(block=False) is True
        assert ActorRegistry.get_all() == []

    asyncio.run(main())


@pytest.mark.usefixtures("_empty_registry")
@pytest.mark.usefixtures("_empty_registry")
def test_an_actor_is_in_the_registry_before_its_loop_starts_it() -> None:
    class Quick:
        """The loop of another thread, which starts an actor at once."""

        is_closed = staticmethod(lambda: True)
        call_soon_threadsafe = staticmethod(lambda call: call())

    class Looks(Registered):
        event_loop: ClassVar[Any] = Quick()

        def on_start(self) -> None:
            self.hooks.append(ActorRegistry.get_by_urn(self.actor_urn))

    actor = Looks.spawn()
    assert actor.hooks == [actor.actor_ref]


def test_an_actor_that_cannot_be_started_is_not_registered() -> None:
    with pytest.raises(MisuseError, match="Registered: no event loop is running here"):
        Registered.start()
    assert ActorRegistry.get_all() == []


# Stopping


def test_a_stop_lets_earlier_messages_be_handled_and_refuses_later_ones() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        ref = actor.actor_ref
        actor.deliver("before")
        stop = ref.stop(block=False)
        actor.deliver("behind")
        ref.tell("behind")
        ask, again = ref.ask("behind", block=False), ref.stop(block=False)
        assert await stop is True
        assert await again is True
        with pytest.raises(ActorDeadError, match=r"Recorder \(host\) stopped before handling the message"):
            await ask
        assert actor.seen == ["before"]
        assert actor.hooks == ["start", "stop"]

    asyncio.run(main())


def test_a_stopped_actor_refuses_every_message() -> None:
    async def main() -> None:
        actor = Recorder.spawn()
        actor.stop()
        await actor.actor_ref.stop(block=False)
        assert not actor.actor_ref.is_alive()
        for post in (actor.deliver, actor.actor_ref.tell, lambda message: actor.stop()):
            with pytest.raises(ActorDeadError, match=r"Recorder \(host\) not found"):
                post("hello")
        assert actor.actor_inbox.empty()
        with pytest.raises(ActorDeadError):
            await actor.actor_ref.ask("hello", block=False)
        assert await actor.actor_ref.stop(block=False) is False

    asyncio.run(main())


def test_an_actor_can_stop_itself_after_its_own_posts() -> None:
    async def main() -> None:
        actor = Recorder.spawn()

        def leave() -> None:
            actor.deliver("last")
            actor.stop()

        actor.deliver(leave)
        await actor.actor_ref.ask("first", block=False)
        await asyncio.to_thread(actor.actor_stopped.wait, 5)
        assert actor.seen == [leave, "first", "last"]

    asyncio.run(main())


def test_messages_posted_before_the_start_wait_for_it() -> None:
    async def main() -> None:
        actor = Recorder()
        actor.deliver("early")
        await asyncio.sleep(0)
        assert actor.seen == []
        actor._start_actor_loop()
        await settle(actor)
        assert actor.seen == ["early", "settle"]

    asyncio.run(main())


def test_an_actor_whose_loop_is_closed_is_dead() -> None:
    async def main() -> Recorder:
        actor = Recorder.spawn()
        await settle(actor)
        return actor

    ref = asyncio.run(main()).actor_ref
    assert not ref.is_alive()
    with pytest.raises(ActorDeadError):
        ref.tell("hello")
    with pytest.raises(ActorDeadError):
        ref.ask("hello")
    assert ref.stop() is False


def test_a_stopped_actor_is_freed_without_the_garbage_collector() -> None:
    async def main() -> None:
        actor: Recorder | None = Recorder.spawn()
        assert actor is not None
        ref, state = actor.actor_ref, weakref.ref(actor)
        await ref.stop(block=False)
        actor = None
        assert state() is None

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


# Failures


@pytest.mark.parametrize("way", ["deliver", "tell"])
def test_an_exception_that_no_ask_gets_ends_the_actor_and_no_other(way: str) -> None:
    async def main() -> None:
        failing, other = Recorder.spawn(), Recorder.spawn()
        error = ValueError("no")
        post = failing.deliver if way == "deliver" else failing.actor_ref.tell
        post(error)
        behind = failing.actor_ref.ask("behind", block=False)
        with pytest.raises(ActorDeadError):
            await behind
        await settle(other)
        assert failing.hooks == ["start", ("failure", error), ("crash", error)]
        assert not failing.actor_ref.is_alive()
        assert other.actor_ref.is_alive()

    asyncio.run(main())


@pytest.mark.parametrize("end", [ValueError("no"), asyncio.CancelledError("stray"), None])
def test_every_hook_of_the_end_finds_the_actor_stopped(end: BaseException | None) -> None:
    found: list[bool] = []

    class Looks(Recorder):
        def on_stop(self) -> None:
            found.append(self.actor_stopped.is_set())

        def on_failure(self, *exc_info: Any) -> None:
            found.append(self.actor_stopped.is_set())

        def on_crash(self, error: BaseException) -> None:
            found.append(self.actor_stopped.is_set())

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        actor = Looks.spawn()
        if end is None:
            actor.stop()
        else:
            actor.deliver(end)
        await asyncio.sleep(0.001)

    asyncio.run(main())
    assert found == [True] * (2 if isinstance(end, ValueError) else 1)


def test_a_hook_that_fails_leaves_a_dead_actor_and_an_untroubled_loop() -> None:
    class Broken(Recorder):
        def __init__(self, where: str) -> None:
            super().__init__(where)
            self.where = where

        def fail(self, where: str) -> None:
            self.hooks.append(where)
            if where == self.where:
                raise RuntimeError(where)

        def on_start(self) -> None:
            self.fail("on_start")

        def on_stop(self) -> None:
            self.fail("on_stop")

        def on_failure(self, *exc_info: Any) -> None:
            self.fail("on_failure")

        def on_crash(self, error: BaseException) -> None:
            self.fail("on_crash")

    async def main() -> None:
        troubles: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: troubles.append(context))
        starting, stopping = Broken.spawn("on_start"), Broken.spawn("on_stop")
        failing, crashing = Broken.spawn("on_failure"), Broken.spawn("on_crash")
        failing.deliver(ValueError("no"))
        crashing.deliver(ValueError("no"))
        assert await stopping.actor_ref.stop(block=False) is True
        for broken in (starting, failing, crashing):
            with pytest.raises(ActorDeadError):
                await broken.actor_ref.ask("hello", block=False)
        assert starting.hooks == ["on_start", "on_crash"]
        assert stopping.hooks == ["on_start", "on_stop"]
        assert failing.hooks == crashing.hooks == ["on_start", "on_failure", "on_crash"]
        assert starting.seen == []
        assert troubles == []

    asyncio.run(main())


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"]
)
def test_an_exit_goes_through_the_loop_and_stops_no_other_actor(error: BaseException) -> None:
    loop = asyncio.new_event_loop()

    class Placed(Recorder):
        event_loop: ClassVar[asyncio.AbstractEventLoop | None] = loop

    exiting, other = Placed.spawn("exiting"), Placed.spawn("other")
    asked = exiting.actor_ref.ask(error, block=False)
    exiting.deliver("behind")
    answer = other.actor_ref.ask("hello", block=False)
    with pytest.raises(type(error)):
        loop.run_forever()
    assert exiting.hooks == ["start", ("crash", error)]
    assert exiting.seen == [error]
    with pytest.raises(ActorDeadError, match="stopped while handling the message"):
        asked.get(timeout=0)
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    assert answer.get(timeout=0) == "hello"
    assert other.actor_ref.is_alive()
    loop.close()


def test_another_error_that_is_no_exception_is_reported_to_the_loop() -> None:
    async def main() -> None:
        reported: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        actor, other = Recorder.spawn(), Recorder.spawn()
        error = asyncio.CancelledError("stray")
        actor.deliver(error)
        await settle(other)
        assert reported == [error]
        assert actor.hooks == ["start", ("crash", error)]

    asyncio.run(main())


@pytest.mark.usefixtures("_empty_registry")
def test_an_exit_in_the_registry_stops_all_of_the_registry_and_nothing_else() -> None:
    async def main() -> None:
        foreign = ThreadingActor.start()
        exiting, known, unknown = Registered.spawn(), Registered.spawn(), Recorder.spawn()
        exiting.deliver(SystemExit(3))
        await settle(unknown)
        await asyncio.to_thread(foreign.actor_stopped.wait, 5)
        await asyncio.to_thread(known.actor_stopped.wait, 5)
        assert ActorRegistry.get_all() == []
        assert exiting.hooks[:2] == known.hooks == ["start", "stop"]
        assert exiting.hooks[2][0] == "crash"
        assert unknown.actor_ref.is_alive()

    asyncio.run(main())


# Size


@pytest.mark.slow
def test_three_thousand_actors_take_no_thread_and_three_kibibytes_each_at_most() -> None:
    class Plain(LoopActor):
        use_registry = False
        handled = 0

        def on_receive(self, message: object) -> None:
            self.handled += 1

    async def main() -> None:
        threads = threading.active_count()
        tracemalloc.start()
        try:
            actors = [Plain.spawn(urn="host.1.2") for _ in range(3_000)]
            await settle(actors[-1])
            bytes_each = tracemalloc.get_traced_memory()[0] / len(actors)
        finally:
            tracemalloc.stop()
        assert bytes_each < 3 * 1024
        for actor in actors:
            actor.deliver("hello")
        await settle(actors[-1])
        assert [actor.handled for actor in actors] == [1] * 2_999 + [3]
        assert threading.active_count() == threads
        for stopped in [actor.actor_ref.stop(block=False) for actor in actors]:
            assert await stopped

    asyncio.run(main())
