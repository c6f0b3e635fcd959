"""The tools of the agents: read-only looks at one folder. files, without: regular expressions of paths."""

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice, takewhile, tee
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from callboard.actors.protocol.errors import FileError
from callboard.demo.inquiry import Branch, Census, PythonFile, Setting
from callboard.demo.sources import printable, python_file, settings_of
from callboard.runtime.files.files import Files

T = TypeVar("T")

PACKAGES: Final = r"(^|/)(pyproject\.toml|setup\.(cfg|py)|Pipfile)$"
MANIFESTS: Final = PACKAGES + r"|(^|/)((tox|\.?pytest)\.ini|.*requirements([^/]*|/[^/]+)\.txt)$"
SAMPLES: Final = r"(^|/)((__)?fixtures?(__)?|test[_-]?data|samples?|templates?|tests?/(data|examples))/"
"""Files that tests read: they look like a project, and are not this one."""

ASIDE: Final = SAMPLES + (
    r"|(^|/)\.|(^|/)(?i:tests?|testing|specs?|e2e|examples?|demos?|docs?|docs_src|bench(mark)?(es|s)?|perf|fuzz"
    r"|scripts?|tools?|tooling|ci|hack|misc|contrib|extras|etc|dev|packaging|utils?|migrations)/"
)
"""Files that serve the authors of a project: tests, documents, scripts."""

_CODE: Final = """Python py pyi pyx|Shell sh bash zsh bats|JavaScript js jsx mjs cjs vue|PHP php|Lua lua
TypeScript ts tsx mts cts|Go go|Rust rs|Java java|Kotlin kt kts|Scala scala|Groovy groovy|Clojure clj cljs
C c h m|C++ cc cpp cxx hpp hh hxx|C# cs|F# fs|Ruby rb rake gemspec|Elixir ex exs|Erlang erl hrl|Haskell hs
OCaml ml mli|Swift swift|Dart dart|Perl pl pm t|SQL sql|Julia jl|Zig zig|Nim nim|PowerShell ps1 psm1|R r"""
_OTHER: Final = """HTML html htm|CSS css scss sass less|Markdown md|reStructuredText rst|Text txt|TOML toml
YAML yml yaml|JSON json jsonl|XML xml svg|INI ini cfg|CSV csv tsv|Notebook ipynb|CMake cmake"""
ANSWER_CHARS_MAX: Final = 45_000
"""Below the default of `Limits.max_tool_output_chars`, so that an answer reaches the model whole."""
SCAN_BYTES_MAX: Final = 128_000_000
ENTRIES_MAX: Final = 100_000
DEPTH_MAX: Final = 64
FILE_BYTES_MAX: Final = 4_000_000

_SKIPPED: Final = re.compile(
    r"\.(git|hg|svn|venv|eggs|yarn|[a-z]+_cache|cache|hypothesis|tox|nox|gradle|idea|next|build)|__pycache__|_build"
    r"|node_modules|(site|dist)-packages|third[_-]?party|3rdparty|_vendor|vendored|htmlcov|.*\.(egg|dist)-info"
)
_GENERATED_IF_INSIDE: Final = {"pyvenv.cfg", "conda-meta", "CACHEDIR.TAG", "CMakeCache.txt"}
_GENERATED_UNLESS_PACKAGE: Final = {"build", "dist", "target", "vendor"}
_ROWS: Final = [row.split() for row in re.split(r"[|\n]", f"{_CODE}\n{_OTHER}")]
_BY_ENDING: Final = {ending: language for language, *endings in _ROWS for ending in endings}
_PROGRAMS: Final = {row.split()[0] for row in re.split(r"[|\n]", _CODE)}


def language_of(path: str) -> str:
    """Return the language of a file by its name, or `other`."""
    stem, _, ending = path.rpartition("/")[2].rpartition(".")
    return _BY_ENDING.get(ending.lower(), "other") if stem else "other"


class Place(NamedTuple):
    """A file of the tree. path: printable and unique. raw: as the system has it."""

    path: str
    raw: str
    bytes: int


