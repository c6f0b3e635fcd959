"""Re-execution: a run goes through its recorded steps again, each with the answers and the time it had.

Each step must ask the same, in any order: asks of one step run together, and asyncio itself may order them
by chance (`as_completed` of bare coroutines). It must also give up the same asks, and end where it ended.
It may read no other key of the shared state: the values of that time are recorded for those that it read.
"""

from collections import Counter
from itertools import zip_longest
from typing import Final

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.kept_bodies import shared_head
from callboard.runtime.failure_text import located_text
from callboard.runtime.programs.asks import Ask, Head, Step
from callboard.runtime.programs.history import RecordedRun, RecordedStep
from callboard.runtime.programs.run import Main, ProgramCrashed, ProgramRun

_SHOWN: Final = 3  # asks of a side
_SHOWN_CHARS: Final = 60  # of each side, from the first place that differs
_BEFORE_CHARS: Final = 15  # of them that are equal, so that the place can be found


class ProgramDiverged(ProgramCrashed):
    """A recorded step that the program does not repeat. step: its number. recorded, now: what each side does.

    by_chance: the code is the recorded code.

    The program was changed, or it depends on more than its prompt, its answers and its context.
    """

    def __init__(self, step: int, recorded: str, now: str, *, by_chance: bool = False) -> None:
        advice = (
            "The code is the recorded code: it depends on chance, as on a clock, on random numbers or on the "
            "order of a set, or on what it keeps outside of its run; use ctx.now() and ctx.random()"
            if by_chance
            else 'If the program was changed, write the new part as `if ctx.since("name"):`; else it depends '
            "on a clock, on chance, on the order of a set, or on what it keeps outside of its run"
        )
        super().__init__(f"step {step} is not as recorded. Recorded: {recorded}. Now: {now}. {advice}")
        self.step = step
        self.recorded = recorded
        self.now = now
        self.by_chance = by_chance


class CheckStopped(SystemExit):
    """The end of a check that was over its time. Like any SystemExit, it passes through tasks."""


def executed_again(main: Main, run: str, recorded: RecordedRun) -> ProgramRun:
    """Execute the recorded steps of a run again, and return it. Raises ProgramDiverged.

    run: the name of a run without steps; a recorded one has its own, also in a fork.
    """
    made = ProgramRun(main, recorded.steps[0].step.head.run if recorded.steps else run)
    for one in recorded.steps:
        repeat(made, one)
    return made


def divergence(main: Main, run: str, recorded: RecordedRun) -> ProgramDiverged | None:
    """Execute the recorded steps of a run again; return where they differ, and whether that is chance."""
    first = _divergence(main, run, recorded)
    if first is None:
        return None
    second = _divergence(main, run, recorded)
    by_chance = second is None or (first.step, first.now) != (second.step, second.now)
    return ProgramDiverged(first.step, first.recorded, first.now, by_chance=by_chance)


def _divergence(main: Main, run: str, recorded: RecordedRun) -> ProgramDiverged | None:
    made = ProgramRun(main, run)
    for one in recorded.steps:
        try:
            repeat(made, one)
        except ProgramDiverged as error:
            return error
        except CheckStopped:
            raise
        except SystemExit as error:
            head = one.step.head
            return ProgramDiverged(head.step, what_of(one.step), f"raised {located_text(error)}")
    made.stop()
    return None


def repeat(run: ProgramRun, one: RecordedStep) -> None:
    """Execute the next recorded step of a run again. Raises ProgramDiverged, and stops the run."""
    head = one.step.head
    state = _RecordedState(head)
    try:
        now = run.step(one.answers, head.at, head.marks, state.read, left_out_ms=head.left_out_ms)
        found = difference(one.step, now)
    except ProgramCrashed as error:
        found = state.new_read or (what_of(one.step), f"crashed: {error}")
        raise ProgramDiverged(head.step, *found) from error
    if found := state.new_read or found:
        run.stop()
        raise ProgramDiverged(head.step, *found)


class _RecordedState:
    """The shared state as a recorded step has read it.

    new_read: after a look at a key that it did not read, what each side does.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self.new_read: tuple[str, str] | None = None

    def read(self, key: str) -> Json:
        head = self._head
        if key in head.undeclared:
            raise KeyError(head.undeclared[key])
        if key not in head.state:
            # Kept, since the program may catch the error.
            self.new_read = f"did not read ctx.state[{key!r:.80}]", f"reads ctx.state[{key!r:.80}]"
            raise ProgramDiverged(head.step, *self.new_read)
        return head.state[key]


def difference(recorded: Step, now: Step) -> tuple[str, str] | None:
    """Return what each of two steps does and the other does not; None if they do the same."""
    asked, asks = _ids(recorded), _ids(now)
    if asked != asks:
        return _asks(_only(recorded.asks, asked - asks), _only(now.asks, asks - asked))
    given_up, gives_up = set(recorded.head.cancels), set(now.head.cancels)
    if given_up != gives_up:
        return _cancels(given_up - gives_up), _cancels(gives_up - given_up)
    if recorded.ending != now.ending:
        return _ends(recorded, now)
    return None


def _ids(step: Step) -> Counter[str]:
    return Counter(one.id for one in step.asks)


def _only(asks: tuple[Ask, ...], ids: Counter[str]) -> list[str]:
    return [str(one) for one in asks if ids[one.id]]


def _asks(recorded: list[str], now: list[str]) -> tuple[str, str]:
    """Return the asks of each side alone, in words; of a pair, from the first place that differs."""
    shown = [excerpts(*pair) for pair in zip_longest(recorded, now, fillvalue="")]
    was = [f"asked {one}" for one, _ in shown if one]
    found = [f"asked {other}" for _, other in shown if other]
    return _listed(was) or "asked nothing else", _listed(found) or "asked nothing else"


def excerpts(one: str, other: str) -> tuple[str, str]:
    """Return 60 characters of each of two texts, from shortly before the first place that differs."""
    start = 0 if not (one and other) else max(0, shared_head(one, other) - _BEFORE_CHARS)
    if max(len(one), len(other)) <= _SHOWN_CHARS:
        start = 0
    return _cut(one, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    end = start + _SHOWN_CHARS
    return f"{'...' if start else ''}{text[start:end]}{'...' if len(text) > end else ''}"


def _cancels(ids: set[str]) -> str:
    return _listed([f"gave up {one}" for one in sorted(ids)]) or "gave up nothing else"


def what_of(step: Step) -> str:
    """Return the asks or the end of a step, in words."""
    return _ends(step, step)[0] if step.ending else _asks(_only(step.asks, _ids(step)), [])[0]


def _ends(recorded: Step, now: Step) -> tuple[str, str]:
    """Return how each of two steps ends, in words."""
    was, found = (repr(step.ending.text) if step.ending else "" for step in (recorded, now))
    was, found = excerpts(was, found)
    return _end(recorded, was), _end(now, found)


def _end(step: Step, text: str) -> str:
    if step.ending is None:
        return "went on"
    verb = "returned" if step.ending.failure is None else f"failed ({step.ending.failure}) with"
    return f"{verb} {text}"


def _listed(told: list[str]) -> str:
    more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return ", ".join([*told[:_SHOWN], *more])
