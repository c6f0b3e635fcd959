"""Results of tools for models: encodings, their rules, and figures of their cost."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.outputs.tool_output": (
        "OutputError",
        "OutputRules",
        "ResponseFormat",
        "ToolOutput",
        "metrics",
    ),
    "runtime.outputs.unified": ("unified",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
