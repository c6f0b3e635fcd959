"""The stream of a running session, and the items that it yields."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.sessions.stream_items": (
        "AnyStreamItem",
        "Snapshot",
        "StreamCut",
        "StreamEvent",
        "StreamItem",
        "TextDelta",
        "TextLost",
        "TextReset",
        "ToolProgress",
    ),
    "runtime.sessions.streaming": ("SessionStream",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
