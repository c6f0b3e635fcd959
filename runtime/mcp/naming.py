"""Legal tool names for the names of a server, one for each.

A legal name stays, unless it is reserved or looks like an encoded one. Any other is encoded: its illegal
characters become `_`, it is cut, and a digest of the whole name follows. So two names never become one, and
a name does not depend on the other names of the list.
"""

import hashlib
import re
from typing import Final

from callboard.actors.protocol.prompts import RESERVED

_LEGAL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_ENCODED: Final = re.compile(r".*_[0-9a-f]{16}")
_KEPT_CHARS: Final = 47  # with `_` and 16 hexadecimal digits: 64


def legal_name(prefix: str, name: str) -> str:
    """Return the name by which models call a tool. prefix: legal, put before each name.

    >>> legal_name("", "read_file"), legal_name("fs_", "read_file")
    ('read_file', 'fs_read_file')
    >>> legal_name("", "notes/read.all")
    'notes_read_all_4e6e4dd1f9f07e7d'
    """
    whole = prefix + name
    if _LEGAL.fullmatch(whole) and whole not in RESERVED and not _ENCODED.fullmatch(whole):
        return whole
    digest = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{_ILLEGAL.sub('_', whole)[:_KEPT_CHARS]}_{digest}"
