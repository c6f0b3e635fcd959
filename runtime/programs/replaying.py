"""Re-execution: a run goes through its recorded steps again, each with the answers and the time it had.

Each step must ask the same, in any order: asks of one step run together, and asyncio itself may order them
by chance (`as_completed` of bare coroutines). It must also give up the same asks, and end where it ended.
It may read no other key of the shared state: the values of that time are recorded for those that it read.
"""

from collections import Counter
from typing import Final

from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.asks import Ask, Head, Step
from callboard.runtime.programs.history import RecordedRun, RecordedStep
from callboard.runtime.programs.run import Main, ProgramCrashed, ProgramRun

_SHOWN: Final = 3  # asks of a side
_SHOWN_CHARS: Final = 120  # of an ask


class ProgramDiverged(ProgramCrashed):
    """A recorded step that the program does not repeat. step: its number. recorded, now: what each side does.

    The program was changed, or it depends on more than its prompt, its answers and its context.
    """

    def __init__(self, step: int, recorded: str, now: str) -> None:
        super().__init__(
            f"step {step} is not as recorded. Recorded: {recorded}. Now: {now}. If the program was changed, "
            'write the new part as `if ctx.since("name"):`; else it depends on a clock, on chance, or on the '
            "order of a set"
        )
        self.step = step
        self.recorded = recorded
        self.now = now


def executed_again(main: Main, run: str, recorded: RecordedRun) -> ProgramRun:
    """Execute the recorded steps of a run again, and return it. Raises ProgramDiverged.

    run: the name of a run without steps; a recorded one has its own, also in a fork.
    """
    made = ProgramRun(main, recorded.steps[0].step.head.run if recorded.steps else run)
    for one in recorded.steps:
        repeat(made, one)
    return made


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
        return _asks(recorded.asks, asked - asks), _asks(now.asks, asks - asked)
    given_up, gives_up = set(recorded.head.cancels), set(now.head.cancels)
    if given_up != gives_up:
        return _cancels(given_up - gives_up), _cancels(gives_up - given_up)
    if recorded.ending != now.ending:
        return _end(recorded), _end(now)
    return None


def _ids(step: Step) -> Counter[str]:
    return Counter(one.id for one in step.asks)


def _asks(asks: tuple[Ask, ...], only: Counter[str]) -> str:
    told = [f"asked {one!s:.{_SHOWN_CHARS}}" for one in asks if only[one.id]]
    return _listed(told) or "asked nothing else"


def _cancels(ids: set[str]) -> str:
    return _listed([f"gave up {one}" for one in sorted(ids)]) or "gave up nothing else"


def what_of(step: Step) -> str:
    """Return the asks or the end of a step, in words."""
    return _end(step) if step.ending else _asks(step.asks, _ids(step))


def _end(step: Step) -> str:
    if step.ending is None:
        return "went on"
    verb = "returned" if step.ending.failure is None else f"failed ({step.ending.failure}) with"
    return f"{verb} {step.ending.text!r:.{_SHOWN_CHARS}}"


def _listed(told: list[str]) -> str:
    more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
    return ", ".join([*told[:_SHOWN], *more])
