"""The tools of the demonstration's agents: plain functions about one folder, read-only and bounded.

Every answer is a struct of `callboard.demo.facts`; its JSON stays below `bounds.ANSWER_CHARS_MAX` characters.
Paths are relative to the folder, with `/`; names that cannot be printed come escaped (`names.shown`) and may
be given back as they came. What goes wrong is an ordinary exception with a sentence for the model.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from callboard.demo.bounds import fitting, some_skipped
from callboard.demo.config_files import CONFIG_BYTES_MAX, settings_of
from callboard.demo.facts import (
    Census,
    Found,
    FoundFiles,
    LanguageCount,
    Listed,
    Listing,
    Matches,
    PythonFacts,
    Settings,
    Skipped,
    TextPart,
)
from callboard.demo.folder import Folder, Place
from callboard.demo.languages import language_of
from callboard.demo.patterns import any_glob
from callboard.demo.python_source import PARSED_BYTES_MAX, python_facts
from callboard.demo.searching import FILE_BYTES_MAX, search_files
from callboard.demo.texts import is_binary, lines_in, safe_text

ENTRIES_MAX: Final = 200
PATTERNS_MAX: Final = 60
HITS_MAX: Final = 120
"""Lines that one search shows, all patterns together."""

TEXT_BYTES_MAX: Final = 20_000
PATHS_CHARS_MAX: Final = 20_000


class FolderTools:
    """The tools, bound to a folder."""

    def __init__(self, root: str | Path | Folder) -> None:
        self._folder = root if isinstance(root, Folder) else Folder(root)

    def all(self) -> dict[str, Callable[..., object]]:
        """The tools by name."""
        return {name: getattr(self, name) for name in TOOL_NAMES}

    def list_files(self, path: str = ".") -> Listing:
        """List a folder's own entries: folders with how many files are below them, files with their sizes.

        Links, FIFOs and devices are listed but never followed or opened. Version control, installed packages,
        caches and build output are not looked into; they are named under `skipped`.
        """
        place = self._folder.at(path)
        if place.kind != "folder":
            raise NotADirectoryError(f"{path} is no folder but a {place.kind}.")
        prefix = f"{place.raw}/" if place.raw else ""
        own: list[Place] = []
        below: Counter[str] = Counter()
        for found in self._folder.below(path):
            child, _, rest = found.raw[len(prefix) :].partition("/")
            if not rest:
                own.append(found)
            elif found.kind == "file":
                below[prefix + child] += 1
        own.sort(key=lambda item: item.kind != "folder")
        listed = [Listed(item.shown, item.kind, item.bytes, below[item.raw]) for item in own]
        few = fitting(listed[:ENTRIES_MAX], lambda item: item.path, PATHS_CHARS_MAX)
        all_skipped = self._folder.skipped_below(path)
        skipped = [skip for skip in all_skipped if skip.path.count("/") == prefix.count("/")]
        return Listing(
            place.shown, few, len(listed) - len(few), *some_skipped(skipped), self._folder.index.is_cut
        )

    def find_files(self, patterns: list[str], path: str = ".", limit: int = 10) -> Found:
        """Find files by glob, e.g. `*.py`, `{setup,tox}.cfg`, `**/tests/**/*.js`.

        A glob without a slash is about a file's name, one with a slash about its whole path. For each glob:
        how many files match, and the first of them, the shallowest first.
        """
        _check_count("patterns", patterns)
        globs = [(pattern, any_glob((pattern,))) for pattern in patterns]
        union = any_glob(patterns)
        matching: dict[str, list[str]] = {pattern: [] for pattern in patterns}
        for place in self._folder.below(path):
            name = place.shown.encode()
            if place.kind == "file" and union.search(name):
                for pattern, compiled in globs:
                    if compiled.search(name):
                        matching[pattern].append(place.shown)
        share = PATHS_CHARS_MAX // max(1, sum(map(bool, matching.values())))
        answers = [
            FoundFiles(glob, len(paths), fitting(paths[: max(1, limit)], str, share))
            for glob, paths in matching.items()
        ]
        return Found(tuple(answers), self._folder.index.is_cut)

    def count_code(self, path: str = ".", recursive: bool = True, lines: bool = False) -> Census:
        """Count files by language, the language with the most files first; with `lines`, their lines too.

        Not recursive: only the folder's own files.
        """
        place = self._folder.at(path)
        depth = place.raw.count("/") + bool(place.raw)
        places = [p for p in self._folder.below(path) if recursive or p.raw.count("/") == depth]
        files = [p for p in places if p.kind == "file"]
        counted, binary, unread = self._lines(files) if lines else (Counter(), 0, [])
        skipped, skipped_more = some_skipped(unread + self._folder.skipped_below(path))
        groups: defaultdict[str, list[Place]] = defaultdict(list)
        for item in files:
            groups[language_of(item.shown)].append(item)
        unknown = groups.pop("", [])
        languages = [
            LanguageCount(name, len(group), sum(p.bytes for p in group), counted[name])
            for name, group in groups.items()
        ]
        languages.sort(key=lambda each: (-each.files, -each.bytes, each.language))
        kinds = Counter(p.kind for p in places)
        return Census(
            path=place.shown,
            files=len(files),
            folders=kinds["folder"],
            languages=tuple(languages),
            unknown=len(unknown),
            binary=binary,
            links=kinds["link"],
            others=kinds["other"],
            skipped=skipped,
            skipped_more=skipped_more,
            is_cut=self._folder.index.is_cut,
        )

    def _lines(self, files: Iterable[Place]) -> tuple[Counter[str], int, list[Skipped]]:
        """Lines by language, how many files are binary, and what was not read."""
        lines: Counter[str] = Counter()
        skipped: list[Skipped] = []
        binary = 0
        for place, data in self._folder.read_all(files, FILE_BYTES_MAX):
            if isinstance(data, str):
                skipped.append(Skipped(place.shown, data))
            elif is_binary(data):
                binary += 1
            else:
                lines[language_of(place.shown)] += lines_in(data)
        return lines, binary, skipped

    def read_text(self, path: str, start: int = 0, max_bytes: int = 8_000) -> TextPart:
        """Read part of a text file from a byte offset. `next_start` says where to read on; 0 at the end."""
        if start < 0 or max_bytes < 1:
            raise ValueError("start must be 0 or more, max_bytes 1 or more.")
        place = self._file(path)
        data = self._folder.read(place, start, min(max_bytes, TEXT_BYTES_MAX))
        if is_binary(data):
            raise ValueError(f"{path} is binary: it has zero bytes where text was expected.")
        end = start + len(data)
        return TextPart(place.shown, start, safe_text(data), place.bytes, end if end < place.bytes else 0)

    def search(
        self,
        patterns: list[str],
        files: list[str],
        path: str = ".",
        without: list[str] | None = None,
        limit: int = 5,
        per_file: int = 1,
    ) -> Matches:
        """Search files line by line for regular expressions (RE2: no look-around, no back references).

        `files` are globs as in find_files, `without` those of files to leave out. For each pattern: in how
        many files and on how many lines it matches, and the first `limit` lines, at most `per_file` of one
        file, the shallowest file first. Binary and huge files are named under `skipped`.
        """
        _check_count("patterns", patterns)
        _check_count("files", files)
        wanted, unwanted = any_glob(files), any_glob(without or [])
        names = ((place, place.shown.encode()) for place in self._folder.below(path))
        places = [place for place, name in names if wanted.search(name) and not unwanted.search(name)]
        hits_max = max(1, min(limit, HITS_MAX // len(patterns)))
        return search_files(self._folder, patterns, places, hits_max, max(1, per_file))

    def parse_python(self, path: str) -> PythonFacts:
        """Parse a Python file without running it: its docstring, imports, functions, classes and tests.

        A file that does not parse (another Python, a template) is read line by line instead, and `problem`
        says so.
        """
        place = self._file(path)
        data = self._folder.read(place, 0, PARSED_BYTES_MAX + 1)
        if is_binary(data):
            raise ValueError(f"{path} is binary, no Python source.")
        return python_facts(place.shown, data)

    def read_config(self, path: str, keys: list[str] | None = None) -> Settings:
        """Read the settings of a TOML, INI or JSON file, a setup.py (not run) or a Procfile.

        Keys are dotted, items of lists numbered: `project.scripts.name`, `dependencies.0`. `keys` names the
        ones wanted, each with all that is below it.
        """
        place = self._file(path)
        data = self._folder.read(place, 0, CONFIG_BYTES_MAX + 1)
        if is_binary(data):
            raise ValueError(f"{path} is binary, no settings.")
        return settings_of(place.shown, data, keys or [])

    def _file(self, path: str) -> Place:
        place = self._folder.at(path)
        if place.kind == "folder":
            raise IsADirectoryError(f"{path} is a folder; list_files lists it.")
        return place


TOOL_NAMES: Final = (
    "list_files",
    "find_files",
    "count_code",
    "read_text",
    "search",
    "parse_python",
    "read_config",
)


def _check_count(what: str, values: list[str]) -> None:
    if not 1 <= len(values) <= PATTERNS_MAX:
        raise ValueError(f"{what}: {len(values)} were given; 1 to {PATTERNS_MAX} are taken at once.")
