"""The place of the control socket of a log, and the check that a file there is ours.

The socket stands beside the log as `<log>.sock`. If that path is too long for a socket, or the file system
takes none, it stands in a folder of the user: `callboard` in $XDG_RUNTIME_DIR, or else `callboard-UID` in the
folder for temporary files. The lock file of the log names it.
"""

import hashlib
import os
import socket
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

from callboard.actors.protocol.errors import StoreFailed

PATH_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
"""The bytes of `sun_path` without its NUL: unix(7) of Linux, and that of macOS and the BSDs."""

HAS_SOCKETS: Final = hasattr(socket, "AF_UNIX") and hasattr(os, "geteuid")
"""True where Python has sockets that stand in a folder and belong to a user: not on Windows."""


def places_of(log: Path) -> list[Path]:
    """Return the places where the socket of a log may stand, the best first. log: its resolved path."""
    beside = log.with_name(log.name + ".sock")
    name = hashlib.blake2b(os.fsencode(log), digest_size=12).hexdigest()
    places = (beside, _user_folder() / f"{name}.sock")
    return [place for place in places if len(os.fsencode(place)) <= PATH_BYTES_MAX]


def _user_folder() -> Path:
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and runtime.is_dir():
        return runtime / "callboard"
    return Path(tempfile.gettempdir()) / f"callboard-{os.geteuid()}"


def bound_socket(log: Path) -> tuple[socket.socket, Path]:
    """Return a socket that only this user can connect to, and its place. The caller owns the log.

    Raises StoreFailed where no socket can stand, and leaves files alone that are not ours.
    """
    refusals: list[str] = []
    for place in places_of(log):
        try:
            _make_room(log, place)
            return _bound(place), place
        except OSError as error:
            refusals.append(f"{place}: {error.strerror or error}")
        except StoreFailed as error:
            refusals.append(str(error))
    raise StoreFailed(f"{log}: no control socket can stand beside it ({'; '.join(refusals)})")


def _make_room(log: Path, place: Path) -> None:
    """Make the user's own folder, and remove the socket that a dead owner left there."""
    if place.parent != log.parent:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        refuse_foreign_folder(place.parent)
    if os.path.lexists(place):
        refuse_foreign(place)
        place.unlink()  # its owner is dead, or has lost the log to us: we hold the lock


def _bound(place: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.bind(os.fspath(place))
        place.chmod(0o600)  # before it listens: until then every connection is refused
    except BaseException:
        made.close()
        raise
    return made


def refuse_foreign(place: Path) -> None:
    """Refuse a file that is not a socket of this user. Raises StoreFailed, and OSError for a missing file."""
    found = place.lstat()
    if not stat.S_ISSOCK(found.st_mode):
        raise StoreFailed(f"{place} is not a socket; it is left alone: move it away")
    if found.st_uid != os.geteuid():
        raise StoreFailed(f"{place} belongs to user {found.st_uid}; it is left alone: have it removed")


def refuse_foreign_folder(folder: Path) -> None:
    """Refuse a folder that others could write to. Raises StoreFailed."""
    found = folder.lstat()
    is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not is_private or found.st_uid != os.geteuid():
        raise StoreFailed(f"{folder} is not a private folder of this user; it is left alone")


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the other end belongs to this user, where the system tells; else True."""
    # Without SO_PEERCRED (macOS) the permissions of the socket file are the only guard.
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.geteuid()
