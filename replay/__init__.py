"""Look back: recordings and their verification. Nothing in here can act."""

from callboard.lazy_names import lazy_names

if __name__ != "callboard.replay":
    raise ImportError(
        "import callboard.replay, not replay: the folder is reached through the callboard package, "
        "a second copy of its classes would not compare equal"
    )

_HOMES = {
    "replay.changed.result": ("AgentsNow", "ChangedReplay", "DecisionDifference", "RequestDifference"),
    "replay.diagnosis.finding": ("Finding",),
    "replay.diff": ("Difference", "SessionDiff"),
    "replay.divergence": ("Divergence",),
    "replay.exports.writing": ("EXPORTERS",),
    "replay.recording": ("Recording", "sessions"),
    "replay.search": ("Match", "Query"),
    "replay.steps": ("Step",),
    "replay.tool_figures": ("ToolCollector", "ToolUsage", "tool_usage"),
    "replay.verify": ("Verification",),
    "replay.why": ("Why",),
    "runtime.log.tree": ("Tree",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
