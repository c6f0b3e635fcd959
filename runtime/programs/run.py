"""One run of a program: a prompt, executed step by step. It needs nothing but its answers and their times.

A step hands over the answers that came, in the order of the log, and runs until nothing is ready. Then it
fires the timers that are due. So an answer that came in time goes before a timeout. The asks made meanwhile,
and the end if there is one, are the step.
The same steps with the same answers and times make the same asks, in this process and in any other.
An answer may say that the program ends with this step, whatever it does. Then an ask is not part of the step,
and raises as one that was given up; and a wait is over at once, since nothing more can come in its time.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from callboard.actors.agent.latched import given_up_status
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import CallboardError, InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.prompts import GIVEN_UP
from callboard.actors.protocol.request import StateOf
from callboard.runtime.failure_text import failure_text, located_text
from callboard.runtime.programs.asks import (
    VALUE_DEPTH_MAX,
    Answer,
    Ask,
    Ending,
    Head,
    ProgramFailed,
    Step,
    ask_id,
    ask_key,
    number_of,
    salt_of,
)
from callboard.runtime.programs.history import EarlierRun
from callboard.runtime.programs.kept_requests import KeptRequests
from callboard.runtime.programs.loop import CALLBACKS_MAX, EndlessStep, ProgramLoop
from callboard.runtime.sanitize import MAX_BYTES, clean_text, to_json

Main: TypeAlias = "Callable[[ProgramRun], Coroutine[object, None, object]]"
"""Makes the coroutine of a run."""

RunsBefore: TypeAlias = "Callable[[int], tuple[EarlierRun, ...]]"
"""Reads the last runs before this one, at most so many."""

CANCELS: Final = 3
"""The cancellations that a task gets when its run ends, before it is abandoned."""

ENDING_BYTES_MAX: Final = MAX_BYTES - 2**20  # a megabyte is left for the head of the last step
FAILURE_CHARS_MAX: Final = 10_000  # of the reason that a program gives
LAST_ASKS_MAX: Final = 100
"""Asks of a last step that raise, and waits that are over at once. Later ones wait forever, so that a loop of
them comes to rest."""

_ENDING_CALLBACKS_MAX: Final = 10_000  # each cancellation must come to rest soon: others wait for the loop
_ERRORS_SHOWN: Final = 3

logger = logging.getLogger("callboard.programs")


class ProgramCrashed(CallboardError):
    """The end of a program that raised, that waits for nothing, or that returned no JSON."""


class ProgramRun:
    """One run. run: its name, as of `run_name`. requests: the whole ones of its questions."""

    def __init__(self, main: Main, run: str) -> None:
        self.run = run
        self.is_over = False
        self.steps = 0
        self.at = 0
        self.left_out_ms = 0
        self._number = number_of(run)
        self._main = main
        self._task: asyncio.Task[object] | None = None
        self.loop = ProgramLoop(salt_of(run))
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._asked: dict[bytes, int] = {}
        self._new: dict[str, Ask] = {}
        self._given_up: list[str] = []
        self._ends = ""
        self._last_asks = 0
        self._since: dict[str, bool] = {}
        self._marks: dict[str, bool] = {}
        self._recorded_marks: Mapping[str, bool] | None = None
        self._random: Random | None = None
        self._state_of: StateOf | None = None
        self._read: dict[str, Json] = {}
        self._undeclared: dict[str, str] = {}
        self.requests = KeptRequests()

    def step(
        self,
        answers: Iterable[Answer],
        at: int,
        marks: Mapping[str, bool] | None = None,
        state_of: StateOf | None = None,
        *,
        left_out_ms: int = 0,
    ) -> Step:
        """Run the next step.

        answers: in the order of the log. at: the time, in milliseconds since 1970 UTC; never less than that
        of the step before. marks: of a recorded step; None for a new one. state_of: for reading the shared
        state; of a recorded step it knows the values that were read then. left_out_ms: the sum of the times
        that timeouts do not count; never less than that of the step before. Raises ProgramCrashed; passes
        SystemExit and KeyboardInterrupt of the program on.
        """
        self.steps += 1
        self.at, self.left_out_ms = at, left_out_ms
        self._new, self._given_up, self._marks, self._recorded_marks = {}, [], {}, marks
        self._read, self._undeclared, self._state_of = {}, {}, state_of
        if self._task is None:
            self._began_at, self._left_out_before = at, left_out_ms
        self._run(partial(self._begin, answers), self._ms)
        assert self._task is not None
        if self._ends:
            self._wait_no_more(self._task)
        self.requests.end_step(self._new)
        if self._task.done():
            ending = self._end(self._task)
            return Step(self._head(None), (), ending)
        wake = self._wake
        if not self._open and wake is None and not self._ends:
            raise self._stuck(self._task)
        return Step(self._head(wake), tuple(self._new.values()))

    @property
    def _ms(self) -> int:
        """The milliseconds from the first step to this one."""
        return self.at - self._began_at

    @property
    def _wake(self) -> int | None:
        """The earliest deadline, in milliseconds since 1970 UTC."""
        after = self.loop.wake_ms
        return None if after is None else self._began_at + after

    def stop(self) -> None:
        """Cancel the program, let its `finally` clauses run, and run nothing any more.

        An ask that it makes now never gets an answer, and is not posted. A task that lives after three
        cancellations is abandoned.
        """
        self.is_over = True
        if self._task is not None:
            self._cancel(lambda task: task is self._task)
            self._cancel(lambda task: task is not self._task)
        left = self.loop.live_tasks
        if left:
            names = ", ".join(map(_place_of, left[:_ERRORS_SHOWN]))
            logger.warning(
                "%d task(s) of a program ignore that they were cancelled, and are abandoned: %s",
                len(left),
                names,
            )
        del left
        self._abandon()

    # --- for the context of the program -----------------------------------------------

    def ask(self, name: str, arguments: Json) -> "tuple[str, asyncio.Future[Answer]]":
        """Ask, and return the id of the ask and the future of its answer."""
        answer: asyncio.Future[Answer] = self.loop.create_future()
        if self.is_over:
            return "", answer
        if self._ends:
            self._last_asks += 1
            if self._last_asks <= LAST_ASKS_MAX:
                answer.set_result(_given_up(name, self._ends))
            return "", answer
        key = ask_key(self._number, name, arguments)
        count = self._asked[key] = self._asked.get(key, 0) + 1
        made = Ask(ask_id(key, count), name, arguments)
        self._new[made.id] = made
        self._open[made.id] = answer
        return made.id, answer

    def release(self, ask: str) -> None:
        """Give up an ask, unless it has its answer."""
        if self._open.pop(ask, None) is None:
            return
        if self._new.pop(ask, None) is None:
            self._given_up.append(ask)

    async def wait_by_clock(self, seconds: float) -> None:
        """Wait as `asyncio.sleep` does, for a time of day: the times that timeouts do not count do count."""
        if seconds <= 0:
            return await asyncio.sleep(0)
        reached = self.loop.create_future()
        timer = self.loop.call_by_clock(seconds, _reach, reached)
        try:
            await reached
        finally:
            timer.cancel()

    def since(self, name: str) -> bool:
        """Return True if this run came here first with code that asks about the name."""
        known = self._since.get(name)
        if known is None:
            recorded = self._recorded_marks
            known = self._since[name] = True if recorded is None else recorded.get(name, False)
            self._marks[name] = known
        return known

    def state_of(self, key: str) -> Json:
        """Return the shared state's value of a key, the same throughout a step. Raises KeyError."""
        if key not in self._read:
            if self._state_of is None:
                raise KeyError(f"no session is here, so nothing shares the state key {key!r:.80}")
            try:
                self._read[key] = self._state_of(key)
            except KeyError as error:  # the program may catch it, and go on
                self._undeclared[key] = str(error.args[0])
                raise
        return self._read[key]

    @property
    def random(self) -> Random:
        """Return the run's generator of random numbers."""
        if self._random is None:
            self._random = Random(self.run)
        return self._random

    # --- helpers ------------------------------------------------------------------------

    def _wait_no_more(self, task: "asyncio.Task[object]") -> None:
        """Let the timers of the last step fire, one deadline after the other, until the program returns."""
        for _ in range(LAST_ASKS_MAX):
            due = self.loop.wake_ms
            if task.done() or due is None:
                return
            self._run(lambda: None, due)

    def _run(self, begin: Callable[[], object], ms: int) -> None:
        try:
            left_out_ms = self.left_out_ms - self._left_out_before
            self.loop.run_step(ms, begin, left_out_ms=left_out_ms, callbacks_max=CALLBACKS_MAX)
        except EndlessStep as error:
            where = ", ".join(map(_place_of, self.loop.live_tasks[:_ERRORS_SHOWN]))
            self._abandon()
            raise ProgramCrashed(f"{error} ({where})") from None
        except (KeyboardInterrupt, SystemExit):  # of a signal's handler, too: no failure of the program
            self._abandon()
            raise

    def _begin(self, answers: Iterable[Answer]) -> None:
        """Start the program in the first step; hand over the answers."""
        if self._task is None:
            self._task = self.loop.create_task(self._main(self))
        for answer in answers:
            self._ends = self._ends or answer.ends
            if answer.reply is not None:
                self.requests.answered(answer.tool_use_id, answer.value)
            future = self._open.pop(answer.tool_use_id, None)
            if future is not None and not future.done():  # a given-up ask: its answer is not delivered
                future.set_result(answer)

    def _head(self, wake: int | None) -> Head:
        given_up = tuple(self._given_up)
        return Head(
            self.run,
            self.steps,
            self.at,
            wake,
            given_up,
            self._marks,
            self._read,
            self._undeclared,
            self.left_out_ms,
        )

    def _end(self, task: "asyncio.Task[object]") -> Ending:
        """Return the end of a program that returned. Raises ProgramCrashed for one that raised."""
        self.stop()
        self._given_up += [ask for ask in self._open if ask not in self._new]
        self._open.clear()
        if task.cancelled():
            raise ProgramCrashed("CancelledError: the program cancelled itself")
        if (error := task.exception()) is not None:
            return _ending_by(error)
        return ending_of(task.result())

    def _stuck(self, task: "asyncio.Task[object]") -> ProgramCrashed:
        where = _place_of(task)
        self._abandon()
        return ProgramCrashed(
            f"the program waits for nothing that can come ({where}): no ask is open and no time is set; "
            "await an ask of ctx, or a task that does"
        )

    def _abandon(self) -> None:
        """Run no code of the program any more, not even when its garbage is collected.

        A coroutine that waits is closed by its finalizer, at the moment of a collection, on any thread. Here
        each is closed first; and one that ignores this, too, is in no cycle of ours, so that it goes at once.
        """
        self.is_over = True
        if self.loop.live_tasks:
            try:
                self.loop.run_step(
                    self._ms, self.loop.close_tasks, fires=False, callbacks_max=_ENDING_CALLBACKS_MAX
                )
            except (EndlessStep, SystemExit) as error:
                logger.warning("a program does not end: %s", failure_text(error))
        self._task = None
        self.loop.end()

    def _cancel(self, is_meant: "Callable[[asyncio.Task[object]], bool]") -> None:
        for _ in range(CANCELS):
            live = [task for task in self.loop.live_tasks if is_meant(task)]
            if not live:
                return
            try:
                self.loop.run_step(
                    self._ms,
                    partial(_cancel_all, live),
                    fires=False,
                    callbacks_max=_ENDING_CALLBACKS_MAX,
                )
            except (EndlessStep, SystemExit) as error:
                logger.warning("a program does not end: %s", failure_text(error))


