"""The policy of capacity: which waiting model call of all sessions of a runtime is next. No I/O or clock.

Each model name has one line. A line has sessions in a ring, and each session has its requests in order:

    front -> session a [host.2, host.5] -> session b [host] -> session c [host.1, host.1.1] -> back

The head of the line is the first request of the session at the front. When it is given a place, its session
goes to the back. A session joins at the back with its first request.

With `fair_by` the line has a ring of tags, and each tag has such a ring of sessions. The head is the first
request of the first session of the first tag. When it is given a place, its tag goes to the back, too.

Rules
  - Only the head is given a place, and only if it fits. No smaller request passes it.
  - A place takes one of the line's calls, until it is given back, and its need out of the line's bucket.
  - The bucket is full at the start and fills at a constant rate, `tokens_per_minute` in a minute.
  - A need above the full bucket is given when the bucket is full. The bucket then goes below zero.
  - A place that is given back corrects the bucket: tokens that the call did not use return, further ones are
    taken. A call whose usage is not known keeps its need.
  - While a session waits for its next place, each other session is given one place before it, at most. With
    `fair_by` that holds among the sessions of a tag, and for tags in the same way, so a tag with a thousand
    sessions has as many turns as one with three. Sessions without such a tag are one of the tags.
  - A leased line has the places and tokens that its worker was given (`actors/cluster`), and none at first.
    The tokens that no request waits for go back. Each tag has a line of its own there.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from itertools import zip_longest
from typing import Literal, NamedTuple

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.session.token_bucket import MINUTE_MS, LeasedTokens, TokenBucket


class Capacity(Value, frozen=True, metaclass=NamedFields):
    """The limits of a model over all sessions of a runtime. None means no limit.

    calls: the calls in flight. tokens_per_minute: the size of the bucket, and the rate at which it fills.
    fair_by: a pattern of tags (`"tenant:*"`), each of which has an equal part while its sessions wait; None
    for equal parts of the sessions. A session with several such tags counts for the first one in order.

    Raises MisuseError for a limit that is not a number above 0, and for another pattern.
    """

    calls: int | None = None
    tokens_per_minute: int | None = None
    fair_by: str | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens_per_minute"):
            limit = getattr(self, name)
            if limit is not None and (type(limit) is not int or limit < 1):
                raise MisuseError(f"Capacity: {name}={limit!r:.80}; give a whole number from 1 up, or None")
        if self.fair_by is not None:
            check_fair_by("Capacity", self.fair_by)

    def tag_among(self, tags: Collection[str]) -> str:
        """Return the tag that a session with these tags counts for; empty for one without such a tag."""
        return "" if self.fair_by is None else tag_among(self.fair_by, tags)


def check_fair_by(where: str, pattern: str) -> None:
    """Refuse a pattern that is not a prefix of tags. Raises MisuseError."""
    stem = pattern[:-2] if isinstance(pattern, str) and pattern.endswith(":*") else ""
    if not stem or "*" in stem or not stem.isprintable():
        raise MisuseError(
            f"{where}: fair_by={pattern!r:.80}; give a prefix of tags that ends in ':*' ('tenant:*')"
        )


def tag_among(pattern: str, tags: Collection[str]) -> str:
    """Return the first of the tags, in order, that a pattern names; empty if it names none.

    >>> tag_among("tenant:*", ["nightly", "tenant:b", "tenant:a"])
    'tenant:a'
    """
    return min((one for one in tags if one.startswith(pattern[:-1])), default="")


Reason = Literal["calls", "tokens", "line"]
"""The want of a request: a free call, tokens in the bucket, or its turn behind another request."""


class Waiting(Value, frozen=True):
    """A request that waits. tokens: that its call needs. ahead: the places to be given before its own.

    tag: that it counts for, with `fair_by`.
    """

    model: str
    session: str
    agent: str
    tokens: int
    reason: Reason
    ahead: int
    tag: str = ""


class LineState(Value, frozen=True):
    """A model's line. tokens_left: in its bucket, negative after a large call; None without a bucket.

    tag: of a line of its own in a worker; empty for the others.
    """

    model: str
    limits: Capacity
    in_flight: int
    tokens_left: int | None
    waiting: int
    tag: str = ""


class Demand(Value, frozen=True):
    """The needs of a leased line. sessions: those with a call in flight or waiting.

    tokens: that it lacks. unused: tokens that no request waits for.
    """

    in_flight: int = 0
    waiting: int = 0
    sessions: int = 0
    tokens: int = 0
    unused: int = 0


class _Place(NamedTuple):
    """The place of a request in the lines of a runtime. tag: that its session counts for in the line."""

    model: str
    line: str
    tag: str


class Line:
    """The requests and places of one model name. now: the time, in milliseconds of any clock."""

    def __init__(self, limits: Capacity, now: int) -> None:
        self.limits = limits
        self._calls = limits.calls
        self._bucket = TokenBucket(limits.tokens_per_minute or 0, now)
        self._held: dict[tuple[str, str], int] = {}
        self._ring: OrderedDict[str, OrderedDict[str, OrderedDict[str, int]]] = OrderedDict()  # by tag

    @property
    def is_empty(self) -> bool:
        """Return True if no request waits and no place is held."""
        return not self._ring and not self._held

    # --- requests -------------------------------------------------------------------

    def join(self, session: str, agent: str, tokens: int, tag: str = "") -> None:
        """Put a request behind those of its session, and a session that did not wait behind all others."""
        self._ring.setdefault(tag, OrderedDict()).setdefault(session, OrderedDict())[agent] = tokens

    def give(self, now: int) -> list[tuple[str, str]]:
        """Give places, as long as the head of the line fits. Return session and agent of each."""
        self._bucket.refill(now)
        given = []
        while self._ring and not self._want():
            tag, session, agent, tokens = self._head()
            self._remove(session, agent, tag)
            if tag in self._ring:
                self._ring.move_to_end(tag)
                if session in self._ring[tag]:
                    self._ring[tag].move_to_end(session)
            self._held[session, agent] = tokens
            self._bucket.take(tokens)
            given.append((session, agent))
        return given

    def give_back(self, session: str, agent: str, used: int | None, now: int, tag: str = "") -> None:
        """Take a request out of the line, or a place back.

        used: the tokens of its call; None if they are not known.
        """
        self._bucket.refill(now)
        tokens = self._held.pop((session, agent), None)
        if tokens is None:
            self._remove(session, agent, tag)
        elif used is not None:
            self._bucket.put_back(tokens - used)

    def _remove(self, session: str, agent: str, tag: str) -> None:
        sessions = self._ring.get(tag, OrderedDict())
        if session in sessions:
            sessions[session].pop(agent, None)
            if not sessions[session]:
                del sessions[session]
            if not sessions:
                del self._ring[tag]

    # --- the head -------------------------------------------------------------------

    def _head(self) -> tuple[str, str, str, int]:
        tag, sessions = next(iter(self._ring.items()))
        session, requests = next(iter(sessions.items()))
        return tag, session, *next(iter(requests.items()))

    def _want(self) -> Reason | None:
        """Return the want of the head; None if it fits."""
        if self._calls is not None and len(self._held) >= self._calls:
            return "calls"
        return "tokens" if self._bucket.rate and self._bucket.level < self._needed() else None

    def _needed(self) -> int:
        """Return the level at which the head fits."""
        return min(self._head()[3] * MINUTE_MS, self._bucket.full)

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
        waiting = [one[3] for one in self._requests()]
        waits = {session for own in self._ring.values() for session in own}
        sessions = len(waits | {session for session, _ in self._held})
        lacks = unused = 0
        if self._bucket.rate:
            # Not for calls that will wait for a place: leased tokens are lost with their worker.
            next_ones = waiting if self._calls is None else waiting[: max(1, self._calls - len(self._held))]
            lacks = max(0, sum(min(one, self._bucket.rate) for one in next_ones) - self._bucket.tokens)
            unused = 0 if waiting else max(0, self._bucket.tokens)
        return Demand(len(self._held), len(waiting), sessions, lacks, unused)

    # --- looking --------------------------------------------------------------------

    def state(self, model: str, now: int, tag: str = "") -> LineState:
        """Return the line as it is now."""
        self._bucket.refill(now)
        left = self._bucket.tokens if self._bucket.rate else None
        return LineState(model, self.limits, len(self._held), left, len(self._requests()), tag)

    def waiting(self, model: str, now: int) -> list[Waiting]:
        """Return the requests that wait, in the order in which they are given places."""
        self._bucket.refill(now)
        requests = self._requests()
        head: Reason = (self._want() if requests else None) or "calls"
        return [
            Waiting(model, session, agent, tokens, head if not ahead else "line", ahead, tag)
            for ahead, (tag, session, agent, tokens) in enumerate(requests)
        ]

    def _requests(self) -> list[tuple[str, str, str, int]]:
        """Return tag, session, agent and tokens of the requests that wait, in their order."""
        lines = []
        for tag, sessions in self._ring.items():
            own = [
                (turn, (tag, session, agent, tokens))
                for session, requests in sessions.items()
                for turn, (agent, tokens) in enumerate(requests.items())
            ]
            own.sort(key=lambda one: one[0])  # stable: the sessions stay in the order of the ring
            lines.append([one for _, one in own])
        return [one for turn in zip_longest(*lines) for one in turn if one is not None]


class CapacityPolicy:
    """The lines of all models of a runtime, by name. A model without limits has places without end."""

    def __init__(self, limits: Mapping[str, Capacity], now: int) -> None:
        # By model, and by tag where a worker leases its places; there is one for all tags elsewhere.
        self._lines = {(model, ""): Line(limit, now) for model, limit in limits.items()}
        self._leased: set[str] = set()
        self._places: dict[str, dict[str, _Place]] = {}  # by session and agent

    def request(
        self, session: str, agent: str, model: str, tokens: int, now: int, tags: Collection[str] = ()
    ) -> None:
        """Put an agent's request into its model's line. An agent has one request or place at a time.

        tags: those of the session.
        """
        if (model, "") not in self._lines:
            self._lines[model, ""] = Line(Capacity(), now)
        limits = self._lines[model, ""].limits
        tag = limits.tag_among(tags)
        place = _Place(model, tag if model in self._leased else "", tag)
        if (model, place.line) not in self._lines:
            self._lines[model, place.line] = line = Line(limits, now)
            line.lease(0, 0)
        self._places.setdefault(session, {})[agent] = place
        self._lines[model, place.line].join(session, agent, tokens, tag)

    def give(self, now: int) -> list[tuple[str, str]]:
        """Give places to all requests that are next and fit. Return session and agent of each."""
        return [place for line in self._lines.values() for place in line.give(now)]

    def give_back(self, session: str, agent: str, used: int | None, now: int) -> None:
        """End an agent's request or place, if it has one. used: the tokens of its call; None if not known."""
        places = self._places.get(session, {})
        place = places.pop(agent, None)
        if place is not None:
            self._lines[place.model, place.line].give_back(session, agent, used, now, place.tag)
        if not places:
            self._places.pop(session, None)

    def leave(self, session: str, now: int) -> None:
        """End all requests and places of a session. The usage of its calls is not known."""
        for agent in list(self._places.get(session, ())):
            self.give_back(session, agent, None, now)

    def lease(self, model: str, calls: int, tokens: int, tag: str = "") -> None:
        """Set the places of a limited model's line to those that a worker was given, and add tokens.

        tag: of the line, which a worker has for each tag.
        """
        self._leased.add(model)
        if line := self._lines.get((model, tag)):
            line.lease(calls, tokens)

    def forget(self, model: str, tag: str) -> None:
        """Forget the line of a tag in which nothing waits and no place is held."""
        line = self._lines.get((model, tag))
        if tag and line is not None and line.is_empty:
            del self._lines[model, tag]

    def demands(self, model: str) -> dict[str, Demand]:
        """Return what the lines of a limited model need, by tag."""
        return {tag: line.demand() for (name, tag), line in self._lines.items() if name == model}

    def wait_ms(self, now: int) -> int | None:
        """Return the time until a bucket has the tokens for the head of its line; None if none waits."""
        waits = (line.wait_ms(now) for line in self._lines.values())
        return min((wait for wait in waits if wait is not None), default=None)

    def states(self, now: int) -> tuple[LineState, ...]:
        """Return all lines as they are now."""
        return tuple(line.state(model, now, tag) for (model, tag), line in self._lines.items())

    def waiting(self, now: int) -> tuple[Waiting, ...]:
        """Return all requests that wait, each line in the order in which it gives places."""
        return tuple(one for (model, _), line in self._lines.items() for one in line.waiting(model, now))


def limited_among(limits: Mapping[str, Capacity], models: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the models among these that have limits, in order."""
    return tuple(sorted(model for model in models if model in limits))
