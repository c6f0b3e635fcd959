"""The types of other libraries, recognised by attributes of their classes: none of them is imported.

a text        paths, dates, addresses, fractions
fields        mappings, structs, models, dataclasses, attrs classes, rows of sqlite3
plain values  scalars, arrays, series and frames of numpy, pandas, polars, pyarrow, torch, ..., and any
              value with a usual method for it
"""

import array
import collections
import dataclasses
import enum
import fractions
import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Mapping, MappingView, Sequence, Set
from typing import Any, Final, NamedTuple

import msgspec

from callboard.runtime.json_kinds import TEXT_LIKE, is_model

_TEXTS: Final = (
    complex, fractions.Fraction, collections.UserString, *TEXT_LIKE,
    ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
)  # fmt: skip
BYTES: Final = (bytes, bytearray, memoryview)
LISTS: Final[tuple[type, ...]] = (Sequence, MappingView, collections.deque, array.array, Iterator)
_METHODS: Final = ("to_dicts", "to_pylist", "as_py", "tolist", "to_list", "model_dump", "_asdict", "to_dict")
"""Methods without arguments by which values of other libraries give plain ones, the fullest first."""

_KNOWN: Final = (int, float, enum.Enum, str, Mapping, Set, os.PathLike, *_TEXTS, *BYTES, *LISTS)

ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
"""The part of an object's text that is another in each process."""

MISSING: Final = frozenset({"NaT", "<NA>"})
"""The texts of pandas' and numpy's values that are missing. Such a value is compared to nothing else."""

_DATES: Final = frozenset("mM")  # numpy's kinds of dates and durations


class Given(NamedTuple):
    """The plain value that a value of a library gives. is_cut: for want of room, a part of it."""

    value: object
    is_cut: bool = False


def has_form(kind: type) -> bool:
    """Return True if values of this class have a JSON of their own, and are not only described by a text."""
    if issubclass(kind, _KNOWN) or any(hasattr(kind, name) for name in (*_METHODS, "isoformat")):
        return True
    return any(hasattr(kind, name) for name in ("__attrs_attrs__", "__pydantic_serializer__"))


def as_text(value: Any) -> str | None:
    """Return the text of a value whose JSON is a text; None for any other."""
    kind = type(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if kind.__name__ == "NAType":  # pandas' one: its comparisons have no truth
        return "<NA>"
    if callable(getattr(kind, "isoformat", None)):
        return str(value.isoformat())
    if isinstance(value, _TEXTS):
        return str(value)
    is_date = hasattr(kind, "dtype") and getattr(value.dtype, "kind", "") in _DATES
    return str(value) if is_date and value.shape == () else None


def own_fields(value: Any) -> Iterable[tuple[object, object]] | None:
    """Return the fields of a mapping, struct, model, dataclass or attrs class; None for any other value."""
    kind: Any = type(value)
    if isinstance(value, dict):
        return dict.items(value)  # as the encoder reads it, also of a subclass
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, msgspec.Struct):
        return _struct_fields(value)
    if is_model(value):
        return _model_fields(value)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]
    elif hasattr(kind, "keys") and hasattr(kind, "__getitem__") and not hasattr(kind, "iloc"):
        names = value.keys()  # of a row of sqlite3, which is not a mapping and iterates over its values
        return [(name, value[name]) for name in names]
    else:
        return None
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _struct_fields(value: msgspec.Struct) -> list[tuple[object, object]]:
    """Return the fields of a struct as the encoder names them."""
    kind, config = type(value), value.__struct_config__
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    fields = [(told, getattr(value, name, msgspec.UNSET)) for name, told in names]
    tag: list[tuple[object, object]] = [(config.tag_field, config.tag)] if config.tag_field else []
    return tag + [(name, part) for name, part in fields if part is not msgspec.UNSET]


def _model_fields(model: Any) -> Iterable[tuple[object, object]]:
    """Return the fields of a pydantic model: as it writes them, or as they are where it cannot."""
    for mode in ("json", "python"):
        try:
            given = type(model).__pydantic_serializer__.to_python(model, mode=mode, by_alias=True)
        except Exception:  # of a part without a serializer, or of a serializer of the user's
            continue
        return list(given.items()) if isinstance(given, dict) else [("root", given)]
    return list(model.__dict__.items())


def given_by(value: Any, room: int) -> Given | None:
    """Return the plain value that a value of a library gives; None for any other value.

    room: the parts that it may have.
    """
    kind = type(value)
    if hasattr(kind, "iloc"):
        return _of_table(value, room)
    if hasattr(kind, "dtype") and getattr(value.dtype, "kind", "") in _DATES and hasattr(kind, "astype"):
        return Given(value.astype(str).tolist())
    if hasattr(kind, "dtype") and hasattr(kind, "item") and getattr(value, "shape", None) == ():
        given = value.item()
        return Given(float(given) if type(given) is kind else given)  # a long double stays itself
    if hasattr(kind, "shape") and _parts_in(value.shape) > room:
        return Given(ADDRESS.sub("", str(value)), is_cut=True)
    for name in _METHODS:
        if callable(getattr(kind, name, None)):
            return Given(getattr(value, name)())
    return None


def _of_table(table: Any, room: int) -> Given:
    """Return the rows of a data frame or series, with its labels where they tell more than a number."""
    most = max(1, room // max(1, _parts_in(table.shape[1:])))
    if is_cut := len(table) > most:
        table = table.head(most)
    if hasattr(type(table), "columns"):
        are_enough = _is_counted(table.index) and table.columns.is_unique
        return Given(table.to_dict("records" if are_enough else "split"), is_cut)
    is_named = not _is_counted(table.index) and table.index.is_unique
    return Given(table.to_dict() if is_named else table.tolist(), is_cut)


def _is_counted(index: object) -> bool:
    """Return True if the labels of rows are their numbers from 0 on, and so tell nothing."""
    return (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1)


def _parts_in(shape: Iterable[int]) -> int:
    product = 1
    for length in shape:
        product *= int(length)
    return product
