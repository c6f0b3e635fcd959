"""`callboard ui --follow`, `--sessions` and `--act`: the server, and the runtime of a log that it owns."""

import contextlib
import functools
import socket
import webbrowser
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from callboard.actors.protocol.errors import StoreLocked
from callboard.cli.approving import Approver, user_name
from callboard.cli.errors import Failure, misused
from callboard.cli.foreground import Setting
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import parse_limits
from callboard.cli.output import emit, talk
from callboard.cli.page_acts import Acts, Owned
from callboard.cli.page_guard import HOST, Guard
from callboard.cli.page_server import PageServer, listening, new_token, serve
from callboard.cli.page_views import PageViews, Place
from callboard.cli.recordings import find_place, keyed_log, log_keys, open_reader
from callboard.runtime import event_loop
from callboard.runtime.files.files import Files
from callboard.runtime.log import reading
from callboard.runtime.log.sqlite.owner import read_lock
from callboard.runtime.runtime import Runtime
from callboard.runtime.secrets.refs import SecretRef


class Serving(NamedTuple):
    """The options of a server of pages.

    session: the place that the page opens at; empty for the newest session. is_first: begin with the list of
    all sessions. also: further logs. agent: `MODULE:AGENT` of `--with`, empty for none.
    """

    session: str
    log: str
    port: int
    is_first: bool = False
    acts: bool = False
    also: tuple[str, ...] = ()
    agent: str = ""
    model: str = ""
    limits: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    files: Files | None = None
    memory: str = ""


def serve_pages(wish: Serving, *, is_opened: bool) -> None:
    """Serve pages until Ctrl-C. is_opened: in the browser, too."""
    try:
        event_loop.run(_served(wish, is_opened=is_opened))
    except KeyboardInterrupt:  # before the server listens
        return


async def _served(wish: Serving, *, is_opened: bool) -> None:
    async with _owned(wish) as owned:
        logs = (wish.log, *wish.also)
        shown, link = _shown(wish)
        with _port(wish.port) as (held, port):
            guard = Guard(port, new_token(), new_token() if wish.acts else "")
            openers = [functools.partial(reading.open_reader, log, *log_keys()) for log in logs]
            views = PageViews(logs, openers, shown, _words(wish, guard, owned))
            acts = Acts(logs, keyed_log, owned) if wish.acts else None
            address = f"http://{HOST}:{port}/{guard.token}/{link}"
            emit(address)
            talk(_told(wish, shown))
            if is_opened:
                webbrowser.open(address)
            await serve(PageServer(guard, views, acts), held)


def _shown(wish: Serving) -> tuple[Place | None, str]:
    """Return the session to show, None for the list, and the link to its event. Raises Failure."""
    for log in wish.also:
        open_reader(log).close()
    with open_reader(wish.log) as reader:
        if wish.is_first:
            return None, ""
        row, seq = find_place(reader, wish.session)
        return Place(0, row.session_id), f"#{seq}" if seq else ""


@contextlib.contextmanager
def _port(port: int) -> Iterator[tuple[socket.socket, int]]:
    """Yield the socket of the server and its port. Raises Failure."""
    with contextlib.ExitStack() as stack:
        try:
            held, number = stack.enter_context(listening(port))
        except OSError as error:
            raise misused(f"port {port} cannot be used: {error.strerror}; leave --port out") from None
        yield held, number


def _words(wish: Serving, guard: Guard, owned: Owned | None) -> dict[str, object]:
    """Return the words of the server to its pages. They stand in no address, log or export."""
    words: dict[str, object] = {"has_list": wish.is_first}
    if wish.acts:
        words |= {"token": guard.act_token, "by": user_name(), "owns": owned is not None}
    return words


def _told(wish: Serving, shown: Place | None) -> str:
    """Return the line about the page that is served."""
    what = f"session {shown.session}" if shown else f"the sessions of {wish.log}"
    can = "; it can act: keep its address to yourself" if wish.acts else ""
    return f"following {what}{can}; Ctrl-C ends it"


@contextlib.asynccontextmanager
async def _owned(wish: Serving) -> AsyncIterator[Owned | None]:
    """Own the log for the agents of `--with`; yield None without them. Raises Failure."""
    if not wish.agent:
        yield None
        return
    setting = Setting(wish.limits, Approver("ask"), wish.secrets, wish.log, wish.files, wish.servers)
    agent, model = choose_model(setting.equipped(load_agent(wish.agent)), wish.model)
    refs = [SecretRef(name) for name in wish.secrets]
    limits = parse_limits(wish.limits)
    open_reader(wish.log).close()  # names the file that is not there
    runtime = Runtime(
        keyed_log(wish.log),
        model=model,
        limits=limits,
        secrets=refs,
        files=wish.files,
        memory=wish.memory or None,
    )
    try:
        await runtime.__aenter__()
    except StoreLocked as error:
        process, _ = read_lock(reading.file_of(wish.log).resolve())
        raise Failure(
            f"process {process or 'unknown'} owns {wish.log}: leave --with out, and the page's acts go to it"
        ) from error
    try:
        runtime._started().hosts.default = agent
        yield Owned(runtime, agent)
    finally:
        await runtime.aclose()
