"""The words of a refusal by permissions: for models, and for people who read a log."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NOT_CALLED: Final = "Not called: "

_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools": "tool",
        "effects": "effect",
        "capabilities": "capability",
        "models": "model",
        "agents": "agent",
        "secrets": "secret",
        "memory": "memory",
        "read": "reading",
        "write": "writing",
        "hosts": "host",
    }
)
"""The word for one name of an entry of a bundle."""


def denied(entry: str, name: str, by: str, label: str = "") -> str:
    """Return the refusal of one name. by: the holder of the bundle. label: for which it denies."""
    after = f" once the label {label!r} was read" if label else ""
    return f"{_WORDS[entry]} {name[:200]!r} is denied by {by}{after}"


def not_called(refusal: str) -> str:
    """Return the answer to a call that permissions forbid."""
    return f"{NOT_CALLED}{refusal}. Calling it again changes nothing."
