"""The keys of a log, in files that an option or an environment variable names.

The key is the content of the file, without the line end of a text file (`openssl rand -hex 32 > key`). A key
on the command line itself would stand in the process list.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from callboard.cli.errors import misused, not_found
from callboard.runtime.log.protocol import EventLog

F = TypeVar("F", bound=Callable[..., Any])

KEY_FILE: Final = "CALLBOARD_KEY_FILE"
ENCRYPTION_KEY_FILE: Final = "CALLBOARD_ENCRYPTION_KEY_FILE"
_BYTES_MAX: Final = 4_096


def key_options(function: F) -> F:
    """Add `--key-file FILE` and `--encryption-key-file FILE`, which `log_keys` then finds."""
    for name, variable, what in (
        ("--encryption-key-file", ENCRYPTION_KEY_FILE, "The file with the log's encryption key."),
        ("--key-file", KEY_FILE, "The file with the key of the log's digests."),
    ):
        option = click.option(
            name,
            metavar="FILE",
            default="",
            envvar=variable,
            show_envvar=True,
            expose_value=False,
            callback=_remember,
            help=what,
        )
        function = option(function)
    return function


def log_keys() -> tuple[bytes | None, bytes | None]:
    """Return the digest key and the encryption key of this command; None for one that is not named."""
    return _key(KEY_FILE), _key(ENCRYPTION_KEY_FILE)


def keyed_log(path: str) -> EventLog | str:
    """Return the log to write with its keys, or the path itself if there are no keys."""
    from callboard.runtime.log.opening import open_log  # here: commands that only read need no asyncio

    key, encryption_key = log_keys()
    if key is None and encryption_key is None:
        return path
    return open_log(path, key=key, encryption_key=encryption_key)


def read_key(name: str) -> bytes:
    """Read the key in a file. Raises Failure for a file that is not readable, empty or too large."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise not_found(f"the key file {name} cannot be read: {error.strerror}") from None
    if all(byte in b"\r\n" or 32 <= byte < 127 for byte in content):
        content = content.rstrip(b"\r\n")
    if not 0 < len(content) <= _BYTES_MAX:
        wrong = f"too large (at most {_BYTES_MAX:,} bytes)" if content else "empty"
        raise misused(f"the key file {name} is {wrong}; name the file with the key")
    return content


def _remember(context: click.Context, parameter: click.Parameter, name: str) -> None:
    context.meta[f"callboard.{parameter.name}"] = name


def _key(variable: str) -> bytes | None:
    """Read the key that the option names; for commands without the option, the environment."""
    context = click.get_current_context(silent=True)
    option = variable.removeprefix("CALLBOARD_").lower()
    name = context.meta.get(f"callboard.{option}") if context else None
    name = os.environ.get(variable, "") if name is None else name
    return read_key(name) if name else None
