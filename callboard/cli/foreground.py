"""A session in the foreground: the command line that starts it, its tree, Ctrl-C, its result."""

import asyncio
import contextlib
import functools
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, get_args

import click
import msgspec

from callboard.actors.protocol.errors import InvalidPrompt, SessionDetached
from callboard.actors.session.budget_limits import Budget
from callboard.actors.session.capacity import Capacity
from callboard.cli.approving import Approver, Mode
from callboard.cli.errors import FAILED, Failure, Left, misused, not_found, refuse_if
from callboard.cli.live import diverted, watching
from callboard.cli.loading import files_near
from callboard.cli.options import files_options, log_flag, log_option, memory_option, parse_budgets
from callboard.cli.outcomes import outcome_json, summary
from callboard.cli.output import emit, emit_json, talk
from callboard.cli.recordings import keyed_log
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import now_ms
from callboard.runtime.files.files import Files
from callboard.runtime.log.protocol import Head
from callboard.runtime.mcp.server import MCPServer
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.runtime import Runtime
from callboard.runtime.sanitize import check_json
from callboard.runtime.schemas.engine import Refused, accept
from callboard.runtime.secrets.refs import SecretRef
from callboard.runtime.sessions.outcomes import Outcome, with_head
from callboard.runtime.sessions.session import Session

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Setting(NamedTuple):
    """The options of every command that asks.

    limits: as they were typed. servers: files of MCP servers. budgets: above sessions, by pattern.
    memory: the address of a memory, empty for none.
    """

    limits: tuple[str, ...]
    approver: Approver
    secrets: tuple[str, ...]
    log: str
    files: Files | None = None
    servers: tuple[str, ...] = ()
    budgets: Mapping[str, Budget] | None = None
    memory: str = ""

    def equipped(self, agent: Agent) -> Agent:
        """Return an agent with the tools of the servers of `--mcp` files. Raises Failure, InvalidAgent."""
        found = [server for file in self.servers for server in _servers_of(Path(file))]
        return agent.with_sources(found) if found else agent

    def runtime(
        self,
        model: ModelChoice | None,
        *,
        capacity: Mapping[str, Capacity] | None = None,
        metrics: bool = False,
    ) -> Runtime:
        """Make the runtime.

        model: for agents without one. capacity: of models, by name. metrics: True counts for
        `Runtime.metrics`.
        """
        refs = [SecretRef(name) for name in self.secrets]
        log = keyed_log(self.log)
        return Runtime(
            log,
            model=model,
            approve=self.approver,
            secrets=refs,
            files=self.files,
            memory=self.memory or None,
            budgets=self.budgets,
            capacity=capacity,
            metrics=metrics,
        )


def setting_options(function: Callable[..., int], approve: Mode = "ask") -> Callable[..., int]:
    """Add `--limit`, `--budget`, `--approve`, `--secret`, `--mcp`, `--files`, `--memory` and `--log`.

    The function gets all of them as one `setting`. approve: the default of `--approve`.
    """

    @functools.wraps(function)
    def call(
        limits: tuple[str, ...],
        approve: Mode,
        secrets: tuple[str, ...],
        log: str,
        files: Files | None,
        servers: tuple[str, ...],
        budgets: tuple[str, ...],
        memory: str,
        **others: object,
    ) -> int:
        above = parse_budgets(budgets)
        setting = Setting(limits, Approver(approve), secrets, log, files, servers, above, memory)
        return function(setting=setting, **others)

    added: Callable[..., int] = call
    asked = _approve_option(approve), _budget_option, _limit_option
    for add in (log_option, memory_option, _servers_option, _secret_option, *asked):
        added = add(added)
    return files_options(added)


_limit_option = click.option(
    "--limit",
    "limits",
    metavar="NAME=VALUE",
    multiple=True,
    help="Limit the session: tokens=200k, cost_usd=0.50, deadline_s=60, max_depth=2, ... May be repeated.",
)
_budget_option = click.option(
    "--budget",
    "budgets",
    metavar="PATTERN=AMOUNT",
    multiple=True,
    help="Limit what all sessions of the log with a tag spend together: '*=20usd/day', "
    "'tenant:*=5m tokens/month', 'batch=5usd'. May be repeated.",
)


def _approve_option(default: Mode) -> Callable[[Callable[..., int]], Callable[..., int]]:
    return click.option(
        "--approve",
        type=click.Choice(get_args(Mode)),
        default=default,
        show_default=True,
        help="For tools that need approval: ask on the terminal (without a terminal, refuse), let each call "
        "wait for `callboard approvals` or the page, allow every call, or refuse every call.",
    )


_secret_option = click.option(
    "--secret",
    "secrets",
    metavar="NAME",
    multiple=True,
    help="Keep the value of the environment variable NAME out of logs and output; tools get it by "
    "ctx.secret(NAME). May be repeated.",
)
_servers_option = click.option(
    "--mcp",
    "servers",
    metavar="FILE",
    multiple=True,
    help="Give the agent the tools of the MCP servers of this file, such as .mcp.json. May be repeated.",
)


def _servers_of(file: Path) -> list[MCPServer]:
    if not file.is_file():
        raise not_found(f"there is no file {file}; {files_near(file, 'JSON files', '*.json', '.*/mcp.json')}")
    return MCPServer.from_file(file)


