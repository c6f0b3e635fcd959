"""Candidates for the entry point, from the tools' answers: by metadata, and by reading sources."""

import posixpath
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

import msgspec

from callboard.demo.aside import depth, is_aside, is_sample
from callboard.demo.entry_signs import (
    CONSOLE_SCRIPT,
    DOUBTFUL,
    GUI_SCRIPT,
    MAIN_MODULE,
    METADATA_FILES,
    METADATA_KEYS,
    SCRIPT,
    SOURCE_FILES,
    USUAL_NAMES,
    Key,
    Line,
)
from callboard.demo.facts import Found, Hit, Matches, Setting, Settings
from callboard.demo.inquiry import Question, Seen, ask

MANIFESTS_PER_KIND: Final = 4
HITS: Final = 30
ASIDE_GLOBS: Final = (
    "**/{test,tests,testing,testdata,docs,doc,examples,example,samples,fixtures,bench,benchmarks,demo,demos}/**",
    "{test_*,*_test,test,tests,runtests,run_tests,setup,noxfile,conftest,tasks,fabfile,dodo,versioneer}.py",
    "{*.config,Gruntfile,gulpfile}.{js,ts,mjs,cjs}",
    "{build,autogen,bootstrap,configure,release,deploy,publish,lint,format,clean,update,check,*test}*.{sh,bash}",
    "*_test.go",
)
"""Files that are no entry point even if they can be run."""

_TARGET: Final = re.compile(r"^\s*(?P<name>[^=\s]+)\s*=\s*(?P<target>[^\s#\[]+)")
_NO_PROGRAM: Final = re.compile(r"test|bench|example|sample|fuzz", re.IGNORECASE)
_SCRIPTS: Final = (CONSOLE_SCRIPT, GUI_SCRIPT)
FILE_KINDS: Final = ("npm command", "npm module", "composer command", SCRIPT)
"""What names a file, relative to where it is declared."""


class Place(msgspec.Struct, frozen=True):
    """Where an entry point is declared, or where it begins."""

    file: str
    line: int
    why: str


class Candidate(msgspec.Struct, frozen=True):
    """A possible entry point. target: the `module:function` or the file that it names, if any."""

    entry_point: str
    kind: str
    rank: int
    place: Place
    target: str = ""
    is_namesake: bool = False

    @property
    def order(self) -> tuple[int, int, bool, int, str]:
        """The best first: plain before doubtful, shallow before deep, then by name."""
        stem = self.place.file.rpartition("/")[2].partition(".")[0]
        usual = USUAL_NAMES.index(stem) if stem in USUAL_NAMES else len(USUAL_NAMES)
        return self.rank, depth(self.place.file), not self.is_namesake, usual, self.entry_point


# --- lines ------------------------------------------------------------------------


def globs_of(lines: tuple[Line, ...]) -> list[str]:
    """The globs of a table, each once."""
    return list(dict.fromkeys(line.files for line in lines))


def line_questions(lines: tuple[Line, ...], found: Found) -> list[Question]:
    """A search for each glob of the table that some file matches."""
    present = {glob.pattern for glob in found.patterns if glob.count}
    return [_search(files, list(group)) for files, group in _by_files(lines) if files in present]


def _by_files(lines: tuple[Line, ...]) -> Iterator[tuple[str, list[Line]]]:
    ordered = sorted(lines, key=lambda line: globs_of(lines).index(line.files))
    for files, group in groupby(ordered, lambda line: line.files):
        yield files, list(group)


def _search(files: str, lines: list[Line]) -> Question:
    patterns = [line.pattern for line in lines]
    return ask("search", patterns=patterns, files=[files], without=list(ASIDE_GLOBS), limit=HITS)


def _hits(seen: Seen, lines: tuple[Line, ...]) -> Iterator[tuple[Line, Hit]]:
    """The lines that were found, those of tests and the like aside."""
    for files, group in _by_files(lines):
        matches = seen.read(_search(files, group), Matches)
        for line, pattern in zip(group, matches.patterns if matches else (), strict=False):
            yield from ((line, hit) for hit in pattern.hits if not is_aside(hit.path))


# --- metadata ---------------------------------------------------------------------


def setting_questions(found: Found) -> list[Question]:
    """Which files to read as settings: the shallowest of each kind, none of tests and samples."""
    questions = []
    for glob in found.patterns:
        if glob.pattern in METADATA_FILES:
            own = [path for path in glob.paths if not is_aside(path)][:MANIFESTS_PER_KIND]
            keys = list(METADATA_FILES[glob.pattern])
            questions += [ask("read_config", path=path, keys=keys) for path in own]
    return questions


