"""The kinds of files that can be imported, and the kind that a file tells of itself."""

from pathlib import Path
from typing import Any, Final

import msgspec

from callboard.runtime.imports.items import is_conversation

CALLBOARD: Final = "callboard"
CLAUDE_CODE: Final = "claude-code"
MESSAGES: Final = "messages"
OTLP: Final = "otlp"
KINDS: Final = (CALLBOARD, CLAUDE_CODE, MESSAGES, OTLP)
_LOOK_LINES: Final = 50
_LINE_BYTES_MAX: Final = 2**20
_LINE_TYPES: Final = frozenset({
    "user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "attachment",
    "progress", "ai-title", "custom-title", "last-prompt", "mode", "permission-mode", "agent-name",
})  # fmt: skip


def kind_of(path: Path) -> str:
    """Return the kind of a file, or of the first file in a folder that tells; empty if none does."""
    if path.is_dir():
        found = (kind_of(one) for one in sorted(path.rglob("*.jsonl")))
        return next((kind for kind in found if kind), "")
    if path.suffix == ".json":
        return _kind_of_value(path.read_bytes())
    with path.open("rb") as file:
        for _ in range(_LOOK_LINES):
            data = file.readline(_LINE_BYTES_MAX)
            if not data:
                break
            if kind := _kind_of_value(data):
                return kind
    return ""


def _kind_of_value(data: bytes) -> str:
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    if not isinstance(value, dict):
        return MESSAGES if is_conversation(value) else ""
    if "callboard" in value:
        return CALLBOARD
    if isinstance(value.get("resourceSpans"), list):
        return OTLP
    is_line = value.get("type") in _LINE_TYPES and not {"sessionId", "session_id", "uuid"}.isdisjoint(value)
    return CLAUDE_CODE if is_line else MESSAGES if is_conversation(value) else ""
