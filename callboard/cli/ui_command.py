"""`callboard ui`: a session as a page in the browser."""

import os
import sys
import tempfile
import webbrowser
from pathlib import Path

import click

from callboard.cli.errors import Failure, misused, refuse_if
from callboard.cli.options import beside_option, log_option
from callboard.cli.output import emit, percent_on, talk
from callboard.cli.recordings import beside_source, find_place, key_options, open_reader
from callboard.replay.exports.writing import Job, export
from callboard.replay.page.building import LivePage, in_order
from callboard.replay.reading import Source


@click.command("ui")
@click.argument("session", metavar="[SESSION[#SEQ]]", default="", required=False)
@click.option("--no-open", is_flag=True, help="Print the path of the page and open nothing.")
@beside_option
@click.option("--follow", is_flag=True, help="Serve the page and add new events to it, until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="With --follow: the port; 0 for any free one."
)
@log_option
@key_options
def ui(session: str, no_open: bool, beside: str, follow: bool, port: int, log: str) -> None:
    """Open a session as a page in the browser.

    The page is one file in the folder for temporary files, which only you can read. It is what `callboard
    export --format html` writes: it needs no network, sends nothing, and contains the whole session. With
    #SEQ it opens at that event. Every digest is checked. With --beside the page has two sessions, a fork and
    its origin or two runs, row by row, with the first difference and what the fork saved.

    With --follow a server on 127.0.0.1 serves the page of a session that is being written, and new events
    appear as they are recorded. Its address contains a random token, and no other site can read it. Ctrl-C
    ends it.

    \b
    Examples:
      callboard ui
      callboard ui 2026#17
      callboard ui FORK --beside ORIGIN
      callboard ui --follow
      callboard ui --no-open
    """
    refuse_if(follow and beside, "--follow shows one session: leave --beside out")
    refuse_if(port and not follow, "--port is for --follow")
    if follow:
        _follow(session, port, log, is_opened=not no_open)
        return
    _show(*_page(session, beside, log), is_opened=not no_open)


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


def _follow(session: str, port: int, log: str, *, is_opened: bool) -> None:
    """Serve the page of a session until Ctrl-C."""
    try:
        from callboard.cli.page_server import serve_page  # here: an extra
    except ModuleNotFoundError as error:
        said = f"`callboard ui --follow` needs a server: pip install 'callboard[ui]' ({error})"
        raise Failure(said) from None
    with open_reader(log) as reader:
        row, seq = find_place(reader, session)
        link = f"#{seq}" if seq else ""

        def opened(address: str) -> None:
            emit(address + link)
            talk(f"following session {row.session_id}; Ctrl-C ends it")
            _ = is_opened and webbrowser.open(address + link)

        try:
            serve_page(LivePage(reader, row.session_id), port, opened)
        except OSError as error:
            raise misused(f"port {port} cannot be used: {error.strerror}; leave --port out") from None


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
