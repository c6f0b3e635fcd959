"""The kinds of Python values that have a JSON of their own, and the words for those that have none."""

import datetime
import decimal
import uuid
from typing import Any

TEXT_LIKE = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, decimal.Decimal)
"""Types that JSON has as texts."""


def is_model(value: object) -> bool:
    """Return True for an instance of a pydantic model."""
    return hasattr(type(value), "__pydantic_root_model__")


def dumped(model: object) -> object:
    """Return the plain value that a pydantic model gives for its JSON."""
    # The class's own serializer, so that pydantic is not imported here; mypy does not know it.
    kind: Any = type(model)
    return kind.__pydantic_serializer__.to_python(model, mode="json", by_alias=True)


def unsuitable(value: object) -> str:
    """Return the words for a value that JSON does not have: what it is, and what to pass instead."""
    if isinstance(value, bytes | bytearray | memoryview):
        return "is bytes, and JSON has only text: decode it, or encode it as base64"
    if isinstance(value, set | frozenset):
        return "is a set, whose order is chance: write sorted(...)"
    return (
        f"is of type {type(value).__name__:.80}, which is not JSON: pass text, a number, a bool, None, "
        "a list, a dict with text keys, a dataclass, a msgspec Struct or a pydantic model"
    )
