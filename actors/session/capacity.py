"""The policy of capacity: which waiting model call of all sessions of a runtime is next. No I/O or clock.

Each model name has one line. A line has sessions in a ring, and each session has its requests in order:

    front -> session a [host.2, host.5] -> session b [host] -> session c [host.1, host.1.1] -> back

The head of the line is the first request of the session at the front. When it is given a place, its session
goes to the back. A session joins at the back with its first request.

Rules
  - Only the head is given a place, and only if it fits. No smaller request passes it.
  - A place takes one of the line's calls, until it is given back, and its need out of the line's bucket.
  - The bucket is full at the start and fills at a constant rate, `tokens_per_minute` in a minute.
  - A need above the full bucket is given when the bucket is full. The bucket then goes below zero.
  - A place that is given back corrects the bucket: tokens that the call did not use return, further ones are
    taken. A call whose usage is not known keeps its need.
  - While a session waits for its next place, each other session is given one place before it, at most.
  - A leased line has the places and tokens that its worker was given (`actors/cluster`), and none at first.
    The tokens that no request waits for go back.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Literal

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.session.token_bucket import MINUTE_MS, LeasedTokens, TokenBucket


class Capacity(Value, frozen=True, metaclass=NamedFields):
    """The limits of a model over all sessions of a runtime. None means no limit.

    calls: the calls in flight. tokens_per_minute: the size of the bucket, and the rate at which it fills.

    Raises MisuseError for a limit that is not a number above 0.
    """

    calls: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < 1):
                raise MisuseError(f"Capacity: {name}={limit!r:.80}; give a whole number from 1 up, or None")


Reason = Literal["calls", "tokens", "line"]
"""The want of a request: a free call, tokens in the bucket, or its turn behind another request."""


class Waiting(Value, frozen=True):
    """A request that waits. tokens: that its call needs. ahead: the places to be given before its own."""

    model: str
    session: str
    agent: str
    tokens: int
    reason: Reason
    ahead: int


class LineState(Value, frozen=True):
    """A model's line. tokens_left: in its bucket, negative after a large call; None without a bucket."""

    model: str
    limits: Capacity
    in_flight: int
    tokens_left: int | None
    waiting: int


class Demand(Value, frozen=True):
    """The needs of a leased line. sessions: those with a call in flight or waiting.

    tokens: that it lacks. unused: tokens that no request waits for.
    """

    in_flight: int = 0
    waiting: int = 0
    sessions: int = 0
    tokens: int = 0
    unused: int = 0


class Line:
    """The requests and places of one model name. now: the time, in milliseconds of any clock."""

    def __init__(self, limits: Capacity, now: int) -> None:
        self.limits = limits
        self._calls = limits.calls
        self._bucket = TokenBucket(limits.tokens_per_minute or 0, now)
        self._held: dict[tuple[str, str], int] = {}
        self._ring: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()

    # --- requests -------------------------------------------------------------------

    def join(self, session: str, agent: str, tokens: int) -> None:
        """Put a request behind those of its session, and a session that did not wait behind all others."""
        self._ring.setdefault(session, OrderedDict())[agent] = tokens

    def give(self, now: int) -> list[tuple[str, str]]:
        """Give places, as long as the head of the line fits. Return session and agent of each."""
        self._bucket.refill(now)
        given = []
        while self._ring and not self._want():
            session, agent, tokens = self._head()
            self._remove(session, agent)
            if session in self._ring:
                self._ring.move_to_end(session)
            self._held[session, agent] = tokens
            self._bucket.take(tokens)
            given.append((session, agent))
        return given

    def give_back(self, session: str, agent: str, used: int | None, now: int) -> None:
        """Take a request out of the line, or a place back.

        used: the tokens of its call; None if they are not known.
        """
        self._bucket.refill(now)
        tokens = self._held.pop((session, agent), None)
        if tokens is None:
            self._remove(session, agent)
        elif used is not None:
            self._bucket.put_back(tokens - used)

    def _remove(self, session: str, agent: str) -> None:
        requests = self._ring.get(session)
        if requests is not None:
            requests.pop(agent, None)
            if not requests:
                del self._ring[session]

    # --- the head -------------------------------------------------------------------

    def _head(self) -> tuple[str, str, int]:
        session, requests = next(iter(self._ring.items()))
        return session, *next(iter(requests.items()))

    def _want(self) -> Reason | None:
        """Return the want of the head; None if it fits."""
        if self._calls is not None and len(self._held) >= self._calls:
            return "calls"
        return "tokens" if self._bucket.rate and self._bucket.level < self._needed() else None

    def _needed(self) -> int:
        """Return the level at which the head fits."""
        return min(self._head()[2] * MINUTE_MS, self._bucket.full)

    def wait_ms(self, now: int) -> int | None:
        """Return the time until the head has its tokens; None if it waits for none, or for leased ones."""
        self._bucket.refill(now)
        if not self._ring or self._want() != "tokens" or isinstance(self._bucket, LeasedTokens):
            return None
        return self._bucket.wait_ms(self._needed())

    # --- a part of the capacity of several workers -------------------------------------

    def lease(self, calls: int, tokens: int) -> None:
        """Set the places that it has from now on, and add tokens, or take unused ones if below 0.

        The first lease ends its own bucket.
        """
        if not isinstance(self._bucket, LeasedTokens):
            self._bucket = LeasedTokens(self._bucket.rate, self._bucket.filled_ms)
        if self.limits.calls is not None:
            self._calls = calls
        self._bucket.add(tokens)

    def demand(self) -> Demand:
        """Return its needs. A leased line has no other tokens than those that it was given."""
        waiting = [tokens for own in self._ring.values() for tokens in own.values()]
        sessions = len(self._ring.keys() | {session for session, _ in self._held})
        lacks = unused = 0
        if self._bucket.rate:
            # Not for calls that will wait for a place: leased tokens are lost with their worker.
            next_ones = waiting if self._calls is None else waiting[: max(1, self._calls - len(self._held))]
            lacks = max(0, sum(min(one, self._bucket.rate) for one in next_ones) - self._bucket.tokens)
            unused = 0 if waiting else max(0, self._bucket.tokens)
        return Demand(len(self._held), len(waiting), sessions, lacks, unused)

    # --- looking --------------------------------------------------------------------

    def state(self, model: str, now: int) -> LineState:
        """Return the line as it is now."""
        self._bucket.refill(now)
        left = self._bucket.tokens if self._bucket.rate else None
        return LineState(model, self.limits, len(self._held), left, sum(map(len, self._ring.values())))

    def waiting(self, model: str, now: int) -> list[Waiting]:
        """Return the requests that wait, in the order in which they are given places."""
        self._bucket.refill(now)
        requests = [
            (turn, session, agent, tokens)
            for session, own in self._ring.items()
            for turn, (agent, tokens) in enumerate(own.items())
        ]
        requests.sort(key=lambda request: request[0])  # stable: the sessions stay in the order of the ring
        head: Reason = (self._want() if requests else None) or "calls"
        return [
            Waiting(model, session, agent, tokens, head if not ahead else "line", ahead)
            for ahead, (_, session, agent, tokens) in enumerate(requests)
        ]


