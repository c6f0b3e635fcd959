"""Unknown keyword arguments of public calls: the error names the nearest one that there is.

    >>> from callboard import Agent
    >>> Agent("host", instruction="Be brief.")
    Traceback (most recent call last):
    TypeError: Agent() has no argument 'instruction'; did you mean 'instructions'?

Every public function, and every public method of a public class, gets this check as it is loaded from the
table of public names. Signatures, types and docstrings stay as they are. The constructor of a Struct is in C,
so `NamedFields` gives it the same check. Messages and events have none, because only the runtime makes them,
and the check would cost it an eighth more instructions an event.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final, get_args, get_origin

from callboard.actors.protocol.near_names import unknown_argument

_HAS_OPTIONS: Final = inspect.CO_VARKEYWORDS
_done: Final[set[type]] = set()


def checked(value: object) -> object:
    """Return a public function with the check. A class keeps its identity: its methods get the check."""
    if isinstance(value, FunctionType):
        return _checked(value, value.__name__)
    if isinstance(value, type):
        for cls in _own_bases(value):
            _check_methods(cls)
    return value


def _own_bases(cls: type) -> Iterator[type]:
    """Yield a class and those of its bases whose calls Python code of ours takes."""
    # A Struct takes its arguments in C, and a Protocol is for users to follow.
    if getattr(cls, "_is_protocol", False):
        return
    yield from (one for one in cls.__mro__ if one.__module__.startswith("callboard.") and one not in _done)


def _check_methods(cls: type) -> None:
    _done.add(cls)
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and (name == "__init__" or name[0] != "_"):
            setattr(cls, name, _checked(member, "" if name == "__init__" else f"{cls.__name__}.{name}"))
        elif name == "__new__" and issubclass(cls, tuple):
            cls.__new__ = _checked(member.__func__, cls.__name__)  # type: ignore[method-assign, assignment]  # of a NamedTuple


def _checked(function: FunctionType, label: str) -> Callable[..., object]:
    """Return a function with the check. label: as users write it, empty for a constructor."""
    known = known_names(function)
    if not known:
        return function
    accepts = frozenset(known).issuperset

    @functools.wraps(function)
    def call(*args: object, **named: object) -> Any:
        if named and not accepts(named):
            called = label or type(args[0]).__name__  # a constructor may be inherited
            raise unknown_argument(called, next(name for name in named if name not in known), known)
        return function(*args, **named)

    if inspect.iscoroutinefunction(function):
        _mark_as_coroutine_function(call)
    return call


def known_names(function: FunctionType) -> dict[str, None]:
    """Return the keyword arguments of a function, in their order; nothing if it takes any, or has none."""
    code, names = function.__code__, {}
    last = code.co_argcount + code.co_kwonlyargcount
    names = dict.fromkeys(code.co_varnames[code.co_posonlyargcount : last])
    names.pop("self", None)
    names.pop("_cls", None)  # as a NamedTuple calls it
    if code.co_flags & _HAS_OPTIONS:
        place = last + bool(code.co_flags & inspect.CO_VARARGS)
        (options,) = get_args(function.__annotations__.get(code.co_varnames[place])) or (None,)
        fields = getattr(get_origin(options) or options, "__annotations__", None)
        if fields is None:  # not `**options: Unpack[...]`
            return {}
        names |= dict.fromkeys(fields)
    return names


def _mark_as_coroutine_function(call: Callable[..., object]) -> None:
    """Let `iscoroutinefunction`, and so the mocks of tests, take a wrapper for an async function."""
    mark = getattr(inspect, "markcoroutinefunction", None)
    if mark is not None:  # from 3.12 on
        mark(call)
        return
    from asyncio import coroutines

    call._is_coroutine = coroutines._is_coroutine  # type: ignore[attr-defined]  # the mark of 3.11
