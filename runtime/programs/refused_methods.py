"""The methods of an event loop that a program's loop does not have, and what to write instead."""

from typing import Final

from callboard.actors.protocol.errors import MisuseError

IO: Final = "network or files"
_LACKING: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("executor",), "threads"),
    (("threadsafe",), "calls from other threads"),
    (("subprocess",), "subprocesses"),
    (("signal",), "signals"),
    (("run_", "stop", "close", "shutdown"), "way to run or end its loop"),
    (("debug", "factory", "exception_handler"), "settings of its loop"),
)


def lacking(name: str) -> str:
    """Return what a program does not have that this method is for."""
    return next((what for parts, what in _LACKING if any(part in name for part in parts)), IO)


def refusal_of(name: str) -> MisuseError:
    """Return the error of a call of this method."""
    return MisuseError(
        f"{name}: a program has no {lacking(name)}, so that it can be executed again; "
        "write a @tool that does this work, and await ctx.call(tool, ...)"
    )
