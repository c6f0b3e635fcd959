"""A campaign each of whose runs is made again in another process, and must come to the same states.

    found = explore_twice(scenario, Plan(runs=1_000))        # raises Nondeterminism

A replay of a log finds a decider that posts something else; this finds it before it posts anything. The other
processes have other hash seeds, addresses and times, since deciders differ by the order of a set, a hash, an
`id()`, a clock or chance. A difference is not a broken rule: it ends the campaign, since no result of it can
be relied on.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import blake2b
from itertools import cycle, zip_longest
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, NamedTuple

import msgspec

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.events import Event
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.divergence import clipped_json, first_difference
from callboard.replay.states import state_digest, to_jsonable
from callboard.replay.testing.canonical import canonical
from callboard.replay.testing.explore import Campaign, Plan, ShardResult
from callboard.replay.testing.parallel import start
from callboard.replay.testing.run import replay, replay_on
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit
from callboard.replay.testing.sessions.board import Board
from callboard.replay.testing.statistics import Statistics
from callboard.replay.testing.world import MakeWorld, Scenario, Step, Violation, World

PROCESSES = 3  # a set of two is walked in one order under half of all seeds
HASH_SEED = "PYTHONHASHSEED"


class Nondeterminism(CallboardError):
    """Two processes made the same run but reached different states.

    actor: whose state or message it is. step, label: the move after which they differ; step 0 is the start.
    field: the first difference, as a path; here, there: its two values, as JSON. schedule: the run, as text.
    hash_seed: that of the other process.
    """

    def __init__(
        self, step: Step | None, actor: str, field: str, here: str, there: str, schedule: str, hash_seed: str
    ) -> None:
        self.actor, self.field, self.here, self.there = actor, field, here, there
        self.step, self.label = (step.seq, step.label) if step else (0, "the start")
        self.schedule, self.hash_seed = schedule, hash_seed
        super().__init__(
            f"{actor} does not decide the same in every process: after step {self.step} ({self.label}) "
            f"{field} is {here} here, and {there} in a process with {HASH_SEED}={hash_seed}. "
            "Look for a set that is walked, hash(), id(), a clock or chance in what decides this"
        )


# --- the notes of a run ---------------------------------------------------------------


class StepDigest(NamedTuple):
    """The result of a step. digest: of everything new. states: the changed ones. posts: the new events."""

    digest: bytes
    states: Mapping[str, object]
    posts: Sequence[Any]


class StepDigests:
    """A monitor that finds nothing wrong. of_steps: a note of the start, and of each step."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, steps: int) -> None:
        """Begin a run."""
        self.of_steps: list[StepDigest] = []
        self.healed_at: int | None = None  # the steps before the faults were over
        self._known: dict[str, object] = {}
        self._log: Sequence[Event] = ()
        self._read = 0

    @property
    def digests(self) -> list[bytes]:
        """Return the digests of the start and of each step."""
        return [note.digest for note in self.of_steps]

    def record(self, step: int) -> StepDigest:
        """Return a step with its states and posts as JSON values; empty for a step that was not made."""
        if step >= len(self.of_steps):
            return StepDigest(b"", {}, [])
        digest, states, posts = self.of_steps[step]
        told = {name: plain(state) for name, state in states.items()}
        return StepDigest(digest, told, [plain_event(event) for event in posts])

    def after(self, world: World, at: int, fair_steps: int) -> Violation | None:
        """Note what there is now."""
        if fair_steps and self.healed_at is None:
            self.healed_at = at - fair_steps
        states: Mapping[str, object] = getattr(world, "states", {})
        known = self._known
        changed = {name: state for name, state in states.items() if known.get(name) is not state}
        posts = self._new(world)
        self._known = dict(states)
        self.of_steps.append(StepDigest(_digest(world, changed, posts), changed, posts))
        return None

    def at_rest(self, world: World, at: int) -> Violation | None:
        """Ignore the end: nothing has changed since the last step."""
        return None

    def _new(self, world: World) -> Sequence[Event]:
        """Return the events since the step before; after a crash the log is another, and all of it is new."""
        if not isinstance(world, Board):
            return ()
        read = self._read if world.log is self._log else 0
        self._log, self._read = world.log, len(world.log)
        return world.log[read:]


def _digest(world: World, changed: Mapping[str, object], posts: Sequence[Event]) -> bytes:
    found = blake2b(digest_size=8)
    for name in sorted(changed):
        found.update(f"{name}\0".encode() + _state_digest(changed[name]))
    for event in posts:
        head = f"{event.seq} {event.at} {event.sender} {event.recipient} {event.cause}\0"
        found.update(head.encode() + encode(event.body))
    if not isinstance(world, Board):
        found.update(world.digest())
    return found.digest()


def _state_digest(state: object) -> bytes:
    if isinstance(state, AgentState | SupervisorState):
        return state_digest(state).encode()
    return canonical(state)


def plain(value: object) -> Any:
    """Return a state or message as JSON values; as text, if it cannot be JSON."""
    told = to_jsonable(value) if isinstance(value, AgentState | SupervisorState) else value
    for order in _ORDERS:
        try:
            return msgspec.json.decode(msgspec.json.encode(told, order=order))
        except (TypeError, ValueError, msgspec.MsgspecError):
            continue
    return repr(value)


_ORDERS: Final[tuple[Literal["deterministic"] | None, ...]] = ("deterministic", None)
"""Sets in order; where keys are not texts, that is refused."""


