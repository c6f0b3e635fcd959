"""The phases of an agent and the messages that have a meaning in each: a table that `decide_agent` obeys.

    new        before its first message
    thinking   it has asked for a turn, or the model is at work
    acting     tools, questions or delegations of its last reply have no answer yet
    judging    the supervisor has its reports
    compacting its conversation is about to be replaced by a shorter one
    parked     it has nothing more to do for now, and waits for its background tasks
    failed     its decider has raised; it counts answers, posts nothing, and is about to be stopped
    stopping   it was stopped, and waits for the remaining answers to its port requests
    idle       it has finished or drained; the host begins again with the next ask, and keeps the ends of its
               background tasks for that

A message without a row in a phase changes nothing and posts nothing. Such messages are normal: after a stop,
answers and judgements of the old life are still on their way, live and in replay. An answer to another turn
or call than an open one changes nothing either.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from callboard.actors.protocol.compaction_messages import Compacted, SummaryRefused
from callboard.actors.protocol.messages import (
    Begin,
    Delegated,
    DelegationEnded,
    ReportJudged,
    Stop,
    Told,
    ToolsGiven,
    Woken,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, ModelReplied, ToolReturned, ToolStarted

Phase: TypeAlias = Literal[
    "new", "thinking", "acting", "judging", "compacting", "parked", "failed", "stopping", "idle"
]
Row: TypeAlias = Mapping[type, tuple[Phase, ...]]

AGENT: Final[Mapping[Phase, Row]] = MappingProxyType(
    {
        "new": {
            Begin: ("thinking", "compacting"),
            Stop: ("idle",),
        },
        "thinking": {
            ModelReplied: ("thinking", "acting", "judging", "compacting", "parked", "idle"),
            SummaryRefused: ("thinking", "compacting", "idle"),
            ToolReturned: ("thinking",),
            ApprovalGiven: ("thinking",),
            ToolStarted: ("thinking",),
            DelegationEnded: ("thinking",),
            Woken: ("thinking",),
            Told: ("thinking",),
            ToolsGiven: ("thinking",),
            Stop: ("stopping", "idle"),
        },
        "acting": {
            ToolReturned: ("acting", "thinking", "judging", "compacting", "idle"),
            ApprovalGiven: ("acting", "thinking", "judging", "compacting", "idle"),
            ToolStarted: ("acting",),
            Delegated: ("acting", "thinking", "judging", "compacting", "idle"),
            ToolsGiven: ("acting",),
            DelegationEnded: ("acting", "thinking", "judging", "compacting", "idle"),
            Told: ("acting", "thinking", "judging", "compacting", "idle"),
            Woken: ("acting", "thinking"),
            Stop: ("stopping", "idle"),
        },
        "compacting": {
            Compacted: ("thinking",),
            DelegationEnded: ("compacting",),
            Told: ("compacting",),
            ToolsGiven: ("compacting",),
            Stop: ("idle",),
        },
        "judging": {
            ReportJudged: ("judging", "thinking", "compacting", "idle"),
            DelegationEnded: ("judging",),
            Told: ("judging",),
            ToolsGiven: ("judging",),
            Stop: ("idle",),
        },
        "parked": {
            DelegationEnded: ("parked", "thinking", "compacting"),
            Told: ("parked", "thinking", "compacting"),
            ToolsGiven: ("parked",),
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
            ModelReplied: ("stopping", "idle"),
            ToolReturned: ("stopping", "idle"),
            ApprovalGiven: ("stopping", "idle"),
            DelegationEnded: ("stopping",),
        },
        "idle": {
            Begin: ("thinking", "compacting"),
            DelegationEnded: ("idle",),
        },
    }
)
"""Phase -> message -> the possible next phases.

The calls of an agent with eager turns stay open over turns, so its answers and its deadline also come while
it thinks. A decider that raises leads from any phase to `failed`, and from `failed` and `stopping` straight
to `idle`.
"""
