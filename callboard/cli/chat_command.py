"""`callboard chat`: one prompt after another, in one session."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from itertools import takewhile
from typing import Final

import click

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.cli.errors import FAILED
from callboard.cli.foreground import Setting, interrupts, setting_options
from callboard.cli.live import LiveTree, background, diverted
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import agent_argument, json_option, log_flag, model_option, parse_limits
from callboard.cli.outcomes import ending, outcome_json, usage_text
from callboard.cli.output import console_on, emit, emit_json, emit_lines, talk
from callboard.cli.terminal_escape import safe_text
from callboard.cli.tree_view import Space, tree_lines
from callboard.cli.typing_ahead import QUIT, TypingAhead
from callboard.cli.word_wrap import WordWrap, terminal_width, wrapped
from callboard.replay.formats import duration
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import now_ms
from callboard.runtime.compaction import Compact
from callboard.runtime.log.tree import Tree
from callboard.runtime.programs.program import Program
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.stream_items import StreamCut, StreamEvent, TextDelta, TextReset

_LAG_S: Final = 0.04  # between two looks for new text
_QUIET_LOOKS: Final = 12  # half a second without new text, after which the beginning of a word is shown
_HELP: Final = (
    "/tree  show the agents    /help  show this    /quit or Ctrl-D  leave    Ctrl-C  leave, to be resumed\n"
    "While agents work, each line that you type is a message to the host."
)


@click.command("chat")
@agent_argument
@model_option
@setting_options
@json_option
def chat(agent: str, model: str, setting: Setting, as_json: bool) -> int:
    """Talk with an agent, or send it prompts line by line.

    On a terminal, type a prompt: the answer streams in, wrapped at words, and the tree of
    agents is shown while the agent delegates. Ctrl-C during an ask leaves the session to `callboard resume`,
    Ctrl-D or /quit ends it, and /help lists the rest. A line that you type while agents work is a message to
    the host, which reads it in its next request; if the host can no longer read it, it is kept as the next
    prompt, and the chat says so. Before the conversation fills the window of its model, it is shortened, as
    with `Agent(compact=Compact())`.

    Through a pipe, each line is an ask and each result goes to stdout; with --json, one JSON object per line.
    The exit code is 1 if any ask had no result.

    \b
    Examples:
      callboard chat survey:host
      callboard chat survey:host --model claude-sonnet-5 --limit tokens=500k
      printf 'Which files are here?\\nHow large?\\n' | callboard chat survey:host
    """
    found, own = choose_model(_compacted(setting.equipped(load_agent(agent))), model)
    runtime = setting.runtime(own)
    limits = parse_limits(setting.limits)
    with event_loop.runner() as runner:
        with diverted(None):
            runner.run(runtime.__aenter__())
        try:
            session = runner.run(_opened(runtime, found, limits))
            is_interactive = sys.stdin.isatty()
            where = f"session {session.session_id} in {setting.log}"
            talk(f"{found.name}: /help lists commands, Ctrl-D leaves; {where}" if is_interactive else where)
            conversation = Conversation(
                runner,
                session,
                setting,
                words=words_of(found),
                as_json=as_json,
                is_interactive=is_interactive,
            )
            for prompt in prompts(is_interactive=is_interactive):
                conversation.take(prompt)
                if not conversation.take_kept():
                    break
            with diverted(None):
                runner.run(session.close())
        finally:
            runner.run(runtime.aclose())
    talk(f"look at it: callboard show {session.session_id}{log_flag()}")
    return 0 if is_interactive or conversation.is_ok else FAILED


def _compacted(agent: Agent) -> Agent:
    """Return a host whose conversation is shortened, by its own rules if it has some."""
    is_own = agent.compact is not None or isinstance(agent, Program)
    return agent if is_own else agent.with_compact(Compact())


async def _opened(runtime: Runtime, agent: Agent, limits: Limits) -> Session:
    return await runtime.open(agent, limits=limits, title=f"chat with {agent.name}")


def words_of(agent: Agent) -> Callable[[Outcome], str]:
    """Return the function that gives the result of an ask of this agent in words."""
    return agent.text_of if isinstance(agent, Program) else lambda outcome: outcome.text


class Conversation:
    """The asks of one session. is_ok: whether every ask had a result. is_interactive: a person types."""

    def __init__(
        self,
        runner: asyncio.Runner,
        session: Session,
        setting: Setting,
        *,
        words: Callable[[Outcome], str],
        as_json: bool,
        is_interactive: bool = False,
    ) -> None:
        self.is_ok = True
        self._kept: list[str] = []
        self._is_interactive = is_interactive
        self._runner = runner
        self._session = session
        self._setting = setting
        self._words = words
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

    def take_kept(self) -> bool:
        """Handle the lines that were typed during an ask and not heard. Return False after `/quit`."""
        while self._kept:
            line = self._kept.pop(0)
            talk(f"> {safe_text(line)}")
            if line == QUIT:
                return False
            self.take(line)
        return True

    def _ask(self, prompt: str) -> None:
        begun = now_ms()
        outcome, streamed = self._runner.run(self._run(prompt))
        elapsed = now_ms() - begun
        self.is_ok &= outcome.is_ok
        if self._as_json:
            emit_json(outcome_json(outcome, self._setting.log, elapsed), is_line=True)
        elif outcome.is_ok and not streamed.endswith(text := self._words(outcome)):
            emit(wrapped(safe_text(text), terminal_width()) if sys.stdout.isatty() else text)
        said = "" if outcome.is_ok else f"{ending(outcome.kind, outcome.detail)}; "
        talk(f"[{said}{usage_text(outcome.usage)}, {duration(elapsed)}]")

    async def _run(self, prompt: str) -> tuple[Outcome, str]:
        is_streaming = sys.stdout.isatty() and not self._as_json
        async with watching_chat(self._session, self._next_seq, is_streaming=is_streaming) as view:
            self._tree, self._setting.approver.view = view.live.tree, view.live
            with interrupts(self._session, view.close, lead="\n"), diverted(view.live):
                async with self._typing():
                    outcome = await self._session.ask(prompt)
        self._next_seq = view.live.last_seq + 1
        return outcome, view.transcript.text if is_streaming else ""

    @contextlib.asynccontextmanager
    async def _typing(self) -> AsyncIterator[None]:
        """Read what the person types while an ask runs."""
        if not self._is_interactive:
            yield
            return
        approver = self._setting.approver
        async with TypingAhead(self._session, self._kept) as approver.typing:
            try:
                yield
            finally:
                approver.typing = None


def prompts(*, is_interactive: bool) -> Iterator[str]:
    """Yield each line that is typed or piped in, until `/quit` or the end; blank lines are skipped."""
    read = _typed if is_interactive else sys.stdin.readline
    for line in takewhile(QUIT.__ne__, map(str.strip, iter(read, ""))):
        if line:
            yield line


def _typed() -> str:
    """Read one line from the terminal; empty at its end, a line break after Ctrl-C."""
    try:
        if sys.stdout.isatty():
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401  # its import is what gives input() editing and history
            return input("> ") + "\n"
        click.echo("> ", nl=False, err=True)
        return sys.stdin.readline()
    except EOFError:
        click.echo(err=True)
        return ""
    except KeyboardInterrupt:
        talk("\nto leave, press Ctrl-D or type /quit")
        return "\n"


class Transcript:
    """A stream of text: pieces are added, and new text is taken with the breaks between replies.

    text: all that was added and did not fail. ended: the position at which the last complete reply ended.
    """

    def __init__(self) -> None:
        self.text = ""
        self.ended = 0
        self._shown = 0
        self._ends: list[int] = []

    def add(self, piece: str, offset: int) -> None:
        """Add a piece of the reply under way, at its place in that reply."""
        self.text = self.text[: self.ended + offset] + piece

    def end_reply(self) -> None:
        """End the reply under way."""
        if len(self.text) > self.ended:
            self.ended = len(self.text)
            self._ends.append(self.ended)

    def reset(self) -> bool:
        """Drop the reply under way. Return True if some of it was taken."""
        was_taken = self._shown > self.ended
        self.text, self._shown = self.text[: self.ended], min(self._shown, self.ended)
        return was_taken

    def take(self, upto: int | None = None) -> str:
        """Take the new text up to a position, each reply ended with a line break."""
        upto = len(self.text) if upto is None else upto
        made = []
        while self._ends and self._ends[0] <= upto:
            end = self._ends.pop(0)
            made.append(self._upto(end) + "\n" * (not self.text[:end].endswith("\n")))
        return "".join([*made, self._upto(upto)])

    def _upto(self, end: int) -> str:
        piece = self.text[self._shown : end]
        self._shown = max(self._shown, end)
        return piece


class ChatView:
    """The text of one ask on stdout, if stdout is a terminal, and its agents on stderr.

    While sub-agents work, the tree has the terminal and text waits.
    """

    def __init__(self, *, is_streaming: bool) -> None:
        self.live = LiveTree(sys.stderr)
        self.transcript = Transcript()
        self._out = sys.stdout
        self._is_streaming = is_streaming
        self._is_tree_shown = False
        self._wrap = WordWrap()
        self._quiet_looks = 0
        self._before_delegation: int | None = None

    def add(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event.body, ModelReplied) and event.recipient == HOST and event.body.status == "ok":
            self.transcript.end_reply()
        is_first = self.live.is_live and self._before_delegation is None
        if is_first and isinstance(event.body, Begin) and event.recipient != HOST:
            self._before_delegation = self.transcript.ended
        self.live.add(event)

    def reset(self) -> None:
        """Drop the text of a reply that failed. The part on the screen stays, marked."""
        if self.transcript.reset():
            self._end_line()
            talk("[the reply was cut off]")

    def draw(self) -> None:
        """Show new text, or the tree while a sub-agent works."""
        if self._before_delegation is None:
            self._show_text()
            return
        if not self._is_tree_shown:
            self._show_text(self._before_delegation)
            self._end_line()
            self.live.start()
            self._is_tree_shown = True
        if any(not node.is_over for node in self.live.tree.nodes.values() if node.address != HOST):
            self.live.refresh()
        else:
            self._hide_tree()

    def close(self) -> None:
        """Show the rest and release the terminal."""
        self.draw()
        self._hide_tree()
        self._show_text()
        self._end_line()

    def _hide_tree(self) -> None:
        if self._is_tree_shown:
            self.live.close()
            self._is_tree_shown, self._before_delegation = False, None

    def _show_text(self, upto: int | None = None) -> None:
        """Write the text up to a position, if text is streamed, broken at words."""
        text = self.transcript.take(upto) if self._is_streaming else ""
        self._quiet_looks = 0 if text else self._quiet_looks + 1
        width = terminal_width()
        if text:
            self._write(self._wrap.add(safe_text(text), width))
        elif self._quiet_looks == _QUIET_LOOKS:
            self._write(self._wrap.release(width))

    def _end_line(self) -> None:
        """Write the last word, and end the line on stdout if text stands on it."""
        is_open = self._wrap.is_line_open
        self._write(self._wrap.flush(terminal_width()))
        if is_open:
            self._write("\n")
            self._wrap = WordWrap()

    def _write(self, text: str) -> None:
        if text:
            click.echo(text, nl=False, file=self._out)


@contextlib.asynccontextmanager
async def watching_chat(session: Session, start: int, *, is_streaming: bool) -> AsyncIterator[ChatView]:
    """Show one ask while the body runs. start: the first event to show."""
    view = ChatView(is_streaming=is_streaming)
    if not view.live.is_live:
        view.live.start()
    try:
        async with background(_feed(session, view, start), _draw(view)):
            yield view
            await view.live.caught_up()
    finally:
        view.close()


async def _feed(session: Session, view: ChatView, start: int) -> None:
    after: int | None = start - 1
    while after is not None:
        stream, after = session.stream(after), None
        async with aclosing(stream):
            async for item in stream:
                match item:
                    case StreamEvent(event=event):
                        view.add(event)
                        if isinstance(event.body, AskEnded):
                            return
                    case TextDelta(address="host"):
                        view.transcript.add(item.text, item.offset)
                    case TextReset(address="host"):
                        view.reset()
                    case StreamCut():
                        after = item.after
                    case _:
                        pass


async def _draw(view: ChatView) -> None:
    while True:
        await asyncio.sleep(_LAG_S)
        view.draw()
