"""The exporters. Each takes a job and a target: a path, or an open binary file.

A recorded session as Python: a scenario of the testing kit, or a test that replays the recording.

Foreign text stands in these files as literals only, as `repr` writes them: none of it is code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.exports.jsonl import PARSED, VERSION, BlobLine, CutsLine, Header, ascii_line, event_line
from callboard.replay.exports.recorded_parts import regression_test, scenario_file
from callboard.replay.exports.transcript import transcript
from callboard.replay.page.building import html_page
from callboard.replay.reading import Source
from callboard.replay.refused_calls import refused_in
from callboard.runtime.log.protocol import Sealed
from callboard.runtime.log.telemetry.attributes import CONTENT_CHARS_MAX
from callboard.runtime.log.telemetry.formats import otlp_document
from callboard.runtime.log.telemetry.span_fold import spans_of
from callboard.runtime.log.telemetry.spans import Span, library_version

_PART: Final = ".part"  # of a file that is not whole yet
Progress = Callable[[str, int, int], object]
"""Called with a session's id, how many of its events are written, and how many there are."""


@dataclass(frozen=True)
class Job:
    """The sessions to export. is_all: they are all that the log has.

    is_parsed: bodies as objects instead of text (`jsonl`), so that digests cannot be computed from the file.
    agent: `module:agent`, with whose agents a test replays the session; empty for the recorded ones.
    has_content: the spans of OTLP have the texts of models and tools.
    """

    sources: Sequence[Source]
    is_all: bool = False
    is_parsed: bool = False
    agent: str = ""
    progress: Progress = lambda session_id, done, total: None
    has_content: bool = False


class Exporter(NamedTuple):
    """One format. about: for help texts. needs_file: it writes to a path only.

    beside: the ending of a second file that it writes beside the first one; empty for none.
    takes_agent: it may name the agents of today. takes_content: it can leave content out.
    """

    about: str
    write: Callable[[Job, "Path | BinaryIO"], None]
    needs_file: bool = False
    takes_parsed: bool = False
    beside: str = ""
    takes_agent: bool = False
    takes_content: bool = False


def _jsonl(job: Job) -> Iterator[bytes]:
    for source in job.sources:
        yield ascii_line(_header(source, job.is_parsed))
        rows = _rows(job, source)
        yield from _parsed_lines(source, rows) if job.is_parsed else _event_lines(source, rows)


def _event_lines(source: Source, rows: Iterator[Sealed]) -> Iterator[bytes]:
    written: set[bytes] = set()
    for row in rows:
        fresh = {digest: data for _, digest, data in row.cuts if digest not in written}
        written.update(fresh)
        yield from (ascii_line(BlobLine(digest.hex(), data.decode())) for digest, data in fresh.items())
        if row.cuts:
            places = tuple((offset, digest.hex()) for offset, digest, _ in row.cuts)
            yield ascii_line(CutsLine(row.seq, places))
        yield ascii_line(event_line(source.session_id, row))


def _parsed_lines(source: Source, rows: Iterator[Sealed]) -> Iterator[bytes]:
    for row in rows:
        # foreign JSON may hold line breaks: formatted again it is one line
        body = msgspec.Raw(msgspec.json.format(row.whole().body, indent=-1))
        yield ascii_line(event_line(source.session_id, row, body))


def _json(job: Job) -> Iterator[bytes]:
    if job.is_all:
        yield b'{"sessions":['
    for place, source in enumerate(job.sources):
        header = ascii_line(_header(source, is_parsed=True))
        yield b"," * bool(place) + header.rstrip(b"}\n") + b',"events":[\n'
        for number, line in enumerate(_parsed_lines(source, _rows(job, source))):
            yield b"," * bool(number) + line
        yield b"]}"
    yield b"]}\n" if job.is_all else b"\n"


def _markdown(job: Job) -> Iterator[bytes]:
    for source in job.sources:
        events = (source.event(row.whole() if row.cuts else row) for row in _rows(job, source))
        refused = partial(refused_in, source)
        yield from (part.encode() for part in transcript(source.session_id, events, refused))


def _html(job: Job) -> Iterator[bytes]:
    if job.is_all or len(job.sources) not in (1, 2):
        raise MisuseError("a page shows one session, or two beside each other: leave --all out")
    yield from html_page(job.sources[0], job.progress, *job.sources[1:])


def _otlp(job: Job) -> Iterator[bytes]:
    longest = CONTENT_CHARS_MAX if job.has_content else 0
    return otlp_document(_spans(job), library_version(), longest)


def _spans(job: Job) -> Iterator[tuple[str, Span]]:
    """Yield the spans of all sessions. Those that a fork shares with its origin are in its origin's trace."""
    for source in job.sources:
        shared = source.reader.segments(source.session_id)[:-1]
        events = (source.event(row.whole() if row.cuts else row) for row in _rows(job, source))
        for span in spans_of(events, after=shared[-1].last if shared else 0):
            yield source.session_id, span


