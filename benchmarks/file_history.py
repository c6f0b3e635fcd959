"""The history of files: the size of 1,000 versions in the log, and the time of a list as of an event.

    python benchmarks/file_history.py

A source file of 100 KB changes by 1 % each time: a tool that is given the number of the version replaces that
share of its lines. The size is that of the log with all events, and of the contents alone. The times are
processor times, the least of several.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from callboard import Agent, Files, Limits, ModelRequest, Runtime, ScriptedModel, ToolContext, call, say, tool
from callboard.files import files_of
from callboard.replay import Recording

VERSIONS: Final = 1_000
FILE_BYTES: Final = 100_000
SHARE: Final = 0.01
ROUNDS: Final = 5

WORDS: Final = (
    "self",
    "return",
    "value",
    "for",
    "name",
    "in",
    "items",
    "if",
    "not",
    "None",
    "class",
    "import",
)


def line(chance: random.Random) -> str:
    """Return a line that compresses as source text does: to about a third."""
    words = (f"{chance.choice(WORDS)}{chance.randrange(40)}" for _ in range(chance.randint(1, 8)))
    return "    " * chance.randrange(4) + " ".join(words) + "\n"


class Source:
    """A source file that changes. lines: of it, as they are now."""

    def __init__(self, size: int = FILE_BYTES) -> None:
        self._chance = random.Random(1)
        self.lines: list[str] = []
        while sum(map(len, self.lines)) < size:
            self.lines.append(line(self._chance))

    def change(self) -> str:
        """Replace a share of the lines, and return the text."""
        for _ in range(max(1, int(len(self.lines) * SHARE))):
            self.lines[self._chance.randrange(len(self.lines))] = line(self._chance)
        return "".join(self.lines)


def record(folder: Path, versions: int) -> Path:
    """Record a session that writes versions of a file. Return its log."""
    source = Source()
    (folder / "root").mkdir()
    (folder / "root/source.py").write_text("".join(source.lines))

    @tool(effect="write")
    def change(number: int, ctx: ToolContext) -> str:
        """Write the next version."""
        ctx.files.write_text("source.py", source.change())
        return "changed"

    def policy(request: ModelRequest) -> object:
        return call("change", number=request.turn) if request.turn <= versions else say("done")

    files = Files(folder / "root", write=["."], history=True)
    limits = Limits(max_iterations=versions + 1)
    runtime = Runtime(folder / "log.db", model=ScriptedModel(policy), files=files)  # type: ignore[arg-type]  # a Reply or a Call
    runtime.run_sync(Agent("host", tools=[change]), "go", session_id="s", limits=limits)
    return folder / "log.db"


def least(work: Callable[[], object]) -> float:
    """Return the least processor time of several runs, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return 1_000 * min(times)


def main() -> None:
    """Record, and print the figures."""
    versions = int(sys.argv[1]) if len(sys.argv) > 1 else VERSIONS
    with tempfile.TemporaryDirectory() as place:
        begun = time.process_time()
        log = record(Path(place), versions)
        took = 1_000 * (time.process_time() - begun)
        size = log.stat().st_size
        with Recording.open(log, "s") as recording:
            head = recording.head.seq
            found = files_of(recording)
            print(f"{versions:,} versions of {FILE_BYTES:,} bytes, {SHARE:.0%} changed each time")
            print(f"log: {size / 1e6:.1f} MB, of which versions {found.history.stored_bytes / 1e6:.1f} MB")
            print(f"recorded in {took / versions:.1f} ms a version")
            for at in (1, head // 2, head):
                print(f"list as of event {at:,}: {least(lambda at=at: files_of(recording, at)):.1f} ms")  # type: ignore[misc]  # a default
            print(f"one version: {least(lambda: files_of(recording).read('source.py')):.1f} ms")


if __name__ == "__main__":
    main()