class Folder:
    """A folder and the files below it, the shallowest first. Raises OSError if it cannot be read."""

    def __init__(self, root: str | Path) -> None:
        self._root = os.path.realpath(root)
        os.scandir(self._root).close()  # os.walk is silent about a root that cannot be read
        self._files = Files(self._root, hard_links=True)  # package managers make such links
        self.is_cut = False
        self.places = sorted(self._walk(), key=lambda place: (place.raw.count("/"), place.raw))

    def tools(self) -> dict[str, Callable[..., object]]:
        """Return the tools by name."""
        own = (self.list_folders, self.count_code, self.parse_python, self.read_config)
        return {function.__name__: function for function in own}

    def list_folders(self, depth: int = 2) -> Sequence[Branch]:
        """List the folders with files, down to a depth, the shallowest first."""
        paths = [place.path for place in self.places]
        own = Counter(map(os.path.dirname, paths))
        below = Counter(path[:end] for path in paths for end, char in enumerate(path) if char == "/")
        found = [Branch(path, files, own[path]) for path, files in below.items() if path.count("/") < depth]
        return fitting(sorted(found, key=lambda branch: (branch.path.count("/"), branch.path)))

    def count_code(self, files: str = "", without: str = "$.", lines: bool = False) -> Census:
        """Count files by language, and with `lines` their lines too."""
        texts = list(self._texts(files, without, is_read=lines))
        counted = sum(text.count("\n") + (text[-1:] not in ("", "\n")) for _, text, _ in texts)
        languages = dict(Counter(language_of(path) for path, _, _ in texts).most_common())
        programs = tuple(name for name in languages if name in _PROGRAMS)
        is_foreign = programs[:1] not in ((), ("Python",))
        return Census(len(texts), counted, languages, programs, is_foreign, self.is_cut, is_counted=True)

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
        return fitting(setting for each in self._texts(files, without) for setting in settings_of(*each))

    def read(self, place: Place) -> str:
        """Return the text of a file. Raises ValueError with a sentence that says why not."""
        if place.bytes > FILE_BYTES_MAX:
            raise ValueError(f"{place.path} is too large: {place.bytes:,} bytes.")
        if not place.bytes:  # Linux makes up files of size 0, and some of them block
            return ""
        try:
            return self._files.read(place.raw, max_bytes=FILE_BYTES_MAX).text.replace("\r\n", "\n")
        except FileError as error:
            why = (
                "is binary"
                if error.reason == "binary"
                else f"cannot be read: {str(error).rpartition(': ')[2]}"
            )
            raise ValueError(f"{place.path} {why}.") from None

    def _texts(self, files: str, without: str, is_read: bool = True) -> Iterator[tuple[str, str, str]]:
        """Yield the path of each file with its text, or with a sentence that says why it was not read."""
        left = SCAN_BYTES_MAX
        for place in self.places:
            if re.search(files, place.path) and not re.search(without, place.path):
                left -= place.bytes if is_read else 0
                try:
                    text = self.read(place) if is_read and left > 0 else ""
                    yield place.path, text, "" if left > 0 else f"{place.path}: enough was read before."
                except ValueError as error:
                    yield place.path, "", str(error)

    def _walk(self) -> Iterator[Place]:
        left = ENTRIES_MAX
        for above, folders, files in os.walk(self._root):
            prefix = os.path.relpath(above, self._root) + "/" if above != self._root else ""
            names = {*folders, *files}
            is_package = "__init__.py" in names or Path(above).name not in _GENERATED_UNLESS_PACKAGE
            is_own = is_package and _GENERATED_IF_INSIDE.isdisjoint(names)
            is_beyond = left <= 0 or prefix.count("/") >= DEPTH_MAX
            self.is_cut |= is_beyond
            left -= len(names)
            if is_beyond or (prefix and not is_own):
                folders.clear()  # os.walk goes on with the folders that are left
                continue
            folders[:] = sorted(name for name in folders if not _SKIPPED.fullmatch(name))
            for name in files:
                info = os.lstat(f"{above}/{name}")
                if stat.S_ISREG(info.st_mode):
                    path = printable((prefix + name).replace("\\", "\\\\"))
                    yield Place(path, prefix + name, info.st_size)


def fitting(items: Iterable[T]) -> tuple[T, ...]:
    """Return the first items, as many as one answer has room for. The others are not even made."""
    told, measured = tee(items)
    sizes = accumulate(len(msgspec.json.encode(item).decode()) + 1 for item in measured)
    fits = takewhile(lambda each: each[1] < ANSWER_CHARS_MAX - 1_000, zip(told, sizes, strict=True))
    return tuple(item for item, _ in fits)
