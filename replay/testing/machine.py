"""A rule-based state machine for interactive sessions: Hypothesis asks, cancels, closes, delivers and fails.

    class MySession(SessionMachine):
        scenario = Scenario(host, policy, tools=fakes, faults="all")

    TestMySession = MySession.TestCase

Add rules and invariants of your own; `self.world` is the session.
"""

from dataclasses import replace
from typing import Any, ClassVar

from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Move

try:
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
except ImportError as error:
    raise ImportError("SessionMachine needs Hypothesis: pip install 'callboard[testing]'") from error

PICKS = st.integers(0, 63)
"""Which of the moves, modulo how many there are."""


class SessionMachine(RuleBasedStateMachine):
    """A session, `world`, that Hypothesis drives.

    scenario: of `callboard.testing`; its own prompts are not used. prompts: Hypothesis chooses among these.
    """

    scenario: ClassVar[Any] = None
    prompts: ClassVar[tuple[str, ...]] = ("go", "go on")

    world: SessionWorld

    @initialize()
    def open(self) -> None:
        """Open a new session, in which no ask was made."""
        self.world = SessionWorld(self.made())
        self._asked = 0

    def made(self) -> Scenario:
        """Return the scenario of the session. Raises TypeError if `scenario` is not a Scenario."""
        scenario = getattr(self.scenario, "pure", self.scenario)
        if not isinstance(scenario, Scenario):
            raise TypeError(f"{type(self).__name__}.scenario is {self.scenario!r}; set it to a Scenario")
        return replace(scenario, asks=(), closes=False)

    def _faults(self) -> list[Move]:
        return [
            move for move in self.world.moves() if move.kind == "fault" and "fault mix" not in move.strand
        ]

    @rule()
    def wait(self) -> None:
        """Do nothing: after the end no other rule applies."""

    @precondition(lambda self: self.world.down is None and not self.world.running and not self.world.failure)
    @rule(index=st.integers(0, 1))
    def ask(self, index: int) -> None:
        """Let the client ask."""
        self._asked += 1
        self.world.ask(self.prompts[index % len(self.prompts)], request_id=f"r{self._asked}")

    @precondition(lambda self: self.world.running and self.world.down is None and not self.world.failure)
    @rule()
    def cancel(self) -> None:
        """Let the client cancel the running ask."""
        self.world.cancel()

    @precondition(lambda self: self.world.down is None and not self.world.failure)
    @rule()
    def close(self) -> None:
        """Let the client end the session."""
        self.world.close()

    @precondition(lambda self: self.world.offers)
    @rule(picks=st.lists(PICKS, min_size=1, max_size=12))
    def deliver(self, picks: list[int]) -> None:
        """Make some moves: a message is handled, a port answers, a timer fires."""
        for pick in picks:
            if moves := list(self.world.offers.values()):
                self.world.make(moves[pick % len(moves)])

    @precondition(lambda self: self._faults())
    @rule(pick=PICKS)
    def fail(self, pick: int) -> None:
        """Inject a fault, if the scenario has faults."""
        moves = self._faults()
        self.world.make(moves[pick % len(moves)])

    @invariant()
    def keeps_the_rules(self) -> None:
        """Check the log."""
        if hasattr(self, "world"):
            found = check_log(self.world.log)
            assert not found, "\n".join(map(str, found))

    def teardown(self) -> None:
        """Run the session to its rest and check that nothing is left."""
        if hasattr(self, "world"):
            self.world.heal()
            self.world.run()
            found = breaches_of(self.world)
            assert not found, "\n".join(map(str, found))
