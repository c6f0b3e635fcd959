"""The keys of a log: files that an option or an environment variable names, never words on a command line.

A key is what its file holds; the line end of a text file (`openssl rand -hex 32 > key`) is not part of it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from callboard.cli.errors import misused, not_found
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.protocol import EventLog

F = TypeVar("F", bound=Callable[..., Any])

KEY_FILE: Final = "CALLBOARD_KEY_FILE"
ENCRYPTION_KEY_FILE: Final = "CALLBOARD_ENCRYPTION_KEY_FILE"
_BYTES_MAX: Final = 4_096


def key_options(function: F) -> F:
    """`--key-file FILE` and `--encryption-key-file FILE`, which `log_keys` then finds."""
    for name, variable, what in (
        ("--encryption-key-file", ENCRYPTION_KEY_FILE, "The key that the log is encrypted with."),
        ("--key-file", KEY_FILE, "The key that the log's digests were made with."),
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
    """The digest key and the encryption key of this command; None for one that nobody named."""
    return _key(KEY_FILE), _key(ENCRYPTION_KEY_FILE)


def keyed_log(path: str) -> EventLog | str:
    """The log to write, with its keys if there are any; else the path as it is."""
    key, encryption_key = log_keys()
    if key is None and encryption_key is None:
        return path
    return open_log(path, key=key, encryption_key=encryption_key)


def read_key(name: str) -> bytes:
    """The key that a file holds. Fails if it cannot be read, is empty, or is no key by its size."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise not_found(f"the key file {name} cannot be read: {error.strerror}") from None
    if all(byte in b"\r\n" or 32 <= byte < 127 for byte in content):
        content = content.rstrip(b"\r\n")
    if not 0 < len(content) <= _BYTES_MAX:
        raise misused(f"the key file {name} is {'too large' if content else 'empty'}: it holds no key")
    return content


def _remember(context: click.Context, parameter: click.Parameter, name: str) -> None:
    context.meta[f"callboard.{parameter.name}"] = name


def _key(variable: str) -> bytes | None:
    """From the option, or, for commands that have none, from the environment."""
    context = click.get_current_context(silent=True)
    option = variable.removeprefix("CALLBOARD_").lower()
    name = context.meta.get(f"callboard.{option}") if context else None
    name = os.environ.get(variable, "") if name is None else name
    return read_key(name) if name else None
