"""The context of a tool call, made once it is asked for: few tools take one."""

import asyncio
from collections.abc import Callable

from callboard.runtime.tools.context import ToolContext


class LateContext:
    """The life of one call, and its context.

    made: the context if there is one by now. is_cancelled: True once the result is no longer wanted.
    make: makes the context, at most once. goes_on: of a function that may run on behind its answer; False
    once the function has ended.
    """

    __slots__ = ("_loop", "_make", "_timeout_s", "goes_on", "is_cancelled", "made")

    def __init__(self, make: Callable[[], ToolContext]) -> None:
        self.made: ToolContext | None = None
        self.is_cancelled = False
        self.goes_on: Callable[[], bool] | None = None
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> ToolContext:
        """Return the context of the call. The first use makes it."""
        if self.made is None:
            ctx = self._make()
            if self._loop is not None:
                ctx.begin(self._loop, self._timeout_s)
            if self.is_cancelled:
                ctx.cancel()
            self.made = ctx
        return self.made

    def begin(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        """Start the call on this loop. Call it on the loop's thread."""
        self._loop, self._timeout_s = loop, timeout_s
        if self.made is not None:
            self.made.begin(loop, timeout_s)

    def cancel(self) -> None:
        """Mark the result as no longer wanted."""
        self.is_cancelled = True
        if self.made is not None:
            self.made.cancel()

    def end(self) -> None:
        """End the call."""
        if self.made is not None:
            self.made.end()
