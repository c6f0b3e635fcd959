"""Look back: recordings and their verification. Nothing in here can act.

The names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if __name__ != "callboard.replay":
    raise ImportError(
        "import callboard.replay, not replay: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )

if TYPE_CHECKING:
    from callboard.replay.changed.agents_now import AgentsNow as AgentsNow
    from callboard.replay.changed.result import ChangedReplay as ChangedReplay
    from callboard.replay.changed.result import DecisionDifference as DecisionDifference
    from callboard.replay.changed.result import RequestDifference as RequestDifference
    from callboard.replay.diagnosis.finding import Finding as Finding
    from callboard.replay.diff import Difference as Difference
    from callboard.replay.diff import SessionDiff as SessionDiff
    from callboard.replay.divergence import Divergence as Divergence
    from callboard.replay.exports.writing import EXPORTERS as EXPORTERS
    from callboard.replay.recording import Recording as Recording
    from callboard.replay.recording import sessions as sessions
    from callboard.replay.search import Match as Match
    from callboard.replay.search import Query as Query
    from callboard.replay.steps import Step as Step
    from callboard.replay.tool_figures import ToolCollector as ToolCollector
    from callboard.replay.tool_figures import ToolUsage as ToolUsage
    from callboard.replay.tool_figures import tool_usage as tool_usage
    from callboard.replay.verification import Verification as Verification
    from callboard.replay.why import Why as Why
    from callboard.runtime.log.tree import Tree as Tree

_HOMES = {
    "AgentsNow": "replay.changed.agents_now",
    "ChangedReplay": "replay.changed.result",
    "DecisionDifference": "replay.changed.result",
    "Difference": "replay.diff",
    "Divergence": "replay.divergence",
    "EXPORTERS": "replay.exports.writing",
    "Finding": "replay.diagnosis.finding",
    "Match": "replay.search",
    "Query": "replay.search",
    "Recording": "replay.recording",
    "RequestDifference": "replay.changed.result",
    "SessionDiff": "replay.diff",
    "Step": "replay.steps",
    "ToolCollector": "replay.tool_figures",
    "ToolUsage": "replay.tool_figures",
    "Tree": "runtime.log.tree",
    "Verification": "replay.verification",
    "Why": "replay.why",
    "sessions": "replay.recording",
    "tool_usage": "replay.tool_figures",
}

__all__ = [
    "EXPORTERS",
    "AgentsNow",
    "ChangedReplay",
    "DecisionDifference",
    "Difference",
    "Divergence",
    "Finding",
    "Match",
    "Query",
    "Recording",
    "RequestDifference",
    "SessionDiff",
    "Step",
    "ToolCollector",
    "ToolUsage",
    "Tree",
    "Verification",
    "Why",
    "sessions",
    "tool_usage",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'callboard.replay' has no attribute {name!r}")
    value: object = getattr(import_module(f"callboard.{home}"), name)
    globals()[name] = value
    return value
