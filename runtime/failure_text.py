"""Exceptions as text. They come from users' code, where even `str(error)` can raise."""

import sysconfig
import traceback
from pathlib import Path
from typing import Final

_OWN: Final = (str(Path(__file__).parent.parent),)
_INSTALLED: Final = (*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), "<frozen")


def failure_text(error: BaseException) -> str:
    """Return the class and the message of an exception. Never raises.

    >>> failure_text(ValueError("wrong"))
    'ValueError: wrong'
    """
    name, message = type(error).__name__, text_of(error)
    return f"{name}: {message}" if message else name


def located_text(error: BaseException) -> str:
    """Return `failure_text` with the file, line and function of the user's code that raised. Never raises.

    Frames of callboard are passed over, and those of the standard library and of installed packages where
    others are left.
    """
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not _is_in(each, _OWN)]
    frames = [each for each in frames if not _is_in(each, _INSTALLED)] or frames
    if not frames:
        return failure_text(error)
    return (
        f"{failure_text(error)} ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})"
    )


def _is_in(frame: traceback.FrameSummary, folders: tuple[str, ...]) -> bool:
    return frame.filename.startswith(folders)


def text_of(value: object) -> str:
    """Return `str(value)`, or a sentence that says that there is no text. Never raises."""
    try:
        return str(value)
    except BaseException:  # SystemExit too: in a callback of the event loop it would end the loop
        return "its message cannot be read"
