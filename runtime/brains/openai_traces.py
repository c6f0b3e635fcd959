"""No traces of a brain: the framework sends them to its vendor, and `trace()` in a tool begins one, too.

`RunConfig(tracing_disabled=True)` silences the runner alone. So the methods of the framework's provider that
create traces and spans are wrapped, once in a process: inside a brain they create empty ones.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

from agents.tracing.provider import DefaultTraceProvider

from callboard.runtime.brains.common import during

_UNTRACED: Final[ContextVar[bool]] = ContextVar("callboard_untraced", default=False)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Send no traces of the code within."""
    _wrap_provider()
    with during(_UNTRACED, True):
        yield


@functools.cache
def _wrap_provider() -> None:
    for name in ("create_trace", "create_span"):
        setattr(DefaultTraceProvider, name, _silent(getattr(DefaultTraceProvider, name)))


def _silent(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create(provider: object, *args: object, **options: object) -> Any:
        return original(provider, *args, **(options | ({"disabled": True} if _UNTRACED.get() else {})))

    return create
