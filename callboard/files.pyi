# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.protocol.file_versions import FileVersion as FileVersion
from callboard.actors.session.file_history import Gap as Gap
from callboard.actors.session.file_history import Recorded as Recorded
from callboard.replay.folders import files_of as files_of
from callboard.runtime.files.restoring import Restored as Restored
from callboard.runtime.files.restoring import restore as restore
from callboard.runtime.log.recorded_files import RecordedFiles as RecordedFiles

__all__ = [
    "FileVersion",
    "Gap",
    "Recorded",
    "RecordedFiles",
    "Restored",
    "files_of",
    "restore",
]
