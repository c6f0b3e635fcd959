"""The files of a session that has none."""

from typing import Final

from callboard.actors.protocol.errors import MisuseError


class _NoFiles:
    """Stands for the files of a session that has none."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # asked by inspect and others, which expect this error
            raise AttributeError(name)
        raise MisuseError(
            "this session has no files: pass Runtime(files=...), or ToolContext(files=...) in a test"
        )


NO_FILES: Final = _NoFiles()
