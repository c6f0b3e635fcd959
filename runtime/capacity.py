"""The capacity that all sessions of one runtime share: the live side of the policy, with clock and timer.

The policy (`actors/session/capacity.py`) chooses the next call. This object tells it the time, calls back
when a place is given, and wakes it when a bucket has enough tokens for the head of its line.
"""

import asyncio
from collections.abc import Callable, Mapping

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.session.capacity import Capacity, CapacityPolicy, LineState, Waiting
from callboard.runtime.clock import monotonic_ms


class CapacityReport(Value, frozen=True, metaclass=NamedFields):
    """The limited models of a runtime. lines: one for each. waiting: the waiting calls, and their reasons."""

    lines: tuple[LineState, ...]
    waiting: tuple[Waiting, ...]


class SharedCapacity:
    """Places among the model calls of all sessions of one runtime, on its event loop."""

    def __init__(self, limits: Mapping[str, Capacity] | None = None) -> None:
        self.limits = _checked(limits or {})
        self._policy = CapacityPolicy(self.limits, monotonic_ms())
        self._takers: dict[str, dict[str, Callable[[], object]]] = {}  # by session and agent
        self._timer: asyncio.TimerHandle | None = None

    def request(self, session: str, agent: str, model: str, tokens: int, take: Callable[[], object]) -> None:
        """Request a place for an agent's call. take: called once, when it is given, perhaps at once."""
        self._takers.setdefault(session, {})[agent] = take
        self._policy.request(session, agent, model, tokens, monotonic_ms())
        self._serve()

    def give_back(self, session: str, agent: str, used: int | None) -> None:
        """End an agent's request or place, if it has one. used: the tokens of its call; None if not known."""
        self._takers.get(session, {}).pop(agent, None)
        self._policy.give_back(session, agent, used, monotonic_ms())
        self._serve()

    def leave(self, session: str) -> None:
        """End all requests and places of a session."""
        self._policy.leave(session, monotonic_ms())
        self._takers.pop(session, None)
        self._serve()

    def report(self) -> CapacityReport:
        """Return the lines of all limited models, and what waits in them."""
        now = monotonic_ms()
        return CapacityReport(self._policy.states(now), self._policy.waiting(now))

    def close(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _serve(self) -> None:
        """Give all places that can be given, and wait for the tokens of the next."""
        now = monotonic_ms()
        for session, agent in self._policy.give(now):
            take = self._takers.get(session, {}).pop(agent, None)
            if take is not None:
                take()
        self.close()
        wait_ms = self._policy.wait_ms(now)
        if wait_ms is not None:
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1_000, self._serve)


def _checked(limits: Mapping[str, Capacity]) -> dict[str, Capacity]:
    """Return a copy of the limits by model name. Raises MisuseError for anything else."""
    if not isinstance(limits, Mapping):
        raise MisuseError(f"capacity={limits!r:.80}: give {{'name of a model': Capacity(calls=8)}}")
    for name, limit in limits.items():
        if not isinstance(name, str) or not isinstance(limit, Capacity):
            raise MisuseError(
                f"capacity has {name!r:.80}: {limit!r:.80}; give limits by model name, "
                "{'name': Capacity(calls=8)}"
            )
    return dict(limits)
