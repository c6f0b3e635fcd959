"""`callboard ui`: a session as a page in the browser."""

import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callboard.cli.errors import Failure, refuse_if
from callboard.cli.options import beside_option, files_options, log_option, memory_option, model_option
from callboard.cli.output import emit, percent_on, talk
from callboard.cli.recordings import beside_source, find_place, key_options, open_reader
from callboard.replay.exports.writing import Job, export
from callboard.replay.page.building import in_order
from callboard.replay.reading import Source

if TYPE_CHECKING:
    from callboard.runtime.files.files import Files


@click.command("ui")
@click.argument("session", metavar="[SESSION[#SEQ]]", default="", required=False)
@click.option("--no-open", is_flag=True, help="Print the path of the page and open nothing.")
@beside_option
@click.option("--follow", is_flag=True, help="Serve the page and add new events to it, until Ctrl-C.")
@click.option("--sessions", is_flag=True, help="Serve the list of all sessions, and the page of each.")
@click.option("--act", is_flag=True, help="Serve pages on which you can answer, fork, tell and cancel.")
@click.option("--also", metavar="FILE", multiple=True, help="A further log for the list. May be repeated.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="For a server: the port; 0 for any free one."
)
@click.option(
    "--with",
    "agent",
    metavar="MODULE:AGENT",
    default="",
    help="With --act, for a log without an owner: own it, and run forks with this host.",
)
@model_option
@click.option(
    "--limit", "limits", metavar="NAME=VALUE", multiple=True, help="With --with: limit each session."
)
@click.option(
    "--secret", "secrets", metavar="NAME", multiple=True, help="With --with: as for `callboard run`."
)
@click.option("--mcp", "servers", metavar="FILE", multiple=True, help="With --with: as for `callboard run`.")
@files_options
@memory_option
@log_option
@key_options
def ui(
    session: str,
    no_open: bool,
    beside: str,
    follow: bool,
    sessions: bool,
    act: bool,
    also: tuple[str, ...],
    port: int,
    agent: str,
    model: str,
    limits: tuple[str, ...],
    secrets: tuple[str, ...],
    servers: tuple[str, ...],
    files: "Files | None",
    memory: str,
    log: str,
) -> int:
    """Open a session as a page in the browser.

    The page is one file in the folder for temporary files, which only you can read. It is what `callboard
    export --format html` writes: it needs no network, sends nothing, and contains the whole session. With
    #SEQ it opens at that event. Every digest is checked. With --beside the page has two sessions, a fork and
    its origin or two runs, row by row, with the first difference and what the fork saved.

    With --follow a server on 127.0.0.1 serves the page of a session that is being written, and new events
    appear as they are recorded. Its address contains a random token, and no other site can read it. Ctrl-C
    ends it. With --sessions it serves the list of all sessions.

    With --act you can also approve and deny calls, fill in forms, send messages to agents, cancel an ask, and
    fork from an event with a change. Acts go to the process that owns the log. A log without an owner is
    opened by --with, which then owns it until Ctrl-C. Without SESSION the list is shown.

    \b
    Examples:
      callboard ui
      callboard ui 2026#17
      callboard ui FORK --beside ORIGIN
      callboard ui --follow
      callboard ui --sessions --also other.db
      callboard ui --act
      callboard ui 2026 --act --with survey:host
      callboard ui --no-open
    """
    is_served = follow or sessions or act
    refuse_if(is_served and beside, "a server shows one session beside another by itself: leave --beside out")
    refuse_if(port and not is_served, "--port is for --follow, --sessions and --act")
    refuse_if(sessions and bool(session), "--sessions shows all sessions: leave SESSION out")
    refuse_if(also and not (is_served and not session), "--also is for the list of --sessions or --act")
    refuse_if(agent and not act, "--with is for --act")
    others = (model, limits, secrets, servers, files is not None, memory)
    refuse_if(
        any(others) and not agent, "--model, --limit, --secret, --mcp, --files and --memory go with --with"
    )
    if not is_served:
        _show(*_page(session, beside, log), is_opened=not no_open)
        return 0
    is_first = sessions or (act and not session)
    given = (agent, model, limits, secrets, servers, files, memory)
    _serve((session, log, port, is_first, act, also, *given), is_opened=not no_open)
    return 0


def _serve(given: tuple[Any, ...], *, is_opened: bool) -> None:
    """Serve pages until Ctrl-C. given: the fields of a `Serving`."""
    try:
        from callboard.cli.page_serving import Serving, serve_pages  # here: an extra, and the whole runtime
    except ModuleNotFoundError as error:
        said = f"the page needs a server for this: pip install 'callboard[ui]' ({error})"
        raise Failure(said) from None
    serve_pages(Serving(*given), is_opened=is_opened)


def _show(path: Path, link: str, *, is_opened: bool) -> None:
    """Open a page in the browser, or print its path."""
    if is_opened and _opens(path, link):
        talk(f"opened {path}")
    else:
        emit(str(path))


def _page(session: str, beside: str, log: str) -> tuple[Path, str]:
    """Write the page, and return its path and the link to the event that is named."""
    with open_reader(log) as reader:
        row, seq = find_place(reader, session)
        sources = [Source.upto(reader, row.session_id), *beside_source(reader, beside)]
        path = _written(Job(sources, progress=percent_on(sys.stderr)))
        is_right = len(sources) > 1 and in_order(*sources)[1] is sources[0]
    return path, f"#{'beside-' * is_right}{seq}" if seq else ""


def _written(job: Job) -> Path:
    """Write a page to a new file that only this user can read, and return its path."""
    handle, name = tempfile.mkstemp(prefix="callboard-", suffix=".html")
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            export("html", job, file)
    except BaseException:
        path.unlink()
        raise
    return path


def _opens(path: Path, link: str) -> bool:
    """Open a page in the browser. Returns False, with a hint, where no browser can be started."""
    if webbrowser.open(path.as_uri() + link):
        return True
    talk("no browser could be started; open this file in one:")
    return False
