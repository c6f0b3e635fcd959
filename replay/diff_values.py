"""The parts of a message in which two sessions may differ: no seqs, ids, times or figures of usage.

JSON of users, models and tools is compared whole, with all of its fields.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

_FIGURES: Final = frozenset(
    {"usage", "settled", "need", "closing", "room", "unsettled", "messages", "telemetry"}
)
_NUMBERS: Final = frozenset(
    {
        "request",
        "new",
        "by",
        "check",
        "timer",
        "until",
        "event",
        "permission",
        "reused",
        "after_origin",
        "cached_from",
    }
)
IDS: Final = frozenset({"id", "request_id", "digest", "tool_use_id", "signature"})
_LEFT_OUT: Final = _FIGURES | _NUMBERS | IDS
"""Fields of messages that are not compared. In JSON of users, models and tools these names mean nothing."""

_ADDRESSES: Final = frozenset({"address", "agent", "parent"})
"""Fields that name an agent."""

_ASKED: Final = {"prompt", "context", "schema", "input_schema", "extra", "implicit", "params", "metadata"}
_GIVEN: Final = {"arguments", "input", "presets", "first", "form", "forms", "output", "value", "values"}
FOREIGN: Final = frozenset(_ASKED | _GIVEN)
"""Fields of messages that hold such JSON: they are compared whole."""

_OF_BLOCKS: Final = frozenset({"id", "tool_use_id"})
_OF_STEPS: Final = frozenset({"run", "at", "wake"})


LONG_CHARS: Final = 65_536
"""Texts that are longer are compared by their digests: two sessions of 1 GB do not fit the memory."""

_KEPT_CHARS: Final = 2_000


def shortened(value: Any) -> Any:
    """Return a JSON value with each long text cut, and its length and digest behind the cut."""
    if isinstance(value, str) and len(value) > LONG_CHARS:
        digest = blake2b(value.encode(), digest_size=16).hexdigest()
        return f"{value[:_KEPT_CHARS]}… ({len(value):,} characters, BLAKE2b {digest})"
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    return [shortened(inner) for inner in value] if isinstance(value, list) else value


def compared(value: Any, names: Mapping[str, str]) -> Any:
    """Return the parts of a message that a difference may be in, its agents renamed."""
    if isinstance(value, list):
        return [compared(inner, names) for inner in value]
    if not isinstance(value, dict):
        return value
    parts = {name: _part(name, value[name], names) for name in value if name not in _LEFT_OUT}
    for name in _ADDRESSES & parts.keys():
        if isinstance(parts[name], str):
            parts[name] = names.get(parts[name], parts[name])
    return parts


def _part(name: str, value: Any, names: Mapping[str, str]) -> Any:
    """Return the parts of a field that a difference may be in."""
    if name in FOREIGN:
        return value
    return _blocks(value) if name == "content" else compared(value, names)


def _blocks(content: Any) -> Any:
    """Return the content of a model, without the ids of its calls and the times of a program's steps."""
    if not isinstance(content, list):
        return content
    return [_block(one) if isinstance(one, dict) else one for one in content]


def _block(block: dict[str, Any]) -> dict[str, Any]:
    left_out = _OF_STEPS if block.get("type") == "program_step" else _OF_BLOCKS
    return {name: value for name, value in block.items() if name not in left_out}
