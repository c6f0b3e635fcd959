"""The files of recorded sessions: the folder as of an event, and putting it back."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "actors.protocol.file_versions": ("FileVersion",),
    "actors.session.file_history": ("Gap", "Recorded"),
    "replay.folders": ("files_of",),
    "runtime.files.restoring": ("Restored", "restore"),
    "runtime.log.recorded_files": ("RecordedFiles",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