def plain_event(event: Event) -> dict[str, object]:
    """Return an event as JSON values."""
    envelope = {name: getattr(event, name) for name in ("at", "sender", "recipient", "cause")}
    return {**envelope, event.kind: plain(event.body)}


# --- the other processes --------------------------------------------------------------


class Replica:
    """Another process that makes the same runs. hash_seed: its PYTHONHASHSEED."""

    def __init__(self, scenario: Scenario[Any], hash_seed: str) -> None:
        self.hash_seed = hash_seed
        self._process, self._ours = start(_serve, scenario, environment={HASH_SEED: hash_seed})

    def digests(self, schedule: Schedule) -> list[bytes]:
        """Make this run there. Return the digests of the start and of each step, as far as the run fits."""
        found: list[bytes] = self._answer(schedule)
        return found

    def record(self, step: int) -> StepDigest:
        """Return the states and posts after a step of the last run."""
        found: StepDigest = self._answer(step)
        return found

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._ours.send(None)
        self._process.join(5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._ours.close()

    def _answer(self, asked: Schedule | int) -> Any:
        try:
            self._ours.send(asked)
            answer = self._ours.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            raise CallboardError(
                "the process that repeats every run has ended with exit code "
                f"{self._process.exitcode}; see stderr"
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer


class Twins:
    """The other processes: they take turns to make each run again and compare its states."""

    def __init__(self, replicas: Sequence[Replica], name: str) -> None:
        self.notes = StepDigests()  # a monitor for the runs that are made here, before all others
        self._name = name
        self._replicas = cycle(replicas)

    def compare(self, world: World, steps: int) -> None:
        """Compare the run that `world` has made, as `notes` has it, or raise Nondeterminism. steps: N."""
        made = world.trace()
        schedule = Schedule(tuple(step.strand for step in made), self.notes.healed_at, steps)
        replica = next(self._replicas)
        here, there = self.notes.digests, replica.digests(schedule)
        if here == there:
            return
        at = next(k for k, (one, other) in enumerate(zip_longest(here, there)) if one != other)
        step = made[at - 1] if 0 < at <= len(made) else None
        difference = _difference(step, self.notes.record(at), replica.record(at))
        raise Nondeterminism(step, *difference, schedule.text(self._name), replica.hash_seed)


@contextmanager
def _twins(scenario: Scenario[Any], name: str, processes: int) -> Iterator[Twins]:
    """Start the other processes, and end them."""
    own = os.environ.get(HASH_SEED, "")
    seeds = [seed for seed in map(str, range(1, processes + 2)) if seed != own][:processes]
    with ExitStack() as stack:
        yield Twins([stack.enter_context(closing(Replica(scenario, seed))) for seed in seeds], name)


def _difference(step: Step | None, here: StepDigest, there: StepDigest) -> tuple[str, str, str, str]:
    """Return the actor, the field and both values."""
    first = [step.recipient, step.sender] if step else []
    for name in dict.fromkeys([*first, *here.states, *there.states]):
        one, other = here.states.get(name), there.states.get(name)
        if one != other:
            return name, *_clipped(one, other, "state")
    if here.posts != there.posts:
        pairs = zip_longest(here.posts, there.posts)
        posted = next(one or other for one, other in pairs if one != other)
        return posted["sender"], *_clipped(here.posts, there.posts, "posted")
    return (step.recipient if step else "the start"), "what is under way", "one thing", "another"


def _clipped(here: object, there: object, root: str) -> tuple[str, str, str]:
    field, one, other = first_difference(here, there, root)
    return field, clipped_json(one, 120), clipped_json(other, 120)


def explore_twice(
    scenario: Scenario[Any],
    plan: Plan,
    begins: Callable[[Statistics], bool] = lambda statistics: True,
    processes: int = PROCESSES,
) -> ShardResult:
    """Run a campaign, and every run again elsewhere. begins: asked before each run, whether to go on.

    Raises Nondeterminism, and MisuseError for a scenario that other processes cannot find.
    """
    make_world, monitors = scenario()
    with _twins(scenario, plan.scenario, processes) as twins:
        campaign = Campaign(make_world, [twins.notes, *monitors], plan)
        return campaign.run(begins, lambda world: twins.compare(world, plan.bounds.steps))


def check_schedule(scenario: Scenario[Any], schedule: Schedule, name: str = "") -> None:
    """Make one run here and in every other process. name: of the scenario. Raises Nondeterminism."""
    make_world, _ = scenario()
    with _twins(scenario, name, PROCESSES) as twins:
        for _ in range(PROCESSES):
            world = make_world()
            replay_on(world, schedule, [twins.notes])
            twins.compare(world, schedule.steps)


# --- over there ---------------------------------------------------------------------


def _serve(connection: Connection, scenario: Scenario[Any]) -> None:
    """Answer until there are no more questions."""
    with suppress(EOFError, OSError), connection:
        try:
            make_world, _ = scenario()
        except Exception as error:
            connection.recv()
            connection.send(CallboardError(f"the scenario cannot be made in another process: {error!r}"))
            return
        notes = StepDigests()
        while (asked := connection.recv()) is not None:
            connection.send(_answer(make_world, notes, asked))


def _answer(make_world: MakeWorld[Any], notes: StepDigests, asked: Schedule | int) -> object:
    if isinstance(asked, int):
        return notes.record(asked)
    try:
        with suppress(ScheduleMisfit):
            replay(make_world, asked, [notes])
    except CallboardError as error:
        return CallboardError(str(error))  # errors with other arguments than their text cannot be unpickled
    return notes.digests
