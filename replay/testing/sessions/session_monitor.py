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
        """Nothing to forget."""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Nothing to see before the end."""
        return None

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """The rule, if it is broken in the end."""
        return Violation(self.rule, at) if self.breach(world) else None

    def breach(self, world: SessionWorld) -> str:
        """How the rule is broken; nothing if it is kept."""
        return ""

    def found(self, world: SessionWorld) -> list[Breach]:
        """The breach, as those of a log are told."""
        how = self.breach(world)
        return [Breach(self.name, self.rule, len(world.log), how)] if how else []
