# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.replay.changed.result import AgentsNow as AgentsNow
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
from callboard.replay.verify import Verification as Verification
from callboard.replay.why import Why as Why
from callboard.runtime.log.tree import Tree as Tree

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
