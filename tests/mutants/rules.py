"""The rules that a mutant breaks if it is one: the ready-made ones of sessions, replay identity included."""

from collections.abc import Sequence

from callboard.replay.testing.invariants import INVARIANTS
from callboard.replay.testing.invariants_answers import AnswerInTime, Cancelled, Closed
from callboard.replay.testing.invariants_base import Invariant
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


def rules() -> Sequence[Monitor[SessionWorld]]:
    """All rules, for one campaign."""
    ready = [one for one in session_monitors(REPLAY_EVERY) if not isinstance(one, LogRules)]
    return [LogRules(ALL), *ready, *world_rules()]
