"""Patterns of keys that have a form of their own, and a quick test that shows for most text that it has none.

Words in capitals, passwords in addresses, 40 hexadecimal digits and values named `password` are not here: in
the source code and logs that agents read, those are rarely secrets, and a model that reads a changed file
makes mistakes. The patterns are those that issuers document, and those collected in
https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns.
"""

from typing import Final

# All keys, and most values, have so many characters of words and numbers in a row, or the mark.
RUN_CHARS: Final = 20
BLOCK_MARK: Final = b"-----BEGIN"
_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.:"

# Expressions of RE2 by name. If there is a group, only that part is the secret.
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