class CapacityPolicy:
    """The lines of all models of a runtime, by name. A model without limits has places without end."""

    def __init__(self, limits: Mapping[str, Capacity], now: int) -> None:
        self._lines = {model: Line(limit, now) for model, limit in limits.items()}
        self._models: dict[str, dict[str, str]] = {}  # by session and agent

    def request(self, session: str, agent: str, model: str, tokens: int, now: int) -> None:
        """Put an agent's request into its model's line. An agent has one request or place at a time."""
        if model not in self._lines:
            self._lines[model] = Line(Capacity(), now)
        self._models.setdefault(session, {})[agent] = model
        self._lines[model].join(session, agent, tokens)

    def give(self, now: int) -> list[tuple[str, str]]:
        """Give places to all requests that are next and fit. Return session and agent of each."""
        return [place for line in self._lines.values() for place in line.give(now)]

    def give_back(self, session: str, agent: str, used: int | None, now: int) -> None:
        """End an agent's request or place, if it has one. used: the tokens of its call; None if not known."""
        models = self._models.get(session, {})
        model = models.pop(agent, None)
        if model is not None:
            self._lines[model].give_back(session, agent, used, now)
        if not models:
            self._models.pop(session, None)

    def leave(self, session: str, now: int) -> None:
        """End all requests and places of a session. The usage of its calls is not known."""
        for agent in list(self._models.get(session, ())):
            self.give_back(session, agent, None, now)

    def lease(self, model: str, calls: int, tokens: int) -> None:
        """Set the places of a limited model's line to those that a worker was given, and add tokens."""
        self._lines[model].lease(calls, tokens)

    def demand(self, model: str) -> Demand:
        """Return what the line of a limited model needs."""
        return self._lines[model].demand()

    def wait_ms(self, now: int) -> int | None:
        """Return the time until a bucket has the tokens for the head of its line; None if none waits."""
        waits = (line.wait_ms(now) for line in self._lines.values())
        return min((wait for wait in waits if wait is not None), default=None)

    def states(self, now: int) -> tuple[LineState, ...]:
        """Return all lines as they are now."""
        return tuple(line.state(model, now) for model, line in self._lines.items())

    def waiting(self, now: int) -> tuple[Waiting, ...]:
        """Return all requests that wait, each line in the order in which it gives places."""
        return tuple(one for model, line in self._lines.items() for one in line.waiting(model, now))


def limited_among(limits: Mapping[str, Capacity], models: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the models among these that have limits, in order."""
    return tuple(sorted(model for model in models if model in limits))
