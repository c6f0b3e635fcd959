"""`callboard export`: sessions to keep, to send, or to read elsewhere."""

import contextlib
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import click

from callboard.cli.errors import misused, not_found, refuse_if
from callboard.cli.options import beside_option, log_option, session_argument
from callboard.cli.output import percent_on, talk
from callboard.cli.recordings import beside_source, find_place, key_options, keyed_log, open_reader
from callboard.replay.exports.writing import EXPORTERS, Job, export
from callboard.replay.formats import counted
from callboard.replay.reading import Source
from callboard.runtime.log.protocol import EventLog, LogReader
from callboard.runtime.log.reading import file_of, is_memory, is_server
from callboard.runtime.log.session_rows import parents_first


@click.command("export")
@session_argument
@click.option("--all", "is_all", is_flag=True, help="Every session of the log.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(EXPORTERS)),
    default="jsonl",
    show_default=True,
    help=" ".join(f"{name}: {exporter.about}." for name, exporter in EXPORTERS.items()),
)
@click.option("--parsed", is_flag=True, help="jsonl: bodies as objects, so that digests cannot be computed.")
@click.option("--with", "agent", metavar="MODULE:AGENT", default="", help="pytest: replay with these agents.")
@beside_option
@click.option("--content", is_flag=True, help="otlp: with prompts, answers, arguments and results, each cut.")
@click.option("-o", "--output", metavar="FILE", default="", help="Where to write; stdout if it is not given.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@log_option
@key_options
def export_sessions(
    session: str,
    is_all: bool,
    form: str,
    parsed: bool,
    agent: str,
    beside: str,
    content: bool,
    output: str,
    force: bool,
    log: str,
) -> None:
    """Write sessions to a file, to keep or to send.

    With --format db the result is a log in one file. It is complete even while another process writes to the
    original, so use it for backups. A copy made by other means lacks the events in FILE-wal and is refused.

    With jsonl every event is a line, and its body is the text in the log, so the digests can be computed from
    the file and `callboard import` can put it back into a log. With --parsed bodies are objects, which suits
    jq. With json a session is one document. Digests are checked, and a damaged session is not exported. A
    copy of an encrypted log is encrypted; jsonl, json and html are not. With html a session is one page for a
    browser, as `callboard ui` opens it; with --beside the page has two.

    With pytest a session is a test that replays it strictly, with its recording in a file beside it: commit
    both. With scenario it is a Python file for `callboard explore`. docs/record-tests.md has the details.

    With otlp the asks, agents, model calls and tool calls are spans, with the ids that a live runtime gives
    them (docs/watch.md). Send the file to the /v1/traces of a collector.

    \b
    Examples:
      callboard export 2026 -o session.jsonl
      callboard export --parsed | jq 'select(.kind == "CallTool") | .body'
      callboard export --all --format db -o backup.db
      callboard export 2026 --format html -o session.html
      callboard export 2026 --format pytest --with survey:host -o test_survey.py
      callboard export 2026 --format scenario -o scenario.py
      callboard export --all --format otlp -o spans.json
    """
    refuse_if(is_all and session, "--all exports every session: leave SESSION out")
    _refuse_misfits(form, output, agent, beside, has_parsed=parsed)
    refuse_if(
        content and not EXPORTERS[form].takes_content,
        f"--content is for otlp: {form} has all content, or none",
    )
    target = _checked_target(output, log, force, EXPORTERS[form].beside) if output else None
    with open_reader(log) as reader:
        sources = [*_sources(reader, session, is_all=is_all, form=form), *beside_source(reader, beside)]
        _write(form, Job(sources, is_all, parsed, agent, percent_on(sys.stderr), content), target)
    if parsed:
        talk("bodies are objects: digests cannot be computed from this export; leave --parsed out for that")


def _refuse_misfits(form: str, output: str, agent: str, beside: str, *, has_parsed: bool) -> None:
    """Refuse options that a format does not take."""
    exporter = EXPORTERS[form]
    refuse_if(exporter.needs_file and not output, f"{form} cannot go to stdout: name a file with -o FILE")
    refuse_if(agent and not exporter.takes_agent, f"--with is for pytest: {form} names no agents")
    refuse_if(beside and form != "html", "--beside is for a page: add --format html")
    is_test = re.fullmatch(r"test_.*\.py|.*_test\.py", Path(output).name)
    refuse_if(form == "pytest" and not is_test, f"{output}: pytest looks for files named test_*.py")
    refuse_if(
        has_parsed and not exporter.takes_parsed, f"--parsed is for jsonl: {form} has one form of bodies"
    )


def _sources(reader: LogReader, session: str, *, is_all: bool, form: str) -> list[Source]:
    if is_all:
        return [Source.upto(reader, row.session_id) for row in parents_first(reader.sessions())]
    row, seq = find_place(reader, session)
    refuse_if(seq is not None and form == "db", "a database holds whole sessions: leave #SEQ out")
    return [Source.upto(reader, row.session_id, seq)]


def _write(form: str, job: Job, target: Path | None) -> None:
    """Write sessions to a file, or to stdout."""
    if target is None:
        for source in job.sources:
            source.check()  # before the first line: a printed line cannot be taken back
        export(form, job, sys.stdout.buffer)
        return
    try:
        export(form, job, target)
    except OSError as error:
        raise misused(f"{target} cannot be written: {error.strerror}") from None
    events = sum(source.head.seq for source in job.sources)
    talk(f"{counted(len(job.sources), 'session')}, {counted(events, 'event')} written to {target}")


def _checked_target(output: str, log: str, force: bool, beside: str = "") -> Path:
    """Return the file to write. Fails if it exists without --force, or if it is a log that is open.

    beside: the ending of a second file that is written; empty for none.
    """
    if beside:
        _checked_target(str(Path(output).with_suffix(beside)), log, force)
    target = Path(output)
    origin = None if is_memory(log) or is_server(log) else file_of(log)
    if not target.parent.is_dir():
        raise not_found(f"the folder {target.parent} does not exist; make it first")
    is_log = origin is not None and target.exists() and origin.exists() and target.samefile(origin)
    is_open = target.with_name(f"{target.name}-wal").exists()
    refuse_if(target.is_dir(), f"{target} is a folder; name a file in it")
    refuse_if(is_log, f"{target} is the log itself; name another file")
    refuse_if(target.exists() and not force, f"{target} exists already; --force writes over it")
    refuse_if(is_open, f"{target} is a log that is open, or was not closed; name another file")
    return target


@contextlib.asynccontextmanager
async def opened_log(address: str) -> AsyncIterator[EventLog]:
    """Own a log for a while."""
    log = keyed_log(address)
    await log.open()
    try:
        yield log
    finally:
        await log.close()
