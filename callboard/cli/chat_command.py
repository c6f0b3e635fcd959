"""`callboard chat`: one prompt after another, in one session."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Final

import click

from callboard.cli.chat_view import watching_chat
from callboard.cli.errors import FAILED
from callboard.cli.foreground import Setting, interrupts, parse_limits, setting_options
from callboard.cli.formats import duration
from callboard.cli.live import diverted
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import agent_argument, json_option, log_flag, model_option
from callboard.cli.outcomes import ending, outcome_json, usage_text
from callboard.cli.output import console_on, emit, emit_json, emit_lines, talk
from callboard.cli.tree_view import Space, tree_lines
from callboard.replay.tree import Tree
from callboard.runtime import event_loop
from callboard.runtime.clock import now_ms
from callboard.runtime.sessions.outcome import Outcome
from callboard.runtime.sessions.session import Session

_HELP: Final = (
    "/tree  show the agents    /help  show this    /quit or Ctrl-D  leave    Ctrl-C  cancel the running ask"
)


@click.command("chat")
@agent_argument
@model_option
@setting_options
@json_option
def chat(agent: str, model: str, setting: Setting, as_json: bool) -> int:
    """Talk with an agent, or send it prompts line by line.

    On a terminal, type a prompt: the answer streams in, and the tree of agents is shown while the agent
    delegates. Ctrl-C cancels the running ask, Ctrl-D or /quit ends the session, /help lists the rest.

    Through a pipe, each line is an ask and stdout gets each result; with --json, one JSON object a line. The
    exit code is 1 if any ask had no result.

    \b
    Examples:
      callboard chat survey:host
      callboard chat survey:host --model anthropic:claude-sonnet-5 --limit tokens=500k
      printf 'Which files are here?\\nHow large are they?\\n' | callboard chat survey:host
    """
    found, own = choose_model(load_agent(agent), model)
    runtime = setting.runtime(own)
    limits = parse_limits(setting.limits)
    with event_loop.runner() as runner:
        with diverted(None):
            runner.run(runtime.__aenter__())
        try:
            session = runner.run(runtime.open(found, limits=limits, title=f"chat with {found.name}"))
            is_interactive = sys.stdin.isatty()
            where = f"session {session.session_id} in {setting.log}"
            talk(f"{found.name}: /help lists commands, Ctrl-D leaves; {where}" if is_interactive else where)
            conversation = Conversation(runner, session, setting, as_json=as_json)
            for prompt in prompts(is_interactive=is_interactive):
                conversation.take(prompt)
            with diverted(None):
                runner.run(session.close())
        finally:
            runner.run(runtime.aclose())
    talk(f"look at it: callboard show {session.session_id}{log_flag()}")
    return 0 if is_interactive or conversation.is_ok else FAILED


class Conversation:
    """The asks of one session. is_ok: whether every ask had a result."""

    def __init__(self, runner: asyncio.Runner, session: Session, setting: Setting, *, as_json: bool) -> None:
        self.is_ok = True
        self._runner = runner
        self._session = session
        self._setting = setting
        self._as_json = as_json
        self._next_seq = 1
        self._tree = Tree()

    def take(self, line: str) -> None:
        """Handle a line: a command such as `/help`, or a prompt."""
        if line == "/help":
            talk(_HELP)
        elif line == "/tree":
            emit_lines(tree_lines(self._tree, Space(console_on().width), self._tree.last_at))
        else:
            self._ask(line)

    def _ask(self, prompt: str) -> None:
        begun = now_ms()
        outcome, streamed = self._runner.run(self._run(prompt))
        elapsed = now_ms() - begun
        self.is_ok = self.is_ok and outcome.is_ok
        if self._as_json:
            emit_json(outcome_json(outcome, self._setting.log, elapsed), is_line=True)
        elif outcome.is_ok and not streamed.endswith(outcome.text):
            emit(outcome.text)
        said = "" if outcome.is_ok else f"{ending(outcome.kind, outcome.detail)}; "
        talk(f"[{said}{usage_text(outcome.usage)}, {duration(elapsed)}]")

    async def _run(self, prompt: str) -> tuple[Outcome, str]:
        is_streaming = sys.stdout.isatty() and not self._as_json
        async with watching_chat(self._session, self._next_seq, is_streaming=is_streaming) as view:
            self._tree, self._setting.approver.view = view.live.tree, view.live
            with interrupts(self._session, view.close, lead="\n"), diverted(view.live):
                outcome = await self._session.ask(prompt)
        self._next_seq = view.live.last_seq + 1
        return outcome, view.transcript.text if is_streaming else ""


def prompts(*, is_interactive: bool) -> Iterator[str]:
    """Yield each line that is typed or piped in, until `/quit` or the end; blank lines are skipped."""
    if is_interactive:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # its import is what gives input() editing and history
    while (line := _typed() if is_interactive else sys.stdin.readline()) and line.strip() != "/quit":
        if line.strip():
            yield line.strip()


def _typed() -> str:
    """Read one line from the terminal; empty at its end, a line break after Ctrl-C."""
    try:
        if sys.stdout.isatty():
            return input("> ") + "\n"
        click.echo("> ", nl=False, err=True)
        return sys.stdin.readline()
    except EOFError:
        click.echo(err=True)
        return ""
    except KeyboardInterrupt:
        talk("\nto leave, press Ctrl-D or type /quit")
        return "\n"