async def attend(
    session: Session,
    ask: Callable[[], Awaitable[Outcome]],
    approver: Approver | None = None,
    *,
    title: str,
    is_quiet: bool = False,
    known: int = 0,
) -> tuple[Outcome, int]:
    """Run an ask in the foreground and close its session. Return the outcome and the exit code.

    ask: starts the ask, or waits for one that runs.
    title: the line above the tree, which `is_quiet` leaves out.
    known: the events up to this seq are no news, and not told.
    """
    async with contextlib.AsyncExitStack() as stack:
        view = None
        if not is_quiet:
            view = await stack.enter_async_context(watching(session, title=title, known=known))
        if approver is not None:
            approver.view = view
        with interrupts(session, view.close if view else lambda: None) as taken, diverted(view):
            outcome = await ask()
    with diverted(None):
        head = await session.close()
    return with_head(outcome, head), 0 if outcome.is_ok else taken.exit_code(FAILED)


def finish(
    work: Coroutine[object, object, tuple[Outcome, int]],
    log: str,
    *,
    as_json: bool,
    is_quiet: bool,
    cost: Callable[[], str] = str,
) -> int:
    """Run a command's ask, print its outcome, and return the exit code. cost: told in place of the usage."""
    begun = now_ms()
    outcome, code = event_loop.run(work)
    print_result(outcome, log, now_ms() - begun, as_json=as_json, is_quiet=is_quiet, cost=cost())
    return code


def print_result(
    outcome: Outcome, log: str, elapsed_ms: int, *, as_json: bool, is_quiet: bool, cost: str = ""
) -> None:
    """Print the whole outcome as JSON, or its report or text if there is one; on stderr a summary."""
    if as_json:
        emit_json(outcome_json(outcome, log, elapsed_ms))
    elif outcome.kind == "reported":
        emit_json(outcome.report)
    elif outcome.is_ok:
        emit(outcome.text)
    # Without a result and without a reason, a quiet command would leave its user with an exit code.
    if not is_quiet or not (outcome.is_ok or as_json):
        talk(summary(outcome, log, elapsed_ms, cost))
        talk(f"to look at it: callboard show {outcome.session_id}{log_flag()}")


def read_schema(path: str) -> Mapping[str, object] | None:
    """Read the JSON schema in a file; None for no file. Raises Failure if reports cannot be checked by it."""
    if not path:
        return None
    data = _bytes_of(Path(path))
    try:
        accept(bytes(check_json(data)))
        return msgspec.json.decode(data, type=dict[str, object])
    except InvalidPrompt as error:
        raise misused(f"{path} is not valid JSON: {error}") from None
    except Refused as refused:
        told = "; ".join(f"at {one.path or '/'}: {one.message}" for one in refused.problems[:3])
        raise misused(f"{path} is not a usable JSON schema: {told}") from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise not_found(f"there is no file {path}; {files_near(path, 'JSON files', '*.json')}") from None
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror or error}") from error


def read_prompt(prompt: str) -> str:
    """Return the prompt; for `-`, the text on stdin."""
    if prompt == "-":
        prompt = sys.stdin.read()
    refuse_if(not prompt.strip(), "the prompt is empty; describe the agent's task")
    return prompt


@dataclass
class Interrupts:
    """The signals of one session. signal: the first that came, 0 for none."""

    session: Session
    leaving: Callable[[], None]
    lead: str
    signal: int = 0
    _detaching: asyncio.Task[Head] | None = None  # kept: the loop itself keeps no task alive

    def exit_code(self, otherwise: int) -> int:
        """Return the exit code that shells expect after a signal; without one, `otherwise`."""
        return 128 + self.signal if self.signal else otherwise

    def take(self, number: int) -> None:
        """Detach the session; at the second signal, end the process."""
        if self.signal:
            self._leave(number)
        self.signal = number
        talk(f"{self.lead}leaving; work in progress is recorded; press Ctrl-C again to leave at once")
        self._detaching = asyncio.ensure_future(self.session.detach())

    def how_to_go_on(self) -> str:
        """Return the line about the session that was left."""
        name = self.session.session_id
        return f"left; session {name} is kept; callboard resume {name} MODULE:AGENT{log_flag()} continues it"

    def _leave(self, number: int) -> None:
        """End the process at once. The log stays a prefix of what happened, as after any crash."""
        self.leaving()
        talk(self.how_to_go_on())
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(128 + number)  # a tool that hangs would hold up an orderly exit


@contextlib.contextmanager
def interrupts(
    session: Session, leaving: Callable[[], None] = lambda: None, *, lead: str = ""
) -> Iterator[Interrupts]:
    """Handle Ctrl-C and SIGTERM for this session while the body runs. Raises Left if one detaches it.

    leaving: restores the terminal before the process ends.
    lead: text before the notice, such as the end of an open line.
    """
    loop = asyncio.get_running_loop()
    taken = Interrupts(session, leaving, lead)
    with contextlib.ExitStack() as stack:
        for number in _SIGNALS:
            # Windows has no signals on the event loop, and other threads set none: Ctrl-C ends the program.
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, taken.take, int(number))
                stack.callback(loop.remove_signal_handler, number)
        try:
            yield taken
        except SessionDetached:
            raise Left(taken.how_to_go_on(), taken.exit_code(FAILED)) from None
