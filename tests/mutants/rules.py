"""The rules that a mutant must break: the ready-made ones of sessions, replay identity included."""

from collections.abc import Sequence

from callboard.replay.testing.sessions.monitors import session_monitors
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Monitor

REPLAY_EVERY = 10


def rules() -> Sequence[Monitor[SessionWorld]]:
    """Create all rules, for one campaign."""
    return session_monitors(REPLAY_EVERY)
