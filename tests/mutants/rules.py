"""The rules that a mutant breaks if it is one: the ready-made ones of sessions, replay identity included."""

from collections.abc import Sequence

from callboard.replay.testing.invariants import INVARIANTS, check_log
from callboard.replay.testing.invariants_answers import AnswerInTime, Cancelled, Closed
from callboard.replay.testing.invariants_base import Breach, Invariant
from callboard.replay.testing.invariants_checks import Checked
from callboard.replay.testing.invariants_claims import world_rules
from callboard.replay.testing.invariants_line import Closing, FirstCome
from callboard.replay.testing.invariants_once import OneStop
from callboard.replay.testing.invariants_reasons import Deserved
from callboard.replay.testing.invariants_spending import Spending
from callboard.replay.testing.invariants_starts import Started
from callboard.replay.testing.invariants_timers import Timers
from callboard.replay.testing.session_monitors import LogRules, session_monitors
from callboard.replay.testing.session_world import SessionWorld
from callboard.replay.testing.world import Monitor

REPLAY_EVERY = 10
MORE: tuple[type[Invariant], ...] = (
    Checked,
    Timers,
    Deserved,
    Closing,
    FirstCome,
    Spending,
    OneStop,
    AnswerInTime,
    Closed,
    Cancelled,
    Started,
)
ALL = INVARIANTS + tuple(one for one in MORE if one not in INVARIANTS)


class _AllLogRules(LogRules):
    """Those that are not in `INVARIANTS` too."""

    def found(self, world: SessionWorld) -> list[Breach]:
        """All that the log breaks."""
        is_at_rest = world.failure is None and world.down is None
        return check_log(world.log, is_at_rest=is_at_rest, kinds=ALL)


def rules() -> Sequence[Monitor[SessionWorld]]:
    """All rules, for one campaign."""
    ready = [one for one in session_monitors(REPLAY_EVERY) if not isinstance(one, LogRules)]
    return [_AllLogRules(), *ready, *world_rules()]