def _given_up(name: str, kind: str) -> Answer:
    """Return the answer to an ask of a program that ends. name: of the tool. kind: of the end."""
    return Answer("", text_json(GIVEN_UP), True, given_up_status(name, kind))


def _reach(future: "asyncio.Future[None]") -> None:
    if not future.done():  # it may have been cancelled in the same step
        future.set_result(None)


def _cancel_all(tasks: "list[asyncio.Task[object]]") -> None:
    for task in tasks:
        task.cancel()


def ending_of(value: object) -> Ending:
    """Return the end of a program that returned this value.

    Raises ProgramCrashed for no JSON, and for a result that is too large.
    """
    ending = Ending(clean_text(value)) if isinstance(value, str) else _ending_with_value(value)
    if (size := ending.size) > ENDING_BYTES_MAX:
        raise ProgramCrashed(
            f"the program returned a {type(value).__name__} of {size:,} bytes (as JSON, and a value also as "
            f"text), and at most {ENDING_BYTES_MAX:,} can be given; return the path of a file, or a part"
        )
    return ending


def _ending_by(error: BaseException) -> Ending:
    """Return the end of a program that raised `ctx.fail(...)`. Raises ProgramCrashed for any other error."""
    leaves = list(_leaves(error))
    own = [leaf for leaf in leaves if isinstance(leaf, ProgramFailed)]
    if not own or len(own) < len(leaves):  # a task group may hold an error of the code beside it
        raise ProgramCrashed(crash_text(error)) from error
    return Ending(clean_text(own[0].text)[:FAILURE_CHARS_MAX], failure=own[0].kind)


def _ending_with_value(value: object) -> Ending:
    try:
        data = to_json(value, max_depth=VALUE_DEPTH_MAX, what="it")
    except InvalidPrompt as error:
        raise ProgramCrashed(
            f"the program returned a value of type {type(value).__name__}, which is not JSON: {error}"
        ) from None
    return Ending(bytes(data).decode(), data)


def crash_text(error: BaseException) -> str:
    """Return the text of an error with the user's file and line; of a group, that of its first errors."""
    leaves = list(_leaves(error))
    told = "; ".join(located_text(leaf) for leaf in leaves[:_ERRORS_SHOWN])
    return told + (f"; and {len(leaves) - _ERRORS_SHOWN} more" if len(leaves) > _ERRORS_SHOWN else "")


def _leaves(error: BaseException) -> Iterable[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _place_of(task: "asyncio.Task[object]") -> str:
    """Return the name of a task and the line at which it waits."""
    frames = task.get_stack(limit=1)
    if not frames:
        return task.get_name()
    code = frames[0].f_code
    return f"{task.get_name()} at {Path(code.co_filename).name}:{frames[0].f_lineno} in {code.co_name}"
