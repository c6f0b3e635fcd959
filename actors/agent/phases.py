"""What an agent makes of each message in each of its phases: a table, which `decide_agent` obeys.

    new        nothing has reached it yet
    thinking   it has asked for a turn, or the model is at work
    acting     tools or delegations of the last reply are out
    judging    its reports are with the supervisor
    failed     its decider has raised: it counts what comes in, posts nothing, and will be stopped
    stopping   it was stopped, and waits until every port request of its is answered
    idle       it has finished or drained; the host begins again with the next ask

A message that is not in the row of a phase changes nothing and posts nothing. That is not sloppiness:
after a stop, answers and judgements for the old life are on their way, and a replayed log must take them
as calmly. The same holds for an answer to another turn or call than is open.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from callboard.actors.protocol.messages import (
    ApprovalGiven,
    Begin,
    DelegationEnded,
    ModelReplied,
    ReportJudged,
    Stop,
    ToolReturned,
    ToolStarted,
)

Phase: TypeAlias = Literal["new", "thinking", "acting", "judging", "failed", "stopping", "idle"]
Row: TypeAlias = Mapping[type, tuple[Phase, ...]]

AGENT: Final[Mapping[Phase, Row]] = MappingProxyType(
    {
        "new": {
            Begin: ("thinking",),
            Stop: ("idle",),
        },
        "thinking": {
            ModelReplied: ("thinking", "acting", "judging", "idle"),
            Stop: ("stopping", "idle"),
        },
        "acting": {
            ToolReturned: ("acting", "thinking", "judging", "idle"),
            ApprovalGiven: ("acting", "thinking", "judging", "idle"),
            ToolStarted: ("acting",),
            DelegationEnded: ("acting", "thinking", "judging", "idle"),
            Stop: ("stopping", "idle"),
        },
        "judging": {
            ReportJudged: ("judging", "thinking", "idle"),
            Stop: ("idle",),
        },
        "failed": {
            ModelReplied: ("failed",),
            ToolReturned: ("failed",),
            ApprovalGiven: ("failed",),
            DelegationEnded: ("failed",),
            ReportJudged: ("failed",),
            Stop: ("stopping", "idle"),
        },
        "stopping": {
            ModelReplied: ("idle",),
            ToolReturned: ("stopping", "idle"),
            ApprovalGiven: ("stopping", "idle"),
            DelegationEnded: ("stopping",),
        },
        "idle": {
            Begin: ("thinking",),
        },
    }
)
"""Phase -> message -> the phases it can lead to. A failing decider leads from any phase to `failed`, and
from `failed` and `stopping` straight to `idle`."""
