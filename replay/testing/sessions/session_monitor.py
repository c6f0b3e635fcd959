"""What a rule of whole sessions is, as a monitor of the explorer."""

from typing import ClassVar

from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Violation


class SessionMonitor:
    """What a monitor of sessions does if nothing else is said: it looks at rest, at what `breach` finds."""

    name: ClassVar[str] = ""
    rule: ClassVar[str] = ""

    def begin(self, steps: int) -> None:
        """Begin a run; nothing is kept from the last."""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Ignore a step: the rule is checked at rest."""
        return None

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Return the rule if it is broken at rest."""
        return Violation(self.rule, at) if self.breach(world) else None

    def breach(self, world: SessionWorld) -> str:
        """Return how the rule is broken; empty if it is kept."""
        return ""

    def found(self, world: SessionWorld) -> list[Breach]:
        """Return the breach in the form that rules of a log use."""
        how = self.breach(world)
        return [Breach(self.name, self.rule, len(world.log), how)] if how else []
