"""A program as a model: each turn of its agent is one step, and its reply the asks of that step.

In one process the coroutine of a run stays parked between its steps. A request that does not follow the
parked step (after a restart, for a retry, in a fork) is answered by executing the recorded steps again.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Prices
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.failure_text import located_text
from callboard.runtime.models.protocol import DivergedAnswer, ModelAnswer, OnText
from callboard.runtime.programs.asks import Answer, Step, run_name
from callboard.runtime.programs.history import RecordedRun, answers_from, last_run, runs_before
from callboard.runtime.programs.replaying import ProgramDiverged, divergence, executed_again
from callboard.runtime.programs.run import Main, ProgramCrashed, ProgramRun, RunsBefore
from callboard.runtime.sanitize import MAX_BYTES

MainOf: TypeAlias = Callable[[Json, RunsBefore], Main]
"""Makes, of a prompt and the runs before it, the function that starts a run."""

CRASHED: Final = "crashed"
SLOW_MS: Final = 1_000
"""A step that takes longer is logged: no other session moves meanwhile."""

logger = logging.getLogger("callboard.programs")


class _Parked(NamedTuple):
    """A run between two steps. length: of the request that it answered. said: the start of its answer."""

    run: ProgramRun
    length: int
    said: bytes

    def fits(self, request: ModelRequest) -> bool:
        """Return True if a request goes on where this run stands."""
        return request.length > self.length and bytes(request.message(self.length)).startswith(self.said)

    def answers_in(self, request: ModelRequest) -> tuple[Answer, ...] | None:
        """Return the answers for the next step of this run; None if the request does not go on with it."""
        if not self.fits(request):
            return None
        return answers_from(self.length + 1, request.length, request.message)


class ProgramModel:
    """The model behind a program. agent: its name."""

    def __init__(self, agent: str, main_of: MainOf) -> None:
        # Free: a step uses no model, so that a cost limit holds for the agents below.
        self.spec = ModelSpec(f"program:{agent}", prices=Prices(0, 0), kind="program")
        self._agent = agent
        self.main_of = main_of
        self._parked: dict[str, dict[str, _Parked]] = {}

    def __repr__(self) -> str:
        return f"ProgramModel({self._agent!r})"

    @property
    def simulated(self) -> "ProgramModel":
        """Return the model of the same program for a simulation, which has no processes."""
        return self

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Run the next step. The reply of a program that raises is a failure with code `crashed`."""
        if request.profile != self._agent:
            why = f"{request.address} has no model: pass Runtime(model=...) for agents that name none"
            return ModelAnswer(failure=ModelFailure("unknown_model", why), usage=ZERO)
        began = monotonic_ms()
        try:
            return self._stepped(request)
        except ProgramDiverged as error:
            failure = ModelFailure(CRASHED, str(error))
            return DivergedAnswer(failure=failure, usage=ZERO, model=self.spec.name)
        except ProgramCrashed as error:
            return ModelAnswer(failure=ModelFailure(CRASHED, str(error)), usage=ZERO, model=self.spec.name)
        except (KeyboardInterrupt, SystemExit) as error:
            logger.error(
                "%s: %s in a step of program %r ends the event loop of this process; resume its sessions, "
                "which repeats the step",
                request.address,
                located_text(error),
                self._agent,
            )
            raise
        finally:
            if (took := monotonic_ms() - began) > SLOW_MS:
                logger.warning(
                    "%s: a step of program %r took %d ms, and all sessions waited; move the work into a tool",
                    request.address,
                    self._agent,
                    took,
                )

    def divergence_in(self, recorded: RecordedRun, run: str, before: RunsBefore) -> ProgramDiverged | None:
        """Execute the recorded steps of a run again; return where they differ.

        run: its name. before: reads the runs before it.
        """
        return divergence(self.main_of(recorded.prompt, before), run, recorded)

    def ended(self, session_id: str, address: str = "") -> None:
        """Stop the parked run of an agent that ended; without an address, all of a session."""
        runs = self._parked.get(session_id, {})
        for name in [address] if address else list(runs):
            if (parked := runs.pop(name, None)) is not None:
                parked.run.stop()
        if not runs:
            self._parked.pop(session_id, None)

    async def aclose(self) -> None:
        """Stop all parked runs."""
        for session_id in list(self._parked):
            self.ended(session_id)

    @property
    def parked(self) -> int:
        """Return the number of parked runs."""
        return sum(map(len, self._parked.values()))

    def _stepped(self, request: ModelRequest) -> ModelAnswer:
        run, answers = self._next(request)
        at, left_out_ms = max(request.at, run.at), max(request.left_out_ms, run.left_out_ms)
        step = run.step(answers, at, None, request.state_of, left_out_ms=left_out_ms)
        content = step.content()
        if len(content) > MAX_BYTES:
            run.stop()
            raise ProgramCrashed(_too_large(step, len(content)))
        if step.ending is None and request.session_id:
            said = b'{"role":"assistant","content":' + _beginning(step)
            runs = self._parked.setdefault(request.session_id, {})
            runs[request.address] = _Parked(run, request.length, said)
        else:  # a simulation goes from one session to another, and tells of no end
            run.stop()
        return ModelAnswer(content, "tool_use" if step.asks else "end_turn", ZERO, model=self.spec.name)

    def _next(self, request: ModelRequest) -> tuple[ProgramRun, tuple[Answer, ...]]:
        """Return the run that a request goes on with, and the answers for its next step."""
        parked = self._parked.get(request.session_id, {}).pop(request.address, None)
        if parked is not None:
            answers = parked.answers_in(request)
            if answers is not None:
                return parked.run, answers
            parked.run.stop()
        is_same_code = parked is not None or not request.session_id  # a simulation is one process
        try:
            recorded = last_run(request.length, request.message)
        except msgspec.ValidationError as error:
            raise ProgramCrashed(f"the recorded replies are not those of a program ({error})") from None
        if recorded is None:
            raise ProgramCrashed("the program was asked for a step without a prompt")
        return self._again(request, recorded, is_same_code=is_same_code), recorded.answers

    def _again(self, request: ModelRequest, recorded: RecordedRun, *, is_same_code: bool) -> ProgramRun:
        """Execute the recorded steps again. is_same_code: this process has recorded the last of them."""
        name = run_name(recorded.number, request.session_id, request.address)
        before = partial(runs_before, recorded.place, request.message)
        main = partial(self.main_of, recorded.prompt, before)
        try:
            return executed_again(main(), name, recorded)
        except ProgramDiverged as error:
            again = None if is_same_code else divergence(main(), name, recorded)
            by_chance = again is None or again.by_chance or again.now != error.now
            raise ProgramDiverged(error.step, error.recorded, error.now, by_chance=by_chance) from error


def _too_large(step: Step, size: int) -> str:
    return (
        f"step {step.head.step} of the program asks {len(step.asks)} times with {size:,} bytes in all, and a "
        f"step has at most {MAX_BYTES:,}; pass the path of a file, or less at a time"
    )


def _beginning(step: Step) -> bytes:
    head = step.head
    return b'[{"type":"program_step","run":"%b","step":%d,"at":%d' % (head.run.encode(), head.step, head.at)
