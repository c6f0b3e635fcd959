"""Pykka actors on an asyncio event loop. The one module of callboard that imports Pykka.

An actor owns no thread: its inbox takes turns with the other inboxes of its loop (see `run_queue`). Otherwise
it behaves as `pykka.ThreadingActor`, with Pykka's own suite as the reference (`make conformance`).

Rules
  - A call that would make the loop's thread wait for the loop itself raises `InsideLoop` and posts nothing.
  - An actor whose loop is closed is dead.
  - An ask whose handling raises `SystemExit` or the like is answered with `ActorDeadError`.
  - With `use_registry = False`, as in sessions, an actor stays out of Pykka's registry.
"""

import logging
import sys
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

# Private parts of Pykka, also `_get_hook` and `Actor._handle_*`: they are why its version is pinned.
from pykka import Actor, ActorDeadError, ActorRef, ActorRegistry, Future, ThreadingFuture
from pykka._envelope import Envelope
from pykka._types import OptExcInfo
from pykka.messages import _ActorStop

from callboard.runtime.scheduling.run_queue import Gate, LoopInbox, StopFlag, loop_for, refuse_to_block

T = TypeVar("T")
J = TypeVar("J")
M = TypeVar("M")
R = TypeVar("R")
A = TypeVar("A", bound=Actor)

logger = logging.getLogger("pykka")  # Pykka's own, and so are the texts: an actor's log reads the same


class LoopFuture(ThreadingFuture[T]):
    """A Pykka future that can also be awaited, on any loop. `get` blocks, from any other thread."""

    answered_on: AbstractEventLoop | None = None
    """The loop of the actor that will answer; None if unknown, so that any running loop may be the one."""

    def __init__(self) -> None:
        super().__init__()
        self._answered = Gate()
        self._sources: tuple[Future[Any], ...] = ()

    def get(self, *, timeout: float | None = None) -> Any:
        """Return the value, after at most `timeout` seconds. Raises InsideLoop if it would never come."""
        if (timeout is None or timeout > 0) and self._get_hook is None and not self._answered.is_open:
            refuse_to_block(self.answered_on, "get()")
        return super().get(timeout=timeout)

    def set(self, value: Any | None = None) -> None:
        """Answer with a value."""
        super().set(value)
        self._answered.open()

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Answer with an exception, by default the one being handled."""
        super().set_exception(exc_info)
        self._answered.open()

    def __await__(self) -> Generator[None, None, Any]:
        yield from self._until_answered()
        return self.get()

    __iter__ = __await__

    def _until_answered(self) -> Generator[Any, None, None]:
        """Wait for the answer, or for the sources of a future that `map`, `join` and so on made."""
        # Before that its hook would block: another thread may hold the hook's lock until this loop answers.
        for source in self._sources:
            if isinstance(source, LoopFuture):
                yield from source._until_answered()
        if self._get_hook is None:
            yield from self._answered.__await__()

    def filter(self: Future[Iterable[J]], func: Callable[[J], bool]) -> Future[Iterable[J]]:
        """Filter the answer as in Pykka. The new future can be awaited too."""
        return _made_of(ThreadingFuture.filter(self, func), self)

    def join(self, *futures: Future[Any]) -> Future[Iterable[Any]]:
        """Join futures as in Pykka. The new future can be awaited too."""
        return _made_of(super().join(*futures), self, *futures)

    def map(self, func: Callable[[T], M]) -> Future[M]:
        """Map the answer as in Pykka. The new future can be awaited too."""
        return _made_of(super().map(func), self)

    def reduce(self: Future[Iterable[J]], func: Callable[[R, J], R], *args: R) -> Future[R]:
        """Reduce the answer as in Pykka. The new future can be awaited too."""
        return _made_of(ThreadingFuture.reduce(self, func, *args), self)


def _made_of(future: Future[M], *sources: Future[Any]) -> Future[M]:
    if isinstance(future, LoopFuture):
        future._sources = sources
    return future


class LoopRef(ActorRef[A]):
    """A reference whose blocking calls are refused where they would wait for their own loop."""

    actor_inbox: LoopInbox

    def is_alive(self) -> bool:
        """Return True if the actor has not stopped and its loop is not closed."""
        loop = self.actor_inbox.loop
        return not self.actor_stopped.is_set() and (loop is None or not loop.is_closed())

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Ask the actor as in Pykka. Raises InsideLoop, and posts nothing, if it would block its loop."""
        if block and self.is_alive():
            refuse_to_block(self.actor_inbox.loop, "ask()")
        future = super().ask(message, block=False)
        if isinstance(future, LoopFuture):
            future.answered_on = self.actor_inbox.loop
        return future.get(timeout=timeout) if block else future

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """Stop the actor as in Pykka. Raises InsideLoop, and stops nothing, if it would block its loop."""
        if block and self.is_alive():
            refuse_to_block(self.actor_inbox.loop, "stop()")
        asked: Future[Any] = self.ask(_ActorStop(), block=False)

        def was_alive(timeout: float | None) -> bool:
            try:
                asked.get(timeout=timeout)
            except ActorDeadError:
                return False
            return True

        stopped = _made_of(LoopFuture[bool](), asked)
        stopped.set_get_hook(was_alive)
        return stopped.get(timeout=timeout) if block else stopped


