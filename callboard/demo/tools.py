"""The tools of the agents: functions that look at one folder, read-only, with bounded answers.

files, without: regular expressions of the paths to look at and to leave out.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from callboard.demo.config_files import settings_of
from callboard.demo.facts import Census, Entry, PythonFile, Setting
from callboard.demo.folder import Folder
from callboard.demo.paths import language_of
from callboard.demo.python_source import python_file

T = TypeVar("T")

ANSWER_CHARS_MAX: Final = 45_000
"""Below the default of `Limits.max_tool_output_chars`, so that an answer reaches the model whole."""
SCAN_BYTES_MAX: Final = 128_000_000


class FolderTools:
    """The tools, bound to a folder. Raises OSError for one that cannot be read."""

    def __init__(self, root: str | Path) -> None:
        self._folder = Folder(root)

    def all(self) -> dict[str, Callable[..., object]]:
        """Return the tools by name."""
        own = (self.list_files, self.count_code, self.parse_python, self.read_config)
        return {function.__name__: function for function in own}

    def list_files(self, path: str = ".") -> Sequence[Entry]:
        """List the entries of a folder. Links are never followed."""
        places = self._folder.places
        if path != "." and (path, "folder") not in {(place.path, place.kind) for place in places}:
            raise NotADirectoryError(f"{path} is not a folder in here: list the folder above it.")
        prefix = "" if path == "." else f"{path}/"
        below = [place for place in places if place.path.startswith(prefix)]
        depth = prefix.count("/")
        files = Counter("/".join(p.path.split("/")[: depth + 1]) for p in below if p.kind == "file")
        inside = [place for place in below if place.path.count("/") == depth]
        return fitting([Entry(p.path, p.kind, files[p.path] * (p.kind == "folder")) for p in inside])

    def count_code(self, files: str = "", lines: bool = False) -> Census:
        """Count files by language, and with `lines` their lines too."""
        texts = list(self._texts(files, "$.", is_read=lines))
        counted = sum(text.count("\n") + (text[-1:] not in ("", "\n")) for _, text, _ in texts)
        languages = Counter(language_of(path) for path, _, _ in texts).most_common()
        return Census(len(texts), counted, dict(languages), self._folder.is_cut, is_counted=True)

    def parse_python(
        self, files: str, without: str = "$.", containing: str = "", limit: int = 80
    ) -> Sequence[PythonFile]:
        """Parse Python files without running them. containing: only those with a line that matches this."""
        wanted = re.compile(containing, re.MULTILINE)
        found = (each for each in self._texts(files, without) if each[2] or wanted.search(each[1]))
        parsed = [python_file(*each) for each in islice(found, limit + 1)]
        few = fitting(parsed[:limit])
        cut = PythonFile("", problem=f"the files after the first {len(few)}.")
        return few if len(few) == len(parsed) else (*few, cut)

    def read_config(self, files: str, without: str = "$.") -> Sequence[Setting]:
        """Read the settings of TOML and INI files, and of a setup.py without running it. Keys are dotted."""
        return fitting([setting for each in self._texts(files, without) for setting in settings_of(*each)])

    def _texts(self, files: str, without: str, is_read: bool = True) -> Iterator[tuple[str, str, str]]:
        """Yield the path of each file with its text, or with a sentence that says why it was not read."""
        left = SCAN_BYTES_MAX
        for place in self._folder.places:
            if place.kind == "file" and re.search(files, place.path) and not re.search(without, place.path):
                left -= place.bytes if is_read else 0
                try:
                    text = self._folder.read(place) if is_read and left > 0 else ""
                    yield place.path, text, "" if left > 0 else f"{place.path}: enough was read before."
                except (OSError, ValueError) as error:
                    yield place.path, "", str(error)


def fitting(items: Sequence[T]) -> tuple[T, ...]:
    """Return the first items, as many as one answer has room for."""
    sizes = accumulate(len(msgspec.json.encode(item).decode()) + 1 for item in items)
    return tuple(item for item, size in zip(items, sizes, strict=True) if size < ANSWER_CHARS_MAX - 1_000)
