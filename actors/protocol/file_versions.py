"""The versions of files that the answer to a tool call names: those that the call wrote, and those it found.

Rules
  - A version is named by the digest of its bytes, never by its place on a machine. Its bytes stand in
    `ToolReturned.contents`, each once in a session, and no decider reads them.
  - The first version of a path is the one that was found, which may be that there was no such file. So the
    folder is also known as of each event before.
  - A version that is left out of the log has a reason for it, and is never put back.
"""

from typing import Literal, TypeAlias

from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.near_names import NamedFields

LeftOut: TypeAlias = Literal["", "secret", "large", "full", "unread"]
"""The reason why the log has no bytes of a version; empty if it has them, or there are none.

`secret`: they hold one. `large`: a file has more bytes than are kept. `full`: the history of the session is
at its limit. `unread`: nobody read them before they were gone.
"""


class FileVersion(Value, frozen=True, metaclass=NamedFields):
    """A version of one file. path: from the root. digest: SHA-256 of its bytes in hex, empty for no file.

    left_out: the reason why the log does not have its bytes. `large` and `unread` ones have no digest.
    is_found: it was there before the call wrote, and the log did not know it. is_late: another call had
    written the file by then, and its version is in the log already. differences: the number of steps from a
    whole version to this one in the log, 0 if it is stored whole.
    """

    path: str
    digest: str = ""
    bytes: int = 0
    left_out: LeftOut = ""
    is_found: bool = False
    is_late: bool = False
    is_executable: bool = False
    differences: int = 0

    @property
    def is_there(self) -> bool:
        """Return False if there was no such file."""
        return bool(self.digest or self.left_out)

    @property
    def state(self) -> "tuple[str, int, bool]":
        """Return what tells two versions of a file apart: digest, size and permission."""
        return self.digest or self.left_out, self.bytes, self.is_executable
