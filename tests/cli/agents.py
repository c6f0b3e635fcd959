"""The module that tests of `run` and `chat` load: written to a folder, as a user's own would be."""

import contextlib
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from tests.processes import ENDS_WITHIN_S, import_path, running

ROOT = Path(__file__).parent.parent.parent

SURVEY = '''
import asyncio
import time
from callboard import Agent, ScriptedModel, ToolContext, call, calls, fail, program, say, tool

@tool(effect="read")
def count_files(folder: str) -> str:
    """Count the files in a folder."""
    print("counting", folder)
    return f"{folder}: 3 files"

@tool(effect="read")
async def wait(seconds: float) -> str:
    """Wait."""
    print("it waits now")
    await asyncio.sleep(seconds)
    return "waited"

@tool(effect="read")
def block(seconds: float) -> str:
    """Wait, and hear nothing meanwhile."""
    time.sleep(seconds)
    return "waited"

@tool(approval="before")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"

@tool(effect="read")
def peek(ctx: ToolContext) -> str:
    """Show the door's code."""
    return "the code is " + ctx.secret("DOOR")

print("the module is loaded")
counter = Agent("counter", description="Counts.", tools=[count_files])
host = Agent("host", agents=[counter], model=ScriptedModel({
    "host": [
        calls(
            call("task", agent="counter", prompt="Count the files in src"),
            call("task", agent="nobody", prompt="Do anything"),
            text="Let me see.",
        ),
        say("There are 3 files."),
        say("You are welcome."),
    ],
    "counter": [call("count_files", folder="src"), say("3 files")],
}))
reporter = Agent("reporter", model=ScriptedModel([call("report_back", count=3)]))
failing = Agent("failing", model=ScriptedModel([
    calls(call("wait", seconds=0), text="I got this far.\\nerror: forged"),
    fail("invalid_request_error", "no\\x1b[2Jway", is_retryable=False),
]), tools=[wait])
paying = Agent("paying", tools=[pay], model=ScriptedModel(
    lambda asked: call("pay", euros=5) if asked.turn == 1 else say(str(asked.conversation[-1]["content"]))
))
peeking = Agent("peeking", tools=[peek], model=ScriptedModel(
    lambda asked: call("peek") if asked.turn == 1 else say(str(asked.conversation[-1]["content"]))
))
waiting = Agent("waiting", model=ScriptedModel([call("wait", seconds=60), say("done")]), tools=[wait])
blocking = Agent("blocking", model=ScriptedModel([call("block", seconds=60), say("done")]), tools=[block])
modelless = Agent("modelless")
wordy = Agent("wordy", model=ScriptedModel(lambda asked: say("callboard pins up " * 20 + "全員集合。" * 20)))
slow = Agent("slow", tools=[wait], model=ScriptedModel(
    lambda asked: say("Slowly done.") if asked.turn % 2 == 0 else call("wait", seconds=1)
))

@program(tools=[wait])
async def errand(ctx, prompt):
    """Run an errand."""
    await ctx.call(wait, seconds=1 if prompt == "Go." else 0)
    return f"Done: {prompt}"
greeting = ["Hello."]
'''


def environment(**more: str) -> dict[str, str]:
    """Return a clean environment: no API key, no colour settings, one locale."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    kept["CALLBOARD_UVLOOP"] = os.environ.get("CALLBOARD_UVLOOP", "0")
    return {
        **kept,
        "PYTHONPATH": import_path(ROOT),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TZ": "UTC",
        **more,
    }


def command(*arguments: str) -> list[str]:
    """Return the command line of a process, with warnings as errors."""
    return [sys.executable, "-W", "error", "-m", "callboard", *arguments]


@contextlib.contextmanager
def waiting_run(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run an agent that waits, in a process of its own, from its first shown line on. End it afterwards."""
    words = command("run", "survey:waiting", "Wait.")
    with running(words, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # A shown line is durable. readline() gives "" once the process has ended.
        while (line := process.stderr.readline()) and "start" not in line:
            pass
        assert "start" in line
        yield process


def piped(folder: Path, *arguments: str, text: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
    """Run it with pipes for all three streams."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(**more),
        input=text,
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        check=False,
    )


class Terminal:
    """A process on a terminal of its own."""

    def __init__(
        self, folder: Path, *arguments: str, columns: int = 80, lines: int = 24, **more: str
    ) -> None:
        import fcntl
        import struct
        import termios

        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            command(*arguments),
            cwd=folder,
            env=environment(**more),
            preexec_fn=lambda: os.login_tty(theirs),  # Ctrl-C needs a controlling terminal
        )
        os.close(theirs)
        self.shown = ""
        self._seen = 0

    def until(self, words: str, timeout_s: float = ENDS_WITHIN_S) -> str:
        """Wait until these words are shown, after those waited for before; returns all up to them."""
        ends_at = time.monotonic() + timeout_s
        while words not in self.shown[self._seen :]:
            if not self._read(ends_at - time.monotonic()):
                raise AssertionError(f"{words!r} was not shown; instead: {self.shown[self._seen :]!r}")
        begun, self._seen = self._seen, self.shown.index(words, self._seen) + len(words)
        return self.shown[begun : self._seen]

    def type_until(self, text: str, words: str) -> None:
        """Type a text again and again until these words are shown.

        For Ctrl-C at a prompt: the C library shows the prompt a moment before it listens for signals.
        """
        for _ in range(30):
            self.type(text)
            with contextlib.suppress(AssertionError):
                self.until(words, 0.5)
                return
        raise AssertionError(f"{words!r} was not shown")

    @property
    def text(self) -> str:
        """Return all shown text, without the sequences that colour it and move the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self._ours)

    def end(self, timeout_s: float = ENDS_WITHIN_S) -> int:
        """Wait for the end; returns the exit code."""
        ends_at = time.monotonic() + timeout_s
        while self._read(ends_at - time.monotonic()):
            pass
        return self.process.wait(timeout=timeout_s)

    def _read(self, timeout_s: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, timeout_s))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the other side is closed
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


def lines_with(text: str, words: str) -> Sequence[str]:
    """Return the lines that have these words."""
    return [line for line in text.splitlines() if words in line]