def by_settings(seen: Seen, found: Found) -> Iterator[Candidate]:
    """What the settings of packaging files declare."""
    for question in setting_questions(found):
        if settings := seen.read(question, Settings):
            yield from _in_settings(settings)


def _in_settings(settings: Settings) -> Iterator[Candidate]:
    file = settings.path.rpartition("/")[2]
    project = next((s.value for s in settings.settings if s.key in _NAME_KEYS), "")
    for setting in settings.settings:
        for key in METADATA_KEYS:
            match = re.search(key.pattern, setting.key) if key.file == file else None
            if match:
                name = match.groupdict().get("name") or ""
                yield from _declared(settings.path, setting, key, name, project)


_NAME_KEYS: Final = frozenset(("name", "project.name", "tool.poetry.name", "metadata.name", "package.name"))


def _declared(path: str, setting: Setting, key: Key, name: str, project: str) -> Iterator[Candidate]:
    """The entry points of one setting: one for each line of its value."""
    place = Place(path, setting.line, f"{setting.key} declares it")
    for line in filter(None, map(str.strip, setting.value.split("\n"))):
        if line not in ("{}", "[]"):
            command, target = _named(path, line, key, name or (project if key.kind == "npm command" else ""))
            told = f"{command} = {target}" if command else target
            is_namesake = bool(command) and _plain(command) == _plain(project)
            checked = target if key.kind in (*_SCRIPTS, *FILE_KINDS) else ""
            yield Candidate(told, key.kind, key.rank, place, checked, is_namesake)


def _named(path: str, line: str, key: Key, name: str) -> tuple[str, str]:
    """The command and what it runs; a file's path is made relative to the root."""
    if key.kind in FILE_KINDS:
        return name, posixpath.normpath(posixpath.join(posixpath.dirname(path), line))
    found = None if name else _TARGET.match(line)
    return (found["name"], found["target"]) if found and key.kind in _SCRIPTS else (name, line)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def by_metadata_lines(seen: Seen, lines: tuple[Line, ...]) -> Iterator[Candidate]:
    """What lines of other metadata declare."""
    for line, hit in _hits(seen, lines):
        match = re.search(line.pattern, hit.text)
        told = match[1].strip() if match and match.groups() and match[1] else hit.path
        if not _NO_PROGRAM.search(told):
            yield Candidate(told, line.kind, line.rank, Place(hit.path, hit.line, hit.text))


# --- sources ----------------------------------------------------------------------


def by_sources(seen: Seen, found: Found, lines: tuple[Line, ...]) -> Iterator[Candidate]:
    """What sources show: files that are run for their names, and lines that only programs have."""
    known: set[str] = set()
    for candidate in (*_by_names(found), *_by_lines(seen, lines)):
        if candidate.entry_point not in known:
            known.add(candidate.entry_point)
            yield candidate


def _by_names(found: Found) -> Iterator[Candidate]:
    for glob in found.patterns:
        kind, rank = SOURCE_FILES.get(glob.pattern, ("", 0))
        is_unfit = is_sample if kind == MAIN_MODULE else is_aside
        for path in glob.paths if kind else ():
            if not is_unfit(path):
                yield Candidate(path, kind, rank, Place(path, 0, "a file of this name is there to be run"))


def _by_lines(seen: Seen, lines: tuple[Line, ...]) -> Iterator[Candidate]:
    for line, hit in _hits(seen, lines):
        if hit.line == 1 or not hit.text.startswith("#!"):
            yield Candidate(hit.path, line.kind, _rank(line, hit), Place(hit.path, hit.line, hit.text))


def _rank(line: Line, hit: Hit) -> int:
    """A script in the root is meant to be run; one deep in a package may be a module that tests itself.

    A shell script may just as well serve the project's authors.
    """
    if line.kind != SCRIPT:
        return line.rank
    is_usual = hit.path.rpartition("/")[2].partition(".")[0] in USUAL_NAMES
    if "bin" in hit.path.split("/"):
        return line.rank - is_usual
    if hit.path.endswith((".sh", ".bash", ".pl")):
        return DOUBTFUL
    if depth(hit.path):
        return line.rank + 1 if is_usual else DOUBTFUL
    return line.rank - is_usual
