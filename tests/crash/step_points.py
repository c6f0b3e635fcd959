"""Points in the steps of programs, at which a process can die."""

from collections.abc import Callable, Sequence

from callboard.actors.protocol.request import StateOf
from callboard.runtime.programs.asks import Answer, Step
from callboard.runtime.programs.run import ProgramRun


def pass_at_steps(passes: Callable[[], object]) -> None:
    """Call a function before and after each step that is new, from now on in this process.

    A step that is executed again passes no point.
    """
    original = ProgramRun.step

    def step(
        run: ProgramRun,
        answers: Sequence[Answer],
        at: int,
        marks: dict[str, bool] | None = None,
        state_of: StateOf | None = None,
        *,
        left_out_ms: int = 0,
    ) -> Step:
        if marks is None:
            passes()
        made = original(run, answers, at, marks, state_of, left_out_ms=left_out_ms)
        if marks is None:
            passes()
        return made

    ProgramRun.step = step  # type: ignore[assignment,method-assign]  # patched to die in a step
