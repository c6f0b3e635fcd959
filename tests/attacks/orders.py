"""Play a delegation attack in every order of its messages, answers, timers and faults.

The sessions run in the simulated world, with the same deciders as live. `every_order` tries all orders if
there are few; otherwise half of the runs enumerate orders and half are drawn. `every_moment` injects each
fault once at each moment of the usual run. After each run every rule of the protocol is checked on the log
(`check_log`), and the log is replayed.
"""

from collections.abc import Callable, Iterator

from callboard import Limits
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.faults import Faults
from callboard.replay.testing.sessions.memory import BreachCache
from callboard.replay.testing.sessions.scenario import NO_LIMITS, Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, Worlds
from callboard.replay.testing.world import Move
from callboard.replay.verify import Verifier
from tests.determinism import drawn
from tests.effort import effort

SCHEMA = {"type": "object", "required": ["n"]}
Policy = Callable[[ModelRequest], Reply]


def faults(*kinds: str, most: int = 1) -> Faults:
    return Faults(frozenset(kinds), most=most, fault_mixes=0)


def scenario(
    policy: Policy,
    *,
    agents: dict[str, tuple[str, ...]] | None = None,
    limits: Limits = NO_LIMITS,
    schema: object = None,
    may_fail: Faults | None = None,
    kid_limits: Limits = NO_LIMITS,
) -> Scenario:
    """Build a session in which a host with kids gets one ask."""
    agents = agents or {"host": ("kid",), "kid": ()}
    profiles = [
        profile(name, known, ["look"], limits=NO_LIMITS if name == "host" else kid_limits)
        for name, known in agents.items()
    ]
    return Scenario(profiles, policy, [ask(schema=schema)], limits, faults=may_fail or Faults())


class _Runs:
    """The runs of one scenario. Each log is checked once: different orders often come to the same log."""

    def __init__(self, made: Scenario) -> None:
        self.world = Worlds(made)
        self._verdicts = BreachCache()

    def checked(self, world: SessionWorld) -> SessionWorld:
        """Return the world; raise AssertionError if its log breaks a rule or does not replay."""
        log, is_at_rest = world.log, world.failure is None
        breaches = self._verdicts.of((is_at_rest, *log), lambda: check_log(log, is_at_rest=is_at_rest))
        assert not breaches, "\n".join(map(str, breaches))
        divergences = self._verdicts.of(("replayed", *log), lambda: _divergences(log))
        assert not divergences, str(divergences[0])
        return world


def _divergences(log: list[Event]) -> list[Breach]:
    found = Verifier(log).run()
    return [] if found is None else [Breach("replay", "The log replays.", found.seq, str(found))]


def played(made: Scenario) -> SessionWorld:
    runs = _Runs(made)
    return runs.checked(runs.world().run())


def every_order(made: Scenario, runs: int = 160) -> Iterator[SessionWorld]:
    """Yield a world for every order of events, or for this many of them, in the suite for a third of that."""
    runs = effort(runs // 3, runs)
    all_runs = _Runs(made)
    choices: list[int] = []
    for _ in range(runs // 2):
        widths: list[int] = []
        yield all_runs.checked(all_runs.world().run(lambda n: _next_choice(n, widths, choices)))  # noqa: B023  # the run ends before the names change
        choices += [0] * (len(widths) - len(choices))
        while choices and choices[-1] + 1 >= widths[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1
    for number in range(runs // 2):
        world = all_runs.world()
        yield all_runs.checked(world.run(lambda n: drawn(number, len(world.made)) % n))  # noqa: B023  # the run ends before the names change


def _next_choice(options: int, widths: list[int], choices: list[int]) -> int:
    widths.append(options)
    return choices[len(widths) - 1] if len(widths) <= len(choices) else 0


def every_moment(made: Scenario) -> Iterator[SessionWorld]:
    """Yield runs in the usual order, each with one fault at one moment: every possible fault at every moment.

    A crash strikes once for each tail of the log that it can lose.
    """
    runs, place = _Runs(made), 0
    while _usual(world := _after(runs.world(), place)):
        for fault in range(len(_faults(world))):
            lost = 0
            while (injected := _struck(_after(runs.world(), place), fault, lost)) is not None:
                yield runs.checked(finished(injected))
                lost += 1
        place += 1


def _after(world: SessionWorld, place: int) -> SessionWorld:
    """Make the first `place` moves of the usual order. Return the world."""
    for _ in range(place):
        world.make(_usual(world)[0])
    return world


def _struck(world: SessionWorld, fault: int, lost: int) -> SessionWorld | None:
    """Make a fault strike, then lose a tail of the log. Return None if the world cannot lose that much.

    fault: its index in the possible ones. lost: the number of lost events.
    """
    world.make(_faults(world)[fault])
    for _ in range(lost):
        losing = [move for move in world.moves() if move.strand == "fault lose one"]
        if not losing:
            return None
        world.make(losing[0])
    return world


def _usual(world: SessionWorld) -> list[Move]:
    return [move for move in world.moves() if move.kind != "fault"]


def _faults(world: SessionWorld) -> list[Move]:
    return [move for move in world.moves() if move.kind == "fault"]


def finished(world: SessionWorld) -> SessionWorld:
    """Go on in the usual order until nothing but faults can happen."""
    while usual := _usual(world):
        world.make(usual[0])
    return world


def reporting(*values: object) -> Policy:
    """Build a policy whose kid reports all these values in one turn."""

    def says(request: ModelRequest) -> Reply:
        if request.address == "host":
            return calls(task("kid", output_schema=SCHEMA)) if request.turn == 1 else Reply("done")
        return calls(*[("report_back", value) for value in values])

    return says


def verdicts(world: SessionWorld) -> list[str]:
    return [judged.verdict for judged in world.of(ReportJudged)]


def results(world: SessionWorld) -> list[tuple[str, bytes]]:
    return [(end.kind, bytes(end.value)) for end in world.of(DelegationEnded)]
