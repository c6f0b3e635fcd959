"""References to secrets by name, and patterns of secrets.

A `SecretRef` holds the place of a value, never the value. It is read every time that a tool asks for it with
`ctx.secret("NAME")`, so it may change while a session runs.
"""

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import re2

from callboard.actors.protocol.errors import MisuseError, UnknownName

MIN_CHARS: Final = 6  # characters of the shortest secret: ordinary text would hold a shorter one by chance
MAX_CHARS: Final = 16_384  # characters of the longest secret: a private key has about 3,000
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_QUOTED: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[^Az]")
_ANCHOR: Final = re.compile(r"\^|\$|\\[Az]")


class SecretRef:
    """The place of a secret: by default, the environment variable of this name.

    name: letters, digits, `_`, `.` and `-`; it stands in the log where the value would. env: another
    variable. file: a file with the value and nothing else; white space around it does not count. get: a
    function that gives it, called only when a tool asks, on the thread of that tool. The values of variables
    and files are known to the runtime from its start, those of functions from their first use on.

    Raises MisuseError for a name that cannot stand in the log, or for two places.

    >>> SecretRef("GITHUB_TOKEN")
    SecretRef('GITHUB_TOKEN')
    """

    __slots__ = ("_get", "is_early", "name")

    def __init__(
        self,
        name: str,
        *,
        env: str = "",
        file: str | Path | None = None,
        get: Callable[[], str] | None = None,
    ) -> None:
        if sum((bool(env), file is not None, get is not None)) > 1:
            raise MisuseError(f"secret {checked_secret_name(name)}: give one of env, file and get")
        self.name = checked_secret_name(name)
        self.is_early = get is None
        self._get = get or partial(_read, env or name, file)

    def __repr__(self) -> str:
        return f"SecretRef({self.name!r})"

    def resolve(self) -> str:
        """Return the value. Raises UnknownName if it cannot be read, MisuseError for a wrong length."""
        try:
            value = self._get()
        except Exception as error:  # its message may hold the value
            raise UnknownName(
                f"the secret {self.name} cannot be read ({type(error).__name__}); set it where it is expected"
            ) from None
        return checked_value(self.name, value)


class SecretPattern:
    """A pattern of text that is kept out of the log.

    name: stands in the log instead. pattern: a regular expression as RE2 has them
    (https://github.com/google/re2/wiki/Syntax); if it has a group, only that part is taken out.

    Raises MisuseError for an expression that RE2 cannot use, that matches the empty text, or that is tied to
    the start or end of a text: the searched text may be part of a longer one.

    >>> SecretPattern("employee", r"EMP-[0-9]{6}")
    SecretPattern('employee')
    """

    def __init__(self, name: str, pattern: str) -> None:
        self.name = checked_secret_name(name)
        self.regexp = compiled(name, pattern)
        if _ANCHOR.search(_QUOTED.sub("", pattern)):
            raise MisuseError(
                f"secret {name}: leave out ^, $, \\A and \\z; a secret may stand anywhere in a text"
            )

    def __repr__(self) -> str:
        return f"SecretPattern({self.name!r})"


def checked_secret_name(name: object) -> str:
    """Return a name that can stand in the log. Raises MisuseError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MisuseError(
            "a secret's name has 1 to 64 letters, digits, '_', '.' and '-'; it is shown, the value is not"
        )
    return name


def checked_value(name: str, value: object) -> str:
    """Return a value that can be searched for. Raises MisuseError, whose message never shows it."""
    if not isinstance(value, str):
        raise MisuseError(f"the secret {name} is text, not {type(value).__name__}")
    if not len(value.strip()) >= MIN_CHARS or len(value) > MAX_CHARS:
        raise MisuseError(
            f"the secret {name} has {len(value)} characters; one that differs from ordinary text has "
            f"{MIN_CHARS} to {MAX_CHARS:,}"
        )
    return value


def compiled(name: str, pattern: str) -> "re2._Regexp":
    """Compile an expression with RE2, which is linear in every text. Raises MisuseError."""
    options = re2.Options()
    options.log_errors = False
    try:
        regexp = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError, TypeError) as error:
        said = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else error
        raise MisuseError(f"secret {name}: RE2 cannot use this regular expression: {said}") from None
    if regexp.search(b"") is not None or regexp.groups > 1:
        raise MisuseError(f"secret {name}: a pattern matches no empty text, and has at most one group")
    return regexp


def _read(variable: str, file: str | Path | None) -> str:
    return os.environ[variable] if file is None else Path(file).read_text(encoding="utf-8").strip()
