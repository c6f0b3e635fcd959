"""References to secrets by name, and patterns of secrets: of users, and of keys with a form of their own.

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

# All keys, and most values, have so many characters of words and numbers in a row, or the mark.
RUN_CHARS: Final = 20
BLOCK_MARK: Final = b"-----BEGIN"
_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.:"

# Expressions of RE2 by name, as issuers document them, and those collected in
# https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns.
# Words in capitals, passwords in addresses, 40 hexadecimal digits and values named `password` are not here:
# in the source code and logs that agents read, those are rarely secrets, and a model that reads a changed
# file makes mistakes. If there is a group, only that part is the secret.
KEY_PATTERNS: Final[dict[str, str]] = {
    "anthropic-key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "openai-key": (
        r"\bsk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})"
    ),
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})",
    "gitlab-token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "aws-key-id": r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    "aws-secret-key": r"(?i:aws_?secret_?access_?key)[\"' \t]*[:=][\"' \t]*([A-Za-z0-9/+]{40})",
    "slack-token": r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{20,}",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows)/[A-Z0-9]+/[A-Z0-9]+/[A-Za-z0-9]{20,}",
    "stripe-key": r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{20,}",
    "google-key": r"\b(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,})",
    "huggingface-token": r"\bhf_[A-Za-z]{34}\b",
    "npm-token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi-token": r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "sendgrid-key": r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "digitalocean-token": r"\bdo[opr]_v1_[a-f0-9]{64}\b",
    "telegram-token": r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b",
    "azure-account-key": r"\bAccountKey=([A-Za-z0-9+/]{86}==)",
    "age-key": r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}\b",
    "json-web-token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "private-key": (
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\[nr])*[A-Za-z-]{1,40}: [^\n\\]{1,200})*"
        r"(?:[A-Za-z0-9+/=\s]|\\[nr]){60,}"
        r"(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
    ),
}
_RUN_TABLE: Final = bytes(0x61 if byte in _WORD else 0x20 for byte in range(256))
_RUN: Final = b"a" * RUN_CHARS


# RE2 releases the interpreter lock for every search. If the store's thread waits for it, each search wakes
# that thread in vain: a search of a message takes 0.9 us alone and 8 us then. This test keeps the lock and
# takes 0.3 us (160 bytes, CPython 3.11).
def may_hold_key(data: bytes) -> bool:
    """Return whether the text can hold a key: it has a run of such characters, or the mark.

    >>> may_hold_key(b"nothing to see here, nothing at all"), may_hold_key(b"key: AKIA" + b"X" * 16)
    (False, True)
    """
    # `find`, not `in`: for `in` CPython first tries the bytes as a number and drops the error.
    return data.translate(_RUN_TABLE).find(_RUN) >= 0 or data.find(BLOCK_MARK) >= 0


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
    """A pattern for text that is kept out of the log.

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
        raise MisuseError(
            f"secret {name}: a pattern must not match empty text, and may have at most one group"
        )
    return regexp


def _read(variable: str, file: str | Path | None) -> str:
    return os.environ[variable] if file is None else Path(file).read_text(encoding="utf-8").strip()