def _scenario(job: Job, target: "Path | BinaryIO") -> None:
    source = _only(job)
    events = (source.event(row.whole()) for row in _rows(job, source))
    file = target.name.removesuffix(_PART) if isinstance(target, Path) else "scenario.py"
    _text(lambda _: (part.encode() for part in scenario_file(source.session_id, events, file)), job, target)


def _pytest(job: Job, target: "Path | BinaryIO") -> None:
    """Write a test, and the recording that it replays beside it."""
    source = _only(job)
    if not isinstance(target, Path):
        raise MisuseError("a test is a file with its recording beside it: give the path of a new file")
    recording = target.with_name(target.name.removesuffix(_PART)).with_suffix(".jsonl")
    export("jsonl", Job(job.sources, progress=job.progress), recording)
    events = (source.event(row) for row in source.between(1, source.head.seq))
    target.write_text(regression_test(source.session_id, events, recording.name, job.agent), encoding="utf-8")


def _only(job: Job) -> Source:
    if len(job.sources) != 1:
        raise MisuseError("a Python file holds one session: leave --all out")
    return job.sources[0]


def _db(job: Job, target: "Path | BinaryIO") -> None:
    """Write a log again. All sessions are copied as they are, so that a damaged log can be backed up."""
    reader = job.sources[0].reader if job.sources else None
    if not isinstance(target, Path) or reader is None:
        raise MisuseError("a database is copied from a log file to a file: give the path of a new one")
    if job.is_all:
        reader.copy_to(target, "", partial(job.progress, "the log"))
        return
    for source in job.sources:
        source.check()
        reader.copy_to(target, source.session_id, partial(job.progress, source.session_id))


def _text(chunks: Callable[[Job], Iterator[bytes]], job: Job, target: Path | BinaryIO) -> None:
    if isinstance(target, Path):
        with target.open("wb") as file:
            file.writelines(chunks(job))
    else:
        target.writelines(chunks(job))


EXPORTERS: Final[Mapping[str, Exporter]] = MappingProxyType(
    {
        "jsonl": Exporter("a line for each event", partial(_text, _jsonl), takes_parsed=True),
        "json": Exporter("one document", partial(_text, _json)),
        "markdown": Exporter("a transcript to read", partial(_text, _markdown)),
        "html": Exporter("a page for a browser", partial(_text, _html)),
        "db": Exporter("a log again", _db, needs_file=True),
        "pytest": Exporter(
            "a test that replays the session", _pytest, needs_file=True, beside=".jsonl", takes_agent=True
        ),
        "otlp": Exporter("spans for OpenTelemetry, in JSON", partial(_text, _otlp), takes_content=True),
        "scenario": Exporter("a scenario to explore, in Python", _scenario),
    }
)
"""Name -> exporter. A new format is one entry."""


def export(name: str, job: Job, target: "str | Path | BinaryIO") -> None:
    """Write sessions in a format. A file is written whole or not at all; one that exists is replaced.

    Raises MisuseError for an unknown format or a target that it cannot write to, CorruptLog, OSError.
    """
    if name not in EXPORTERS:
        raise MisuseError(f"there is no export format {name!r}; formats: {', '.join(EXPORTERS)}")
    exporter = EXPORTERS[name]
    if job.is_parsed and not exporter.takes_parsed:
        raise MisuseError(f"{name} has no choice of bodies: leave is_parsed out")
    if job.agent and not exporter.takes_agent:
        raise MisuseError(f"{name} takes no agents: leave agent out")
    if job.has_content and not exporter.takes_content:
        raise MisuseError(f"{name} has all content: leave has_content out")
    if not isinstance(target, str | Path):
        exporter.write(job, target)
        return
    path = Path(target)
    part = path.with_name(f"{path.name}{_PART}")
    try:
        part.unlink(missing_ok=True)
        exporter.write(job, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _header(source: Source, is_parsed: bool) -> Header:
    row = next(row for row in source.reader.sessions() if row.session_id == source.session_id)
    segments = source.reader.segments(row.session_id)
    shared = tuple((one.session_id, one.last) for one in segments[:-1])
    return Header(
        VERSION,
        row.session_id,
        row.title,
        row.created_ms,
        segments[0].before.digest.hex(),
        source.head.seq,
        f"{source.head.seq}:{source.head.digest.hex()}",
        source.reader.key_check(),
        PARSED if is_parsed else "text",
        shared or msgspec.UNSET,
    )


def _rows(job: Job, source: Source) -> Iterator[Sealed]:
    for page in source.sealed_pages():
        yield from page
        job.progress(source.session_id, page[-1].seq, source.head.seq)
