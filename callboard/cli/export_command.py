"""`callboard export`: sessions to keep, to send, or to read with other programs."""

import sys
from pathlib import Path

import click

from callboard.cli.errors import misused, not_found, refuse_if
from callboard.cli.formats import counted
from callboard.cli.options import log_option, session_argument
from callboard.cli.output import percent_on, talk
from callboard.cli.recordings import find_session, key_options, open_reader
from callboard.replay.exports.writing import EXPORTERS, Job, export
from callboard.replay.reading import Source
from callboard.runtime.log.forks import parents_first
from callboard.runtime.log.reading import file_of


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
@click.option("-o", "--output", metavar="FILE", default="", help="Where to write; stdout if it is not given.")
@click.option("--force", is_flag=True, help="Write over FILE if it exists.")
@log_option
@key_options
def export_sessions(
    session: str, is_all: bool, form: str, parsed: bool, output: str, force: bool, log: str
) -> None:
    """Write sessions to a file, to keep or to send.

    With --format db the result is a log in one file. It is whole even while another process writes its
    origin, so use it to back a log up. A copy by other means lacks the events in FILE-wal and is refused.

    With jsonl every event is a line, and its body is the text that the log has. So the digests can be
    computed from the file, and `callboard import` puts it back into a log. With --parsed bodies are objects,
    which suits jq. With json a session is one document. Digests are checked on the way, and a damaged session
    is not exported. A copy of an encrypted log is encrypted; jsonl, json and html are not. With html a
    session is one page for a browser, as `callboard ui` opens it.

    \b
    Examples:
      callboard export 2026 -o session.jsonl
      callboard export --parsed | jq 'select(.kind == "ModelReplied") | .body.usage'
      callboard export --all --format db -o backup.db
      callboard export 2026 --format html -o session.html
    """
    exporter = EXPORTERS[form]
    refuse_if(is_all and session, "--all exports every session: leave SESSION out")
    refuse_if(exporter.needs_file and not output, "a database cannot go to stdout: name a file with -o FILE")
    refuse_if(parsed and not exporter.takes_parsed, f"--parsed is for jsonl: {form} has one form of bodies")
    target = _checked_target(output, log, force) if output else None
    with open_reader(log) as reader:
        rows = parents_first(reader.sessions()) if is_all else [find_session(reader, session)]
        sources = [Source(reader, row.session_id, reader.head(row.session_id)) for row in rows]
        job = Job(sources, is_all=is_all, is_parsed=parsed, progress=percent_on(sys.stderr))
        if target is None:
            for source in sources:
                source.check()  # before the first line: a printed line cannot be taken back
            export(form, job, sys.stdout.buffer)
        else:
            try:
                export(form, job, target)
            except OSError as error:
                raise misused(f"{target} cannot be written: {error.strerror}") from None
            events = sum(source.head.seq for source in sources)
            talk(f"{counted(len(rows), 'session')}, {counted(events, 'event')} written to {target}")
    if parsed:
        talk("bodies are objects: digests cannot be computed from this export; leave --parsed out for that")


def _checked_target(output: str, log: str, force: bool) -> Path:
    """Return the file to write. Fails if it exists without --force, or if it is a log that is open."""
    target, origin = Path(output), file_of(log)
    if not target.parent.is_dir():
        raise not_found(f"the folder {target.parent} does not exist; make it first")
    is_log = target.exists() and origin.exists() and target.samefile(origin)
    is_open = target.with_name(f"{target.name}-wal").exists()
    refuse_if(target.is_dir(), f"{target} is a folder; name a file in it")
    refuse_if(is_log, f"{target} is the log itself; name another file")
    refuse_if(target.exists() and not force, f"{target} exists already; --force writes over it")
    refuse_if(is_open, f"{target} is a log that is open, or was not closed; name another file")
    return target
