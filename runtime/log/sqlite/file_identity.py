"""The files behind a log's path, so that a commit to a file that was taken away is not acknowledged."""

import os
from pathlib import Path

from callboard.actors.protocol.errors import StoreFailed


class FileIdentity:
    """The database and its WAL as they are when the log is opened.

    SQLite goes on writing to a file that was removed or replaced: its name is not asked again.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._wal = f"{path}-wal"
        self._found = self._find()
        self._is_lost = False

    def check(self) -> None:
        """Raise StoreFailed if one of the paths has another file now, and from then on always."""
        if self._is_lost or self._found is None or self._find() != self._found:
            self._is_lost = True
            raise StoreFailed(
                f"{self._path} or its WAL was removed, replaced or moved while it was open: nothing more is "
                f"stored in it. Put the files back if you have them, open the log again, then resume"
            )

    def check_again(self) -> None:
        """Raise StoreFailed if `check` has raised before. Asks no file system."""
        if self._is_lost:
            self.check()

    def _find(self) -> tuple[int, int, int, int] | None:
        try:
            database, wal = os.stat(self._path), os.stat(self._wal)  # noqa: PTH116  (half the time of Path.stat)
        except OSError:
            return None
        return (database.st_dev, database.st_ino, wal.st_dev, wal.st_ino)
