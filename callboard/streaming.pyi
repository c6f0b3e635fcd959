# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.sessions.stream_items import AnyStreamItem as AnyStreamItem
from callboard.runtime.sessions.stream_items import Snapshot as Snapshot
from callboard.runtime.sessions.stream_items import StreamCut as StreamCut
from callboard.runtime.sessions.stream_items import StreamEvent as StreamEvent
from callboard.runtime.sessions.stream_items import StreamItem as StreamItem
from callboard.runtime.sessions.stream_items import TextDelta as TextDelta
from callboard.runtime.sessions.stream_items import TextLost as TextLost
from callboard.runtime.sessions.stream_items import TextReset as TextReset
from callboard.runtime.sessions.stream_items import ToolProgress as ToolProgress
from callboard.runtime.sessions.streaming import SessionStream as SessionStream

__all__ = [
    "AnyStreamItem",
    "SessionStream",
    "Snapshot",
    "StreamCut",
    "StreamEvent",
    "StreamItem",
    "TextDelta",
    "TextLost",
    "TextReset",
    "ToolProgress",
]
