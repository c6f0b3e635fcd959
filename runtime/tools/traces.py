"""Tracebacks of tools for the log: short, without secrets, without callboard's own frames."""

import traceback
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import ToolError
from callboard.runtime.sanitize import clean_text
from callboard.runtime.secrets.redactor import Redactor

TRACE_CHARS_MAX: Final = 4_000  # of a traceback in the log: its end, where the cause stands
_SEARCHED_CHARS: Final = 20 * TRACE_CHARS_MAX  # an exception's message may be as long as a file
_OWN: Final = str(Path(__file__).parent.parent)


def trace_of(error: BaseException, redactor: Redactor) -> str:
    """Return the end of an exception's traceback for people. Never raises.

    Empty for a `ToolError`: its author wrote all that there is to say.
    """
    if isinstance(error, ToolError):
        return ""
    try:
        told = traceback.TracebackException.from_exception(error, compact=True)
        _drop_own(told)
        text = "".join(told.format())
        return clean_text(redactor.text(text[-_SEARCHED_CHARS:])[-TRACE_CHARS_MAX:].strip())
    except Exception:  # an exception's own methods may raise anything
        return ""


def _drop_own(told: traceback.TracebackException | None) -> None:
    """Drop the frames of callboard from a traceback and from those of its causes. Shorten the others."""
    while told is not None:
        kept = [_short(frame) for frame in told.stack if not frame.filename.startswith(_OWN)]
        told.stack = traceback.StackSummary.from_list(kept)
        told = told.__cause__ or told.__context__


def _short(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """Return a frame without the folders above its package: a log is handed on, a user's name need not be."""
    where = "/".join(Path(frame.filename).parts[-2:])
    return traceback.FrameSummary(where, frame.lineno, frame.name, line=frame.line)
