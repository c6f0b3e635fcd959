"""Python values of any type as JSON, for results that come after an effect: none of them is thrown away.

    numbers, paths, dates, sets, bytes,        their usual JSON; bytes are text if they are UTF-8,
      enums, dataclasses, attrs, models          else base64
    arrays, frames, series, scalars            lists, rows, numbers, by the methods that such types share
      of numpy, pandas, polars, pyarrow, ...
    NaN, the infinities, NaT                   null, with a note
    a value that contains itself, a deep one   a text in its place, with a note
    iterators                                  their items, with a note if they raise or do not end
    any other object                           its own text, or its public attributes, with a note

Rules
  - A value that `to_json` takes is encoded by it. The rest of this module runs for other values only.
  - `foreign_types.py` recognises the values of other libraries.
  - Keys are text, as the json module writes them; two that would be equal stay two.
  - The order of a set is that of the JSON of its items. The address of an object is not part of its text.
"""

import base64
import enum
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from itertools import count
from typing import Any, Final, NamedTuple, cast

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.runtime.failure_text import failure_text
from callboard.runtime.foreign_types import ADDRESS, BYTES, LISTS, MISSING, as_text, given_by, own_fields
from callboard.runtime.json_kinds import TEXT_LIKE
from callboard.runtime.sanitize import MAX_BYTES, MAX_DEPTH, check_json, clean_text, to_json

_ANY: Final[Any] = object
PART_BYTES: Final = 16  # charged for each part of a value, so that the time is bounded as its bytes are
DIGITS_MAX: Final = 4_000  # of a whole number: Python itself writes 4,300, and takes quadratic time for more
_NOTICE_ROOM: Final = 200  # bytes of the words that stand for the parts left out
_PLACES_TOLD: Final = 3
_PLACE_CHARS: Final = 80
_KEY_CHARS: Final = 40
_NOTES_TOLD: Final = 5
_BITS_MAX: Final = DIGITS_MAX * 10 // 3
_ITSELF: Final = "[contains itself]"
_DEEP: Final = "[nested too deeply]"
_REST: Final = "[the rest was left out]"


class Taken(NamedTuple):
    """A value as JSON. notes: on the parts that JSON has no form for. is_cut: a part is left out for size."""

    json: Json
    notes: tuple[str, ...] = ()
    is_cut: bool = False


