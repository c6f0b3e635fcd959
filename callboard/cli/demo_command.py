"""`callboard demo`: the main job, for real, on any folder, offline."""

import contextlib
import getpass
import os
import tempfile
from pathlib import Path

import click

from callboard.actors.protocol.errors import MisuseError, StoreError
from callboard.cli.errors import DIVERGED
from callboard.cli.foreground import attend
from callboard.cli.outcomes import summary
from callboard.cli.output import emit, talk
from callboard.cli.terminal_escape import safe_line, safe_text
from callboard.demo.agents import PROMPT, demo_host, demo_model
from callboard.replay.recording import Recording
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import now_ms
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.outcomes import Outcome


@click.command("demo")
@click.argument("path", default=".", metavar="[PATH]")
@click.option("--log", metavar="FILE", default="", help="Record there instead of in your cache folder.")
def demo(path: str, log: str) -> int:
    """Show the main job on a folder of source code: offline, without a key.

    A host delegates, all at once, to real sub-agents with real tools. Their models are functions of what the
    tools really return. One finds the testing framework, with evidence; one has every module summarised by a
    sub-agent of its own; two race for the entry point; one runs away and is stopped at its cap; one digs
    deeper and deeper until that is refused. Everything is recorded, and the recording is verified.

    PATH is the folder, by default the current one. Nothing in it is run or changed.

    \b
    Examples:
      callboard demo
      callboard demo ~/src/some-project --log demo.db
    """
    host = _host(Path(path))
    talk(f"callboard demo on {safe_line(str(Path(path).resolve()))}: offline, scripted models, real tools\n")
    begun = now_ms()
    outcome, where, code = event_loop.run(_run(host, log))
    talk("")
    emit(safe_text(outcome.text))
    talk("\n" + summary(outcome, str(where), now_ms() - begun))
    verification = Recording.open(where, outcome.session_id).verify()
    talk("\n" + "\n".join(verification.lines()))
    talk(_next_steps(where, outcome))
    return code if verification.is_ok else DIVERGED


def _host(folder: Path) -> Agent:
    if not folder.is_dir():
        raise MisuseError(
            f"{safe_line(str(folder))} is not a folder; give one with source code, or omit it for this one"
        )
    try:
        return demo_host(folder)
    except OSError as error:
        raise MisuseError(f"{safe_line(str(folder))} cannot be read: {error.strerror or error}") from None


async def _run(host: Agent, log: str) -> tuple[Outcome, Path, int]:
    runtime, where = await _opened(log)
    async with contextlib.aclosing(runtime):
        session = await runtime.open(host, title=PROMPT)
        title = f"session {session.session_id}"
        outcome, code = await attend(session, lambda: session.ask(PROMPT), title=title)
    return outcome, where, code


async def _opened(log: str) -> tuple[Runtime, Path]:
    """Open a runtime on the given log, or on one in the cache folder, else on a temporary one."""
    if log:
        return await _opened_at(Path(log))
    with contextlib.suppress(OSError, StoreError):
        return await _opened_at(_cache() / "callboard" / "demo.db")
    spare = f"callboard-demo-{getpass.getuser()}-{os.getpid()}.db"
    return await _opened_at(Path(tempfile.gettempdir(), spare))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


async def _opened_at(place: Path) -> tuple[Runtime, Path]:
    place.parent.mkdir(parents=True, exist_ok=True)
    return await Runtime(place, model=demo_model()).__aenter__(), place


def _next_steps(where: Path, outcome: Outcome) -> str:
    flag = f"--log {where}"
    name = outcome.session_id
    return f"""
recorded in {where}; look at it, nothing is called again:
  callboard tree {name} {flag}
  callboard events {name} --step {flag}
  callboard verify {name} {flag}
  sqlite3 {where} "SELECT seq, sender, recipient, kind FROM log WHERE session = '{name}' LIMIT 20"
write your own: see docs/guide.md; then `callboard run module:agent "..." --model NAME`"""
