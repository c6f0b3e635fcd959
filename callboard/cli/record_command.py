"""`callboard record`: run a program, and record the model calls that it makes."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from callboard.actors.protocol.errors import MissingExtra
from callboard.actors.session.budget_limits import Budget
from callboard.cli.errors import misused, not_found, refuse_if
from callboard.cli.options import log_option, parse_budgets
from callboard.cli.output import talk
from callboard.cli.recordings import key_options, keyed_log
from callboard.replay.formats import counted
from callboard.runtime import event_loop
from callboard.runtime.clock import new_session_id
from callboard.runtime.log.reading import shown_address
from callboard.runtime.runtime import Runtime

if TYPE_CHECKING:
    from callboard.runtime.gateway.recorder import Recorder

_SERVICES: Final = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com", ""),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1", "/v1"),
}
"""The variable by which clients find each service, its address, and the end of the path in that variable."""

_ENDING_S: Final = 10.0
_NAMED_MAX: Final = 12


class _Wish(NamedTuple):
    """The command, its recording, and its limits."""

    command: tuple[str, ...]
    name: str
    limits: Mapping[str, Budget] | None
    log: str


@click.command("record", context_settings={"ignore_unknown_options": True})
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--name", default="", help="The name of the recording, in the tag of its sessions.")
@click.option(
    "--limit",
    "limits",
    metavar="AMOUNT",
    multiple=True,
    help="The most that all its calls may use together, such as 5usd or 200ktokens. May be repeated.",
)
@log_option
@key_options
def record(command: tuple[str, ...], name: str, limits: tuple[str, ...], log: str) -> int:
    """Run a program, and record the model calls that it makes as sessions.

    For the program, ANTHROPIC_BASE_URL and OPENAI_BASE_URL point to a gateway on loopback. The gateway sends
    its requests on to the addresses that these variables have in your shell, or else to the services. Each
    conversation of the program becomes a session with the tag recording:NAME. The program's API keys are sent
    on to the service and never stored.

    With --limit, a request that may exceed the amount is not sent: the program gets a 403 that says so. With
    a limit in usd, models without a known price are refused. Other requests, such as count_tokens, are sent
    on but not recorded. The exit code is that of the program. docs/record.md has the details.

    \b
    Examples:
      callboard record -- claude -p "Fix the failing test"
      callboard record --limit 2usd --log agents.db -- python my_agent.py
      callboard sessions --tag recording:NAME
    """
    recording = name or new_session_id()
    tag = f"recording:{recording}"
    refuse_if(not tag.isprintable() or len(tag) > 200, f"--name {name!r}: use printable characters")
    wish = _Wish(command, recording, parse_budgets([f"{tag}={_amount(one)}" for one in limits]), log)
    return event_loop.run(_record(wish))


def _amount(text: str) -> str:
    """Return an amount as `parse_budgets` reads it: without a period."""
    refuse_if("/" in text, f"--limit {text}: a limit is for the whole recording; leave the period out")
    return text.replace(" ", "")


async def _record(wish: _Wish) -> int:
    try:
        import httpx2
    except ImportError:
        raise MissingExtra("callboard record needs httpx2: pip install 'callboard[http]'") from None

    from callboard.runtime.gateway.recorder import Recorder
    from callboard.runtime.gateway.server import Gateway

    upstreams = {one: os.environ.get(name) or usual for one, (name, usual, _) in _SERVICES.items()}
    async with Runtime(keyed_log(wish.log), budgets=wish.limits, keep_requests=True) as runtime:
        recorder = Recorder(runtime, wish.name, is_limited=wish.limits is not None)
        async with httpx2.AsyncClient(timeout=httpx2.Timeout(600, connect=10)) as client:
            gateway = Gateway(recorder, upstreams, client)
            url = await gateway.start()
            try:
                code = await _run(wish.command, url)
            finally:
                await recorder.close()
                await gateway.aclose()
    _tell(recorder, wish.log)
    return code


async def _run(command: Sequence[str], url: str) -> int:
    """Run the program, and return its exit code. Ctrl-C goes to the program, which shares the terminal."""
    told = {name: f"{url}/{one}{end}" for one, (name, _, end) in _SERVICES.items()}
    try:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **told})
    except FileNotFoundError:
        raise not_found(f"the program {command[0]!r} does not exist") from None
    except OSError as error:
        raise misused(f"the program {command[0]!r} cannot be started: {error.strerror}") from None
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows has no such handlers
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        loop.add_signal_handler(signal.SIGTERM, process.terminate)
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _ENDING_S)
        raise
    return code if code >= 0 else 128 - code


def _tell(recorder: "Recorder", log: str) -> None:
    """Name the sessions that were recorded."""
    counts, sessions = recorder.counts, recorder.sessions
    place = shown_address(log)
    talk(
        f"{counted(counts.recorded, 'request')} in {counted(len(sessions), 'session')} recorded into {place}"
    )
    for session in sessions[:_NAMED_MAX]:
        talk(f"  callboard show {session} --log {place}")
    if len(sessions) > _NAMED_MAX:
        talk(f"  and more: callboard sessions --tag {recorder.tag} --log {place}")
    if counts.refused:
        talk(f"refused by a limit or a missing price, and not sent: {counts.refused:,}")
    if counts.failed:
        talk(f"without an answer of the service: {counts.failed:,}")
    if counts.unread:
        talk(f"not JSON with messages, and not sent: {counts.unread:,}")
    if counts.passed:
        passed = ", ".join(f"{what} {count:,}" for what, count in sorted(counts.passed.items()))
        talk(f"passed unrecorded: {passed}")