def taken(
    value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, bytes_as_text: bool = True
) -> Taken:
    """Encode a value of any type. Never raises an Exception.

    bytes_as_text: False writes all bytes as base64, as typed readers want them.

    >>> bytes(taken({1: {"b", "a"}, "x": float("nan")}).json)
    b'{"1":["a","b"],"x":null}'
    >>> taken([0.5, float("inf")]).notes
    ('numbers that are not finite are null: $[1]',)
    """
    try:
        return Taken(to_json(value, max_bytes=max_bytes, max_depth=max_depth))
    except Exception:
        reader = _Reader(max_bytes - _NOTICE_ROOM, bytes_as_text)
    try:
        plain = reader.read(value, max_depth)
        # Escapes and digits take more bytes than were charged, of some texts six times as many.
        found = to_json(plain, max_bytes=8 * max_bytes + 1_000, max_depth=max_depth + 1)
        if len(found) > max_bytes:
            reader.note(_CUT)
            found = to_json(bytes(found)[: max_bytes // 8].decode("utf-8", "replace"))
    except Exception as error:  # also of a RecursionError, far below the usual depth
        reader.note(f"values of {_name(value)} that raised {type(error).__name__} are left out")
        found = to_json(f"[{_name(value)}]")
    return Taken(found, reader.notes, reader.is_cut)


def note_of(notes: Iterable[str]) -> str:
    """Return the line that tells a model these notes; empty for none."""
    # Whole notes with whole keys: half of a secret would not be found.
    told = "; ".join([*notes][:_NOTES_TOLD])
    return f"\n[note: {told}]" if told else ""


_NOT_FINITE: Final = "numbers that are not finite are null"
_CUT: Final = "too large, so that parts are left out"


class _Reader:
    """Reads one value. notes: on its parts so far."""

    def __init__(self, budget: int, bytes_as_text: bool) -> None:
        self._budget = budget
        self._bytes_as_text = bytes_as_text
        self._steps: list[str] = []  # to the part that is read
        self._above: set[int] = set()  # ids of the parts that contain it
        self._notes: dict[str, tuple[int, tuple[str, ...]]] = {}  # how often, and the first places
        self.is_cut = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note for each kind of change, with the first places of it."""
        return tuple(
            f"{what}: {', '.join(places)}" + (f" and {count - len(places):,} more" if more else "")
            for what, (count, places) in self._notes.items()
            for more in (count > len(places) == _PLACES_TOLD,)
        )

    def note(self, what: str) -> None:
        """Note a change of the part that is read."""
        self.is_cut |= what == _CUT
        count, places = self._notes.get(what, (0, ()))
        if len(places) < _PLACES_TOLD:
            place = _place(self._steps)
            places = (*places, place) if place not in places else places
        self._notes[what] = count + 1, places

    def read(self, value: object, depth: int) -> object:
        """Return a value as plain Python has it: None, flags, numbers, texts, lists and dicts."""
        self._budget -= PART_BYTES
        if isinstance(value, bool | None):
            return value
        if self._budget < 0:
            self.note(_CUT)
            return _REST
        if id(value) in self._above:
            self.note("values that contain themselves are cut there")
            return _ITSELF
        self._above.add(id(value))
        try:
            return self._read(value, depth)
        except Exception as error:  # of the value's own methods
            self.note(f"values of {_name(value)} that raised {type(error).__name__} are left out")
            return f"[{_name(value)}]"
        finally:
            self._above.discard(id(value))

    def _read(self, value: object, depth: int) -> object:
        if isinstance(value, enum.Enum):
            return self.read(value.value, depth)
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, int):
            return self._whole(int(value))
        if isinstance(value, float):
            return self._number(float(value))
        if type(value) in TEXT_LIKE:
            return value  # the encoder has a form for it
        if isinstance(value, BYTES):
            return self._bytes(bytes(value))
        if isinstance(value, msgspec.Raw):
            return self._raw(bytes(value), depth)
        if (text := as_text(value)) is not None:
            return self._number_or_text(value, text)
        if depth <= 0:
            self.note("what is nested too deeply is left out")
            return _DEEP
        return self._with_parts(value, depth - 1)

    # --- values without parts -----------------------------------------------------

    def _text(self, text: str) -> str:
        kept = text[: max(0, self._budget)]
        self._budget -= len(kept)
        if len(kept) < len(text):
            self.note(_CUT)
            kept += _REST
        return clean_text(kept)

    def _whole(self, number: int) -> object:
        if number.bit_length() <= _BITS_MAX:
            return number
        self.note(f"whole numbers of more than {DIGITS_MAX:,} digits are written as base 16")
        return self._text(f"{number:#x}")

    def _number(self, number: float) -> float | None:
        if number - number == 0:
            return number
        self.note(_NOT_FINITE)
        return None

    def _bytes(self, data: bytes) -> str:
        kept = data[: max(0, self._budget)]
        if len(kept) < len(data):
            self.note(_CUT)
        if self._bytes_as_text and (text := _utf8(kept, is_whole=len(kept) == len(data))) is not None:
            return self._text(text)
        if self._bytes_as_text:
            self.note("bytes that are not UTF-8 are written as base64")
        return self._text(base64.b64encode(kept).decode())

    def _raw(self, data: bytes, depth: int) -> object:
        try:
            return check_json(data, max_bytes=max(0, self._budget), max_depth=depth)
        except InvalidPrompt:
            self.note("JSON that cannot be read is written as text")
            return self._text(data.decode("utf-8", "replace"))

    def _number_or_text(self, value: object, text: str) -> str | None:
        if text in MISSING:
            self.note("values that are missing (NaN, NaT, NA) are null")
            return None
        return self._text(text)

    # --- values with parts --------------------------------------------------------

    def _with_parts(self, value: object, depth: int) -> object:
        if (fields := own_fields(value)) is not None:
            return self._fields(fields, depth)
        if isinstance(value, Set):
            return sorted(self._items(value, depth), key=_sorting)
        if isinstance(value, list | tuple):
            return self._items(value, depth)
        if (given := given_by(value, self._budget // PART_BYTES)) is not None:
            if given.is_cut:
                self.note(_CUT)
            return self.read(given.value, depth + 1)
        if isinstance(value, LISTS):
            return self._items(cast("Iterable[object]", value), depth)
        return self._described(value, depth)

    def _fields(self, fields: Iterable[tuple[object, object]], depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, item in fields:
            if self._budget < 0:
                self.note(_CUT)
                return found
            name = self._key(key)
            if name in found:
                self.note("keys that are equal as text are numbered")
                name = _numbered(name, found)
            self._steps.append(_step(name))
            found[name] = self.read(item, depth)
            self._steps.pop()
        return found

    def _key(self, key: object) -> str:
        if isinstance(key, str) and not isinstance(key, enum.Enum):
            return self._text(str.__str__(key))
        plain = self.read(key, 4)
        if isinstance(plain, str):
            return plain
        return self._text(bytes(to_json(plain)).decode())  # 1, true, null, [1,2]

    def _items(self, items: Iterable[object], depth: int) -> list[object]:
        found: list[object] = []
        try:
            for item in items:
                if self._budget < 0:
                    self.note(_CUT)
                    break
                self._steps.append(f"[{len(found)}]")
                found.append(self.read(item, depth))
                self._steps.pop()
        except Exception as error:  # of an iterator: what it gave before is kept
            self.note(f"an iterator raised {type(error).__name__} after {len(found):,} items")
        return found

    def _described(self, value: object, depth: int) -> object:
        """Return the own text of an object; the public attributes of one that has none."""
        if text := _own_text(value):
            self.note(f"values of {_name(value)} are written as text")
            return self._text(text)
        self.note(f"values of {_name(value)} are written as their public attributes")
        public = {name: part for name, part in _parts(value).items() if not str(name).startswith("_")}
        return self._fields(public.items(), depth) if public else f"[{_name(value)}]"


def _parts(value: object) -> dict[str, object]:
    """Return the attributes of an object, those in slots too. Those that raise are left out."""
    parts: dict[str, object] = {}
    for kind in reversed(type(value).__mro__):
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                with suppress(Exception):
                    parts[name] = getattr(value, name)
    return parts | getattr(value, "__dict__", {})


def _utf8(data: bytes, *, is_whole: bool) -> str | None:
    """Return the text of bytes, None if they are not UTF-8. is_whole: False if a character may be cut."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        is_cut_there = not is_whole and error.start >= len(data) - 3
        return data[: error.start].decode() if is_cut_there else None


def _own_text(value: object) -> str:
    """Return the text that an object gives of itself, without its address; empty for one that gives none."""
    kind = type(value)
    if isinstance(value, BaseException):
        return failure_text(value)
    is_own = kind.__str__ is not _ANY.__str__ or kind.__repr__ is not _ANY.__repr__
    return ADDRESS.sub("", str(value)) if is_own else ""


def _numbered(name: str, used: Mapping[str, object]) -> str:
    """Return a key with a number that makes it another one than those that are used."""
    # From their number on: thousands of equal keys would be tried one after the other.
    return next(one for number in count(len(used) + 1) if (one := f"{name}~{number}") not in used)


def _step(name: str) -> str:
    return f".{name}" if len(name) <= _KEY_CHARS else ".[...]"


def _place(steps: list[str]) -> str:
    """Return the place of a part by as many whole steps as there is room for."""
    place = "$"
    for step in steps:
        if len(place) + len(step) > _PLACE_CHARS:
            return f"{place}..."
        place += step
    return clean_text(place)


def _name(value: object) -> str:
    return clean_text(type(value).__qualname__)[:_PLACE_CHARS]


def _sorting(plain: object) -> bytes:
    return bytes(to_json(plain, max_bytes=8 * MAX_BYTES, max_depth=MAX_DEPTH + 1))
