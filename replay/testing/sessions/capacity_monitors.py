"""The rules of sessions that share a capacity port: those of each session, and those of the port.

The books of the port are kept a second time here, from what happened at it and from the logs. They are lists
and plain sums, and read nothing of the policy.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.messages import Stop
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.session.capacity import Capacity
from callboard.actors.session.token_bucket import MINUTE_MS
from callboard.replay.testing.sessions.capacity_world import CapacityWorld, Entry
from callboard.replay.testing.sessions.monitors import SessionMonitor, session_monitors
from callboard.replay.testing.world import Violation

CALLS: Final = "No more calls of a model are in flight over all sessions than its capacity says."
PLACED: Final = "Each call of a limited model in flight has a place of its own."
BUCKET: Final = "No call takes tokens that its model's bucket lacks, unless the bucket is full."
ORDER: Final = (
    "Tags take turns, and the sessions of each do, with their requests in order; none passes the head."
)
FAIR: Final = (
    "While a session waits, others of its tag are given at most two places for each of them that waits; "
    "the same holds for tags."
)
IDLE: Final = "The head of the line is given its place as soon as it fits."
ONCE: Final = "A place is given back once: with the answer of its call, or with the Stop of its agent."
USAGE: Final = "A place that is given back states the tokens that its call used."
SUM: Final = "The places given are those held and those given back; the port's own counts say the same."
LEFT: Final = "At rest no request waits for a place, and no place is held."


class EachSession:
    """The rules of one session, for every session of a world. replay_every: as for `session_monitors`."""

    def __init__(self, replay_every: int = 20) -> None:
        self._every = replay_every
        self._steps = 0
        self._monitors: dict[str, list[SessionMonitor]] = {}

    def begin(self, steps: int) -> None:
        """Begin a run."""
        self._steps = steps
        for monitor in self._all():
            monitor.begin(steps)

    def _all(self) -> Iterator[SessionMonitor]:
        return (monitor for monitors in self._monitors.values() for monitor in monitors)

    def _of(self, name: str) -> list[SessionMonitor]:
        """Return the monitors of a session. Their caches last for all runs."""
        if name and name not in self._monitors:
            self._monitors[name] = session_monitors(self._every)
            for monitor in self._monitors[name]:
                monitor.begin(self._steps)
        return self._monitors.get(name, [])

    def after(self, world: CapacityWorld, at: int, fair_steps: int) -> Violation | None:
        """Look at the session whose move the last step was."""
        name = world.made[-1][0] if world.made else ""
        found = (monitor.after(world.sessions[name], at, fair_steps) for monitor in self._of(name) if name)
        return next(filter(None, found), None)

    def at_rest(self, world: CapacityWorld, at: int) -> Violation | None:
        """Look at all sessions when nothing more is going to happen."""
        for name, session in world.sessions.items():
            for monitor in self._of(name):
                if found := monitor.at_rest(session, at):
                    return Violation(found.rule, at)
        return None


class _Wish(msgspec.Struct):
    """A request that waits. number: its place in the order of all requests. tag: of its session."""

    session: str
    agent: str
    tokens: int
    number: int
    tag: str = ""


class _Line(msgspec.Struct):
    """The books of one model. since: the number with which each waiting session joined the back of the line.

    tags: the same of each tag. level: of the bucket, in tokens by milliseconds.
    """

    limits: Capacity
    at: int
    level: int
    waiting: list[_Wish] = []
    held: dict[tuple[str, str], int] = {}
    since: dict[str, int] = {}
    tags: dict[str, int] = {}

    @property
    def rate(self) -> int:
        return self.limits.tokens_per_minute or 0

    @property
    def full(self) -> int:
        return self.rate * MINUTE_MS

    def move_to(self, now: int) -> None:
        self.level = min(self.full, self.level + (now - self.at) * self.rate)
        self.at = now

    def head(self) -> _Wish | None:
        """Return the oldest request of the session that is longest in line for the tag that is."""
        if not self.waiting:
            return None
        tag = min({wish.tag for wish in self.waiting}, key=lambda tag: self.tags[tag])
        own = [wish for wish in self.waiting if wish.tag == tag]
        first = min({wish.session for wish in own}, key=lambda session: self.since[session])
        return min((wish for wish in own if wish.session == first), key=lambda wish: wish.number)

    def has_call(self) -> bool:
        return self.limits.calls is None or len(self.held) < self.limits.calls

    def has_tokens(self, tokens: int) -> bool:
        return not self.rate or self.level >= tokens * MINUTE_MS or self.level == self.full


def _lack(line: _Line, head: _Wish) -> str:
    """Return the rule that giving to the head of a line would break, or ''."""
    if not line.has_call():
        return CALLS
    return "" if line.has_tokens(head.tokens) else BUCKET


class CapacityBooks:
    """The rules of the capacity port."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, steps: int) -> None:
        """Begin a run with empty books."""
        self._read = 0
        self._number = 0
        self._lines: dict[str, _Line] = {}

    def after(self, world: CapacityWorld, at: int, fair_steps: int) -> Violation | None:
        """Book what happened at the port in the last step."""
        rule = ""
        while not rule and self._read < len(world.history):
            entry = world.history[self._read]
            self._read += 1
            rule = self._book(world, entry)
        rule = rule or self._in_flight(world) or self._idle(world) or self._sums(world)
        return Violation(rule, at) if rule else None

    def at_rest(self, world: CapacityWorld, at: int) -> Violation | None:
        """Check that nothing is left."""
        left = sum(len(line.waiting) + len(line.held) for line in self._lines.values())
        left += sum(line.waiting + line.in_flight for line in world.policy.states(world.now))
        return Violation(LEFT, at) if left else None

    def _line(self, world: CapacityWorld, model: str, at: int) -> _Line:
        line = self._lines.get(model)
        if line is None:
            limits = world.scenario.capacity.get(model, Capacity())
            line = self._lines[model] = _Line(limits, at, (limits.tokens_per_minute or 0) * MINUTE_MS)
        line.move_to(at)
        return line

    # --- what happens ---------------------------------------------------------------

    def _book(self, world: CapacityWorld, entry: Entry) -> str:
        """Book one entry. Return the rule that it breaks, or ''."""
        match entry.what:
            case "request":
                return self._request(world, self._line(world, entry.model, entry.at), entry)
            case "give":
                return self._give(world, entry)
            case "give back":
                return self._give_back(world, entry)
            case "leave":
                self._leave(world, entry)
            case "restart":
                self._lines.clear()
        return ""

    def _request(self, world: CapacityWorld, line: _Line, entry: Entry) -> str:
        self._number += 1
        tag = _tag_of(world, entry)
        if tag not in {wish.tag for wish in line.waiting}:
            line.tags[tag] = self._number
        if entry.session not in {wish.session for wish in line.waiting}:
            line.since[entry.session] = self._number
        line.waiting.append(_Wish(entry.session, entry.agent, entry.tokens or 0, self._number, tag))
        return ONCE if (entry.session, entry.agent) in line.held else ""

    def _give(self, world: CapacityWorld, entry: Entry) -> str:
        line = self._line_of(world, entry)
        head = line.head() if line else None
        if line is None or head is None or (head.session, head.agent) != (entry.session, entry.agent):
            return ORDER
        if refused := _lack(line, head):
            return refused
        line.waiting.remove(head)
        line.held[head.session, head.agent] = head.tokens
        line.level -= head.tokens * MINUTE_MS
        self._number += 1
        line.since[head.session] = line.tags[head.tag] = self._number  # at the back, should it wait on
        return ""

    def _give_back(self, world: CapacityWorld, entry: Entry) -> str:
        line, who = self._line_of(world, entry), (entry.session, entry.agent)
        if line is None:
            return ONCE
        if who not in line.held:
            line.waiting = [wish for wish in line.waiting if (wish.session, wish.agent) != who]
            return ""
        tokens = line.held.pop(who)
        used, is_known = _used(world, entry)
        if not is_known or used != entry.tokens:
            return USAGE
        if used is not None:
            line.level = min(line.full, line.level + (tokens - used) * MINUTE_MS)
        return ""

    def _leave(self, world: CapacityWorld, entry: Entry) -> None:
        for model in self._lines:
            line = self._line(world, model, entry.at)
            line.waiting = [wish for wish in line.waiting if wish.session != entry.session]
            line.held = {who: tokens for who, tokens in line.held.items() if who[0] != entry.session}

    def _line_of(self, world: CapacityWorld, entry: Entry) -> _Line | None:
        """Return the line in which an agent waits or holds a place."""
        who = (entry.session, entry.agent)
        for model in self._lines:
            line = self._line(world, model, entry.at)
            if who in line.held or any((wish.session, wish.agent) == who for wish in line.waiting):
                return line
        return None

    # --- after a step ---------------------------------------------------------------

    def _in_flight(self, world: CapacityWorld) -> str:
        """Compare the calls that were started with the places."""
        for model, limits in world.scenario.capacity.items():
            calls = sum(session.in_flight(model) for session in world.sessions.values())
            held = self._lines[model].held if model in self._lines else {}
            if calls > len(held):
                return CALLS if calls > (limits.calls or calls) else PLACED
        return ""

    def _idle(self, world: CapacityWorld) -> str:
        """Look for a head that fits and was not given its place."""
        for model in self._lines:
            line = self._line(world, model, world.now)
            head = line.head()
            if head is not None and line.has_call() and line.has_tokens(head.tokens):
                return IDLE
        return ""

    def _sums(self, world: CapacityWorld) -> str:
        """Compare the port's own counts, and the places that sessions know of, with those held."""
        for own in world.policy.states(world.now):
            line = self._lines.get(own.model)
            held, waiting = (len(line.held), len(line.waiting)) if line else (0, 0)
            if (own.in_flight, own.waiting) != (held, waiting):
                return SUM
            if line is not None and own.tokens_left not in (None, line.level // MINUTE_MS):
                return SUM
        held_by = {who for line in self._lines.values() for who in line.held}
        known = {(name, who) for name, one in world.sessions.items() for who in one.known_places()}
        return "" if known == held_by else SUM


class _Member(NamedTuple):
    """A session among those of its model and tag, or a tag among those of its model."""

    line: tuple[str, ...]
    name: str


class CapacityTurns:
    """The rule of fairness: it counts places, and knows nothing of the line.

    A member of a line is a session among those of its tag, or a tag among those of its model.
    """

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, steps: int) -> None:
        """Begin a run in which no session waits."""
        self._read = 0
        self._members: dict[tuple[str, str], tuple[_Member, ...]] = {}  # of each request that waits
        self._passed: Counter[_Member] = Counter()
        self._rivals: dict[_Member, set[str]] = {}  # those that have waited meanwhile

    def after(self, world: CapacityWorld, at: int, fair_steps: int) -> Violation | None:
        """Count the places of the last step."""
        while self._read < len(world.history):
            entry = world.history[self._read]
            self._read += 1
            if not self._is_fair(world, entry):
                return Violation(FAIR, at)
        return None

    def at_rest(self, world: CapacityWorld, at: int) -> Violation | None:
        """Ignore the end."""
        return None

    def _is_fair(self, world: CapacityWorld, entry: Entry) -> bool:
        who = (entry.session, entry.agent)
        match entry.what:
            case "request":
                tag = _tag_of(world, entry)
                own = (_Member((entry.model, tag), entry.session), _Member((entry.model,), tag))
                self._members[who] = own
                for one in own:
                    self._waits(one)
            case "give":
                members = self._members.pop(who, ())
                for one in members:
                    self._rivals.pop(one, None)
                    self._waits(one)  # from now on, if it has another request
                return not [one for one in members if not self._count(one)]
            case "give back" if who in self._members:
                for one in self._members.pop(who):
                    self._rivals.pop(one, None)
            case "leave" | "restart":
                self._members = {
                    one: members
                    for one, members in self._members.items()
                    if entry.what == "leave" and one[0] != entry.session
                }
            case _:
                pass
        return True

    def _waiting(self, line: tuple[str, ...]) -> set[str]:
        return {one.name for members in self._members.values() for one in members if one.line == line}

    def _waits(self, member: _Member) -> None:
        """Begin to count for a member, unless it waits already. It is a rival of all others."""
        waiting = self._waiting(member.line)
        if member.name in waiting and member not in self._rivals:
            self._passed[member] = 0
            self._rivals[member] = set(waiting)
        for one in waiting:
            self._rivals.get(_Member(member.line, one), set()).add(member.name)

    def _count(self, given: _Member) -> bool:
        """Count a place for the members that still wait. Return False if it is one too many for one."""
        for name in self._waiting(given.line) - {given.name}:
            one = _Member(given.line, name)
            self._passed[one] += 1
            if self._passed[one] > 2 * len(self._rivals[one]):
                return False
        return True


def _tag_of(world: CapacityWorld, entry: Entry) -> str:
    pattern = world.scenario.capacity.get(entry.model, Capacity()).fair_by or ""
    found = [
        tag for tag in world.scenario.tags.get(entry.session, ()) if pattern and tag.startswith(pattern[:-1])
    ]
    return sorted(found)[0] if found else ""


def _used(world: CapacityWorld, entry: Entry) -> tuple[int | None, bool]:
    """Return the tokens that a place used by the log, and whether there is a reason to give it back."""
    session = world.sessions[entry.session]
    for event in reversed(session.log):
        body = event.body
        if isinstance(body, CallModel) and body.agent == entry.agent:
            # The call has no answer. It got its place from a process that detaches, which starts no call.
            return 0, session.is_detaching
        if event.recipient != entry.agent:
            continue
        if isinstance(body, ModelReplied):
            return None if body.usage is None else body.usage.tokens, True
        if isinstance(body, Stop):
            return 0, True
    return None, False


def capacity_monitors(replay_every: int = 20) -> Sequence[EachSession | CapacityBooks | CapacityTurns]:
    """Return all rules of sessions on one capacity port."""
    return [EachSession(replay_every), CapacityBooks(), CapacityTurns()]
