"""Deploy wrong code under programs that were killed or left, then roll back: `make crash-deploys`, or

    python -m tests.crash.wrong_deploys --programs 200 --seed 1

Each program is drawn. It runs once undisturbed. Then it is killed, or left politely, at a random point, and
its folder is copied: one copy goes on under the right code at once, the other first meets one to three wrong
versions. Both must end alike, with the same effects, and as the undisturbed one. Exit code 1 if a check
failed; then the folder is kept. `--seed S --first N --programs 1` repeats program N.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from callboard import Runtime
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.replay import Recording
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.programs.history import read_step
from tests.crash.deployed import FAULTS, Fault, Hooks, Plan, drawn, host_of
from tests.crash.step_points import pass_at_steps

_SESSION: Final = "s"
_PATIENCE_S: Final = 60
_CHECK_S: Final = 0.3  # a wrong version that never ends costs this
_TRIES: Final = 20  # deaths, until one comes while the program has begun and not ended
LEFT: Final = 4


class Job(msgspec.Struct, frozen=True):
    """What a process does: run the plan in a folder, under a fault, until a point.

    point: 0 for none. is_polite: it leaves there, else it is killed. is_check: it tries the code, and resumes
    nothing.
    """

    folder: str
    plan: Plan
    fault: Fault | None = None
    point: int = 0
    is_polite: bool = False
    is_check: bool = False


class Said(msgspec.Struct, frozen=True):
    """What a process leaves. points: those that it passed. refusal: of a wrong version."""

    kind: str = ""
    text: str = ""
    points: int = 0
    refusal: str = ""


class _Process:
    """A process that executes a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._passed = 0
        self._folder = Path(job.folder)
        self._leaves = asyncio.Event()

    def passes(self) -> None:
        self._passed += 1
        if self._passed != self._job.point:
            return
        if not self._job.is_polite:
            os.kill(os.getpid(), signal.SIGKILL)
        self._leaves.set()

    def act(self, kind: str, label: str, key: str) -> None:
        file = os.open(self._folder / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{kind} {label} {key}\n".encode())
        os.close(file)

    async def run(self) -> int:
        job = self._job
        host = host_of(job.plan, Hooks(self.act, self.passes), job.fault)
        async with Runtime(str(self._folder / "log.db"), check_timeout_s=_CHECK_S) as runtime:
            if job.fault is not None:
                async for found in runtime.resume_all([host], check=job.is_check):
                    is_right = isinstance(found.error, Diverged)
                    self._say(Said(refusal=str(found.error) if is_right else "", text=repr(found)))
                return 0
            session = await runtime.open(host, session_id=_SESSION, resume=True)
            asked = asyncio.ensure_future(session.ask("go", request_id="one"))
            leaves = asyncio.ensure_future(self._leaves.wait())
            await asyncio.wait([asked, leaves], return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                await session.detach(0)
                await asyncio.gather(asked, return_exceptions=True)
                return LEFT
            leaves.cancel()
            outcome = await asked
            await session.close()
            self._say(Said(outcome.kind, outcome.text, self._passed))
            return 0

    def _say(self, said: Said) -> None:
        (self._folder / "said").write_bytes(msgspec.json.encode(said))


def done(job: Job) -> int:
    """Execute a job in a fork of this process. Return its exit code; below 0, the signal that ended it."""
    (Path(job.folder) / "said").unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            signal.alarm(_PATIENCE_S)
            errors = os.open(Path(job.folder) / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(errors, 2)
            process = _Process(job)
            pass_at_steps(process.passes)
            code = _ended(process)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _ended(process: _Process) -> int:
    try:
        return asyncio.run(process.run())
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1


def said_in(folder: Path) -> Said:
    """Return what the last process of a folder has said."""
    path = folder / "said"
    return msgspec.json.decode(path.read_bytes(), type=Said) if path.exists() else Said()


class Case:
    """A program, and what is done to it. told: counts of what happened."""

    def __init__(self, folder: Path, seed: str, told: "collections.Counter[str]") -> None:
        self._chance = Random(seed)
        self._plan = drawn(self._chance)
        self._folder = folder
        self._told = told

    def wrong(self) -> str:
        """Play it. Return the fault, '' for none."""
        plain = self._new("plain")
        if done(Job(str(plain), self._plan)):
            return "the undisturbed run failed"
        expected = said_in(plain)
        left, begun = self._left(expected.points)
        if not begun:
            return "no death came while the program was under way"
        right, rolled_back = self._folder / "right", self._folder / "rolled_back"
        for copy in (right, rolled_back):
            shutil.copytree(left, copy, ignore=shutil.ignore_patterns("*.sock"))
        if done(Job(str(right), self._plan)):
            return "the run without a wrong deploy failed"
        for _ in range(self._chance.randint(1, 3)):
            if found := self._deployed(rolled_back, begun):
                return found
        if done(Job(str(rolled_back), self._plan)):
            return "the run after the rollback failed"
        return _difference(expected, right, rolled_back)

    def _new(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(parents=True)
        return folder

    def _left(self, points: int) -> tuple[Path, list[tuple[str, int]]]:
        """Let a process die or leave. Return its folder, and the parts that it has begun and not ended."""
        folder = self._folder
        for number in range(_TRIES):
            folder = self._new(f"left-{number}")
            is_polite = self._chance.random() < 0.4
            point = self._chance.randint(3, points)
            code = done(Job(str(folder), self._plan, point=point, is_polite=is_polite))
            begun = _begun(folder) if code in (-signal.SIGKILL, LEFT) else []
            if begun:
                self._told["left politely" if is_polite else "killed"] += 1
                return folder, begun
        return folder, []

    def _deployed(self, folder: Path, begun: list[tuple[str, int]]) -> str:
        """Deploy a wrong version. Return the fault, '' for none."""
        program, part = self._chance.choice(begun)
        fault = Fault(program, part, self._chance.choice(FAULTS))
        before = _heads(folder), _effects(folder)
        code = done(Job(str(folder), self._plan, fault, is_check=self._chance.random() < 0.3))
        after = _heads(folder), _effects(folder)
        self._told[f"{fault.kind} in a {'host' if program == 'host' else 'sub-agent'}"] += 1
        if code or not said_in(folder).refusal:
            return f"{fault} was not refused: exit code {code}, {said_in(folder).text}"
        return "" if before == after else f"{fault} left something: {before} became {after}"


def _heads(folder: Path) -> list[tuple[str, int, int]]:
    with SQLiteReader(folder / "log.db") as reader:
        return [(row.status, row.epoch, row.head) for row in reader.sessions()]


def _effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def _begun(folder: Path) -> list[tuple[str, int]]:
    """Return the parts, as (program, part), in which agents that have not ended have asked something."""
    if [status for status, *_ in _heads(folder)] != ["unfinished"]:
        return []
    with Recording.open(folder / "log.db", _SESSION) as recording:
        events = list(recording.events)
    last = {event.recipient: event.body for event in events if isinstance(event.body, ModelReplied)}
    # Behind the end of its run, a program waits for calls that it gave up: its code is not needed any more.
    ended = {
        address
        for address, reply in last.items()
        if reply.status == "ok" and read_step(reply.content).ending is not None
    }
    found: dict[tuple[str, int], None] = {}
    for event in events:
        if event.sender in ended:
            continue
        if isinstance(event.body, CallTool):
            label = msgspec.json.decode(event.body.arguments)["label"]
        elif isinstance(event.body, Delegate):
            label = msgspec.json.decode(event.body.prompt)
        else:
            continue
        program, part, *_ = label.rpartition("/")[2].split(".")
        found[program, int(part)] = None
    return list(found)


def _difference(expected: Said, right: Path, rolled_back: Path) -> str:
    """Return how two ends differ from each other, or from the undisturbed one; '' for not at all."""
    one, other = said_in(right), said_in(rolled_back)
    if (one.kind, one.text) != (other.kind, other.text):
        return f"it ends otherwise after a rollback: {one} became {other}"
    if (expected.kind, expected.text) != (one.kind, one.text.replace(" ?", "")):
        return f"it ends otherwise than undisturbed: {expected} became {one}"
    effects, after = _effects(right), _effects(rolled_back)
    if effects != after:
        return f"the effects differ: {effects} became {after}"
    writes = collections.Counter(line.split(" ")[1] for line in after if line.startswith("write "))
    if max(writes.values(), default=0) > 1:
        return f"a write ran twice: {writes.most_common(1)}"
    with Recording.open(rolled_back / "log.db", _SESSION) as recording:
        verified = recording.verify()
    return "" if verified.is_ok else f"the log does not verify: {verified}"


def main() -> int:
    """Run the campaign and return the exit code."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--folder", default="", help="folder of the logs during the campaign")
    args = parser.parse_args()
    folder = Path(args.folder or tempfile.mkdtemp(prefix="callboard-deploys-"))
    print(f"seed {args.seed}: {args.programs} programs", flush=True)
    told: collections.Counter[str] = collections.Counter()
    wrong = 0
    for number in range(args.first, args.first + args.programs):
        place = folder / str(number)
        if found := Case(place, f"{args.seed}/{number}", told).wrong():
            wrong += 1
            print(f"program {number}: {found}\n  its folder is {place}", flush=True)
        else:
            shutil.rmtree(place)
    for what, count in sorted(told.items()):
        print(f"{count:6,}  {what}")
    print(f"{args.programs - wrong} of {args.programs} programs end as without the wrong deploys")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