class LoopActor(Actor):
    """An actor that lives on an event loop: its hooks run on the loop's thread and must not block."""

    use_registry: ClassVar[bool] = True
    """False: unknown to `pykka.ActorRegistry`, without a UUID, and never stopped by a foreign `stop_all`."""
    # The registry removes an actor in linear time, and stops all actors when one raises `SystemExit`.

    event_loop: ClassVar[AbstractEventLoop | None] = None
    """The actor's loop; None for the loop that runs where the actor is started."""

    actor_inbox: LoopInbox

    def __init__(self, *_args: object, urn: str = "", **_kwargs: object) -> None:
        """Create an actor. urn: its name in errors and log lines; by default a UUID, or its class."""
        if self.use_registry:
            super().__init__()
        else:
            self.actor_inbox = self._create_actor_inbox()
            self.actor_stopped = StopFlag()
            self.actor_urn = type(self).__name__
        self.actor_urn = urn or self.actor_urn

    @property
    def actor_ref(self) -> ActorRef[Self]:
        """Return the reference to this actor."""
        # Made when it is first asked for: of ten thousand session actors none needs it.
        ref = self.__dict__.get("_actor_ref")
        if not isinstance(ref, LoopRef):
            ref = self._actor_ref = LoopRef(self)
        return ref

    @staticmethod
    def _create_actor_inbox() -> LoopInbox:
        return LoopInbox()

    @staticmethod
    def _create_future() -> Future[Any]:
        return LoopFuture()

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> ActorRef[Self]:
        """Make an actor and start it. Raises MisuseError where no loop runs and none was given."""
        return cls.spawn(*args, **kwargs).actor_ref

    @classmethod
    def spawn(cls, *args: Any, **kwargs: Any) -> Self:
        """Make an actor and start it, like `start`, but return the actor itself, for `deliver`."""
        loop_for(cls, cls.event_loop)  # raises before anything must be undone
        actor = cls(*args, **kwargs)
        if cls.use_registry:
            ActorRegistry.register(actor.actor_ref)
            logger.debug(f"Starting {actor}")
        actor._start_actor_loop()
        return actor

    def _start_actor_loop(self) -> None:
        self.actor_inbox.open(loop_for(type(self), self.event_loop), self._first_work)

    def deliver(self, message: Any) -> None:
        """Send a message without an envelope to `on_receive`. Raises ActorDeadError after a stop."""
        if self.actor_stopped.is_set():
            raise ActorDeadError(f"{self} not found")
        self.actor_inbox.put(message)

    on_receive_together: Callable[[list[Any]], None] | None = None
    """An optional hook: `on_receive` for several consecutive messages that came through `deliver`."""

    def on_crash(self, error: BaseException) -> None:
        """Run code after `error` has ended the actor without a stop. This is the last hook.

        This class does nothing here: subclasses override it.

        An `Exception` has been logged and goes no further. After any other error (`SystemExit`,
        `KeyboardInterrupt`, a cancellation) `on_stop` is not called, no other actor stops, and the error goes
        on into the loop after this hook, where the first two end `run_forever`. An actor of the registry does
        as Pykka's: it calls `on_stop`, stops the whole registry, and swallows the error.
        """

    def _first_work(self, queue: deque[object], messages_max: int) -> int:
        """Take the first turn: start the actor and handle the messages that have come already."""
        self.actor_inbox.worker = self._work
        try:
            self.on_start()
        except Exception as error:
            self._fail(error, is_starting=True)
        except BaseException as error:
            self._crash(error)
        finally:
            self._refuse_if_stopped(queue)
        return self._work(queue, messages_max)

    def _work(self, queue: deque[object], messages_max: int) -> int:
        """Handle messages until the queue is empty, they are enough, or the actor stops. Return how many."""
        left, stopped = messages_max, self.actor_stopped
        try:
            while queue and left and not stopped._flag:  # type: ignore[attr-defined]  # `is_set()` would be a call per message
                left -= 1
                item = queue.popleft()
                if type(item) is Envelope:
                    self._handle(item)
                elif not queue or (together := self.on_receive_together) is None:
                    self.on_receive(item)
                else:
                    items = [item]
                    while queue and left and type(queue[0]) is not Envelope:
                        left -= 1
                        items.append(queue.popleft())
                    together(items)
        except Exception as error:
            self._fail(error, is_starting=False)
        except BaseException as error:
            self._crash(error)
        finally:
            if stopped._flag:  # type: ignore[attr-defined]  # `is_set()` would be a call per turn
                self._refuse_if_stopped(queue)
        return messages_max - left

    def _refuse_if_stopped(self, queue: deque[object]) -> None:
        """Answer the messages to a stopped actor, present and future ones. The inbox drops the actor."""
        if self.actor_stopped.is_set():
            self.actor_inbox.worker = refuse = partial(_refuse, str(self))
            refuse(queue)

    def _handle(self, envelope: Envelope[Any]) -> None:
        """Handle one message that came through the reference, and answer it if it is an ask."""
        if (reply_to := envelope.reply_to) is None:
            self._handle_receive(envelope.message)
            return
        try:
            reply_to.set(self._handle_receive(envelope.message))
        except Exception:
            logger.info(f"Exception returned from {self} to caller:", exc_info=True)
            reply_to.set_exception()
        except BaseException as error:
            dead = ActorDeadError(f"{self.actor_ref} stopped while handling the message: {error!r}")
            reply_to.set_exception((ActorDeadError, dead, None))
            raise

    def _stop(self) -> None:
        if self.use_registry:
            super()._stop()
            return
        self.actor_stopped.set()
        try:
            self.on_stop()
        except Exception:
            self._handle_failure(*sys.exc_info())

    def _fail(self, error: Exception, is_starting: bool) -> None:
        """End the actor after an exception that no ask gets. As in Pykka, `on_start` has no `on_failure`."""
        self._handle_failure(*sys.exc_info())
        try:
            if not is_starting:
                self.on_failure(*sys.exc_info())
        except Exception:
            self._handle_failure(*sys.exc_info())
        finally:
            self._report(error)

    def _crash(self, error: BaseException) -> None:
        if not self.use_registry:
            self.actor_stopped.set()
            self._report(error)
            raise error
        logger.debug(f"{error!r} in {self}. Stopping all actors.")
        self._stop()
        ActorRegistry.stop_all(block=False)  # Pykka waits, but this is the thread that they stop on
        self._report(error)

    def _report(self, error: BaseException) -> None:
        try:
            self.on_crash(error)
        except Exception:
            self._handle_failure(*sys.exc_info())


def _refuse(name: str, queue: deque[object], messages_max: int = 0) -> int:
    """Answer the messages behind a stop, as Pykka does: a stop succeeds, an ask gets an error."""
    while queue:
        item = queue.popleft()
        if type(item) is not Envelope or item.reply_to is None:
            continue
        if isinstance(item.message, _ActorStop):
            item.reply_to.set(None)
        else:
            error = ActorDeadError(f"{name} stopped before handling the message")
            item.reply_to.set_exception((ActorDeadError, error, None))
    return messages_max
