"""Near names for one that is not known: of an argument, a model, a provider, a capability, a request."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

T = TypeVar("T")
_make: Final = msgspec.StructMeta.__call__
_LIKENESS = 0.65  # at 0.7 `max_token` is not near `tokens`; at 0.6 models of other families are near


def near_names(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'a' or 'b'?` with the known names that are nearest; "" if none is near.

    >>> near_names("gtp-5", ["gpt-5", "o3"]), near_names("gpt-5", ["gpt-5", "gpt-6"]), near_names("x", ["o3"])
    ("; did you mean 'gpt-5'?", '', '')
    """
    import difflib  # here: only a mistake needs it

    names = list(known)
    near = [] if name in names else difflib.get_close_matches(name, names, 2, cutoff=_LIKENESS)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def near_or_all(name: str, known: Iterable[str]) -> str:
    """Return the nearest names as `near_names` does; if none is near, `; there are: ` and all of them.

    >>> near_or_all("x", ["a", "b"])
    '; there are: a, b'
    """
    names = list(known)
    return near_names(name, names) or f"; there are: {', '.join(names)}"


def unknown_argument(call: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown argument, with the nearest ones. call: as users write it."""
    return TypeError(f"{call}() has no argument {name!r}{near_or_all(name, known)}")


def unchecked(cls: type[T]) -> Callable[..., T]:
    """Return the constructor of a Struct without the check of `NamedFields`, for sums that are made often."""
    return partial(_make, cls)


class NamedFields(msgspec.StructMeta):
    """The class of public Structs: their constructors suggest near names for unknown ones."""

    # Type checkers would take the class of each value for `Any`.
    if not TYPE_CHECKING:

        def __call__(cls, *values: object, **named: object) -> Any:
            """Make a Struct. Raises TypeError for an unknown argument."""
            try:
                return _make(cls, *values, **named)
            except TypeError:
                unknown = next((name for name in named if name not in cls.__struct_fields__), None)
                if unknown is None:
                    raise
            raise unknown_argument(cls.__name__, unknown, cls.__struct_fields__)
