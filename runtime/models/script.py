"""The step of a script that answers a request, as a function of turn and attempt alone.

The n-th turn of an agent gets the n-th turn of its script. One turn of a script has a step for each attempt:
either retryable failures and the step after them, or a list of steps. A later attempt gets the last step
again if that was an answer, because the answer was lost on its way.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from callboard.actors.protocol.errors import ScriptError
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure

Ask: TypeAlias = Callable[[ModelRequest], object]

_SHOWN = 10


class Script:
    """A list of steps, or a policy function, and the steps that were played.

    kinds: the types of a step. A callable is a step too; it is called with the request.
    is_plain: the list is for the first agent that asks, and for no other.
    Raises ScriptError for any other object.
    """

    def __init__(self, steps: object, kinds: tuple[type, ...], *, is_plain: bool = False) -> None:
        self._policy: Ask | None = steps if callable(steps) else None
        self._kinds = kinds
        self._is_plain = is_plain
        self._owner = ""
        self._played: set[tuple[int, int]] = set()
        self._turns = [] if callable(steps) else self._grouped(steps)

    def step(self, request: ModelRequest) -> object:
        """Return the step for this request, or the result of the policy. Raises ScriptError."""
        if self._policy is not None:
            return self._policy(request)
        if self._is_plain and self._owner not in ("", request.address):
            raise ScriptError(
                f"the script is a plain list for one agent, and {self._owner} has asked first; "
                "pass a dict with a list for each profile name or address"
            )
        self._owner = request.address
        step = self._find(request.turn, request.attempt)
        return step(request) if callable(step) else step

    def unplayed(self) -> list[str]:
        """Describe each step that was never played."""
        # Turns before the first played one count as played: a resumed session or a fork starts after them.
        first = min((turn for turn, _ in self._played), default=1)
        left = [
            f"step {step!r:.100} of turn {turn} was never played"
            for turn, attempts in enumerate(self._turns, 1)
            for place, step in enumerate(attempts)
            if turn >= first and (turn, place) not in self._played
        ]
        return left[:_SHOWN] + ([f"and {len(left) - _SHOWN} more"] if len(left) > _SHOWN else [])

    def _find(self, turn: int, attempt: int) -> object:
        attempts = self._turns[turn - 1] if turn <= len(self._turns) else []
        if attempt > len(attempts) and (not attempts or isinstance(attempts[-1], ModelFailure)):
            raise ScriptError(f"the script ends after turn {len(self._turns)}; it has no step for this")
        place = min(attempt, len(attempts)) - 1
        self._played.add((turn, place))
        return attempts[place]

    def _grouped(self, steps: object) -> list[list[object]]:
        if not isinstance(steps, Sequence) or isinstance(steps, str):
            raise ScriptError(f"a script is a list of steps or a function, not {steps!r:.100}")
        turns: list[list[object]] = []
        is_open = False  # the last turn goes on, since a failure ended it
        for step in steps:
            is_turn = isinstance(step, list | tuple) and bool(step)
            if is_turn or not is_open:
                turns.append([])
            turns[-1] += map(self._checked, step if is_turn else [step])
            is_open = isinstance(step, ModelFailure) and step.is_retryable
        return turns

    def _checked(self, step: object) -> object:
        if isinstance(step, self._kinds) or callable(step):
            return step
        raise ScriptError(
            f"{step!r:.100} is not a step; use text, say(), call(), calls(), fail() or a function"
        )
