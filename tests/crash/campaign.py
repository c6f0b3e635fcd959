"""A campaign: rounds of sessions whose process is killed again and again until they end, and then checked.

A round is a log file with one to three sessions and a plan of deaths, all drawn from the seed and the
number of the round. Runs are forked from this process: a fork costs a millisecond, a new interpreter two
hundred. So this process starts no threads and opens no log during a run. Every twentieth run is still a new
interpreter, with another hash seed.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Final, Literal

import msgspec

from tests.crash import child, stacks
from tests.crash.child import STACKS, Job, Talk
from tests.crash.leaving import LOOP_END, POLITE, SERVED
from tests.crash.notes import SeenSleep, read_seen
from tests.crash.points import IN_RESUME, POINTS, RANDOM, TORN, Death
from tests.crash.service import serving
from tests.crash.verdict import heads_of, seen_up_to, wrong_after_kill, wrong_after_leaving, wrong_at_end

PATIENCE_S: Final = 60.0
"""A normal run is far shorter; a run that takes this long hangs."""

TORN_AT_MAX: Final = 90_000
"""Bytes; the WAL is restarted soon after it reaches this length."""

KILLS_PER_ROUND_MAX: Final = 8
FRESH_EVERY: Final = 20
_OFTEN: Final = ("before append", "after append", "in a transaction", "in a commit", TORN)
"""Points that a run passes many times."""
_LAYER: Final = ("callboard.runtime.models.layered.layer", "callboard.runtime.models.layered.openai_layer")
_LATE: Final = ("in a transaction", "in a commit", "in a checkpoint")
"""Points that SQLite reports before it does the work that the kill cuts off."""

End = Literal["killed", "left", "done", "failed", "hung"]


class Plan(msgspec.Struct, frozen=True):
    """The settings of a campaign.

    first, every: the numbers of the rounds. only: the only point to kill at. break_: the way in which the
    runtime is broken. patience_s: the longest time of a run. is_served: a server on loopback answers the
    models' requests.
    """

    kills: int
    seed: str
    first: int = 0
    every: int = 1
    only: str = ""
    break_: str = ""
    patience_s: float = PATIENCE_S
    is_served: bool = False


class Result(msgspec.Struct):
    """The result of a campaign. kills: by point. wrong: the findings, each with its round."""

    kills: dict[str, int]
    rounds: int = 0
    sessions: int = 0
    runs: int = 0
    fresh: int = 0
    slept: int = 0
    effects: int = 0
    events: int = 0
    wrong: list[str] = []

    @property
    def killed(self) -> int:
        """Return the number of killed processes."""
        return sum(self.kills.values())

    def add(self, other: "Result") -> None:
        """Add the result of another part of the campaign."""
        self.kills = dict(Counter(self.kills) + Counter(other.kills))
        self.wrong += other.wrong
        for name in ("rounds", "sessions", "runs", "fresh", "slept", "effects", "events"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Round:
    """One log file, from its first run to its last."""

    def __init__(self, folder: Path, seed: str, result: Result, plan: Plan, service: str = "") -> None:
        self.folder = folder
        self.result = result
        self.plan = plan
        self.service = service
        self.chance = Random(seed)
        self.talks = tuple(
            self._talk(f"s{number}", f"{seed}/{number}") for number in range(self.chance.randint(1, 3))
        )
        self.idle_s = self.chance.choice([None, 0.001, 0.003, 0.02])
        self.runs = 0

    def _talk(self, name: str, seed: str) -> Talk:
        asks = self.chance.randint(2, 4)
        tells = {number: self.chance.uniform(0, 0.03) for number in range(asks) if self.chance.random() < 0.4}
        return Talk(name, seed, asks, self._cancels(), tells, self.chance.random() < 0.3)

    def _cancels(self) -> dict[int, float]:
        is_impatient = self.chance.random() < 0.3
        return {self.chance.randint(0, 2): self.chance.uniform(0.005, 0.05)} if is_impatient else {}

    def play(self, kills: int) -> list[str]:
        """End the process up to `kills` times, then let the sessions end. Return the findings."""
        for _ in range(kills):
            end, wrong = self._run(self._death())
            if wrong:
                return wrong
            if end == "done":
                return self._wrong_at_end()
        _, wrong = self._run(Death())
        return wrong or self._wrong_at_end()

    def _wrong_at_end(self) -> list[str]:
        return wrong_at_end(self.folder, {talk.name: talk.asks for talk in self.talks})

    def _run(self, death: Death) -> tuple[End, list[str]]:
        heads = heads_of(self.folder) if death.point in POLITE else {}
        end = self._lived(death)
        if end == "failed":
            return end, ["a run raised: " + (self.folder / "error.txt").read_text()]
        if end == "hung":
            return end, [f"a run hung, with {death}\n{(self.folder / STACKS).read_text()}"]
        if end in ("killed", "left"):
            self.result.kills[death.point] = self.result.kills.get(death.point, 0) + 1
            if end == "left" and death.point != LOOP_END:
                wrong = wrong_after_leaving(self.folder, heads)
            else:
                wrong = wrong_after_kill(self.folder)
            return end, [f"{what} ({end} {death.point})" for what in wrong]
        return end, []

    def _death(self) -> Death:
        chance = self.chance
        possible = [point for point in POINTS if self.runs or point not in IN_RESUME]
        point = self.plan.only or self._next(possible)
        nth = 1 if point in IN_RESUME else chance.randint(1, 40 if point in _OFTEN else 6)
        longest_s = 0.6 if self.service else 0.15
        after_s = chance.uniform(0.0, longest_s) if point in (RANDOM, *POLITE) else 0.0
        is_late = chance.random() < 0.6 and point in (*_LATE, *POLITE)
        return Death(point, nth, after_s, is_late, chance.randint(40, TORN_AT_MAX))

    def _next(self, possible: list[str]) -> str:
        # Half of the draws take the least hit point, so that a short campaign meets all of them.
        if self.chance.random() < 0.5:
            return self.chance.choice([*possible, RANDOM, RANDOM])
        return min(possible, key=lambda point: (self.result.kills.get(point, 0), self.chance.random()))

    def _lived(self, death: Death) -> End:
        """Execute one run until it ends or is killed."""
        self.runs += 1
        self.result.runs += 1
        seen = seen_up_to(self.folder)
        is_whole = self.chance.random() < 0.2  # sometimes a user watches from the start again
        watch_from = {} if is_whole else {name: seq + 1 for name, seq in seen.items()}
        settings = (self.idle_s, self.plan.break_, self.service)
        job = Job(str(self.folder), self.talks, death, watch_from, *settings)
        bell, rope = os.pipe()
        try:
            pid = self._born(job, bell, rope)
            os.close(rope)
            return _fate(pid, bell, death, self.plan.patience_s, self.folder / STACKS)
        finally:
            os.close(bell)

    def _born(self, job: Job, bell: int, rope: int) -> int:
        """Start a run: a fork of this process, or now and then a new interpreter."""
        if self.result.runs % FRESH_EVERY == 0:
            self.result.fresh += 1
            return _fresh(job, rope, self.result.runs)
        pid = os.fork()
        if pid == 0:
            os.close(bell)
            os._exit(child.run(job, rope))
        return pid


def _fresh(job: Job, rope: int, hash_seed: int) -> int:
    command = [sys.executable, "-m", "tests.crash.child", msgspec.json.encode(job).decode(), str(rope)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    process = subprocess.Popen(command, pass_fds=[rope], env=environment)
    process.returncode = 0  # so that Popen does not wait for it: `_fate` does, by its id
    return process.pid


def _fate(pid: int, bell: int, death: Death, patience_s: float, stacks_path: Path) -> End:
    """Wait for the end of a run, and kill it where that is the task of the parent."""
    limit_s = death.after_s if death.point == RANDOM else patience_s
    is_ready = bool(select.select([bell], [], [], limit_s)[0])
    if not is_ready and death.point != RANDOM:
        stacks.ask(pid, stacks_path)
    is_over = is_ready and not os.read(bell, 1)  # no process holds the other end any more
    if not is_over:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if not is_ready and death.point != RANDOM:
        return "hung"
    if os.WIFSIGNALED(status):
        return "killed"
    code = os.WEXITSTATUS(status)
    return "done" if code == 0 else "left" if code == child.LEFT else "failed"


def run(folder: Path, plan: Plan, told: Callable[[Result], None] = lambda result: None) -> Result:
    """Run rounds until enough processes are killed or a check fails. told: gets the result after each."""
    for module in ("callboard.runtime.schemas.compiled", SERVED, *_LAYER * plan.is_served):
        import_module(module)  # here, so that no run imports it again
    with serving() if plan.is_served else nullcontext("") as service:
        return _rounds(folder, plan, told, service)


def _rounds(folder: Path, plan: Plan, told: Callable[[Result], None], service: str) -> Result:
    result = Result({})
    number = plan.first
    while result.killed < plan.kills and not result.wrong:
        place = folder / f"round-{number}"
        place.mkdir(parents=True)
        one = Round(place, f"{plan.seed}/{number}", result, plan, service)
        wrong = one.play(min(one.chance.randint(2, KILLS_PER_ROUND_MAX), plan.kills - result.killed))
        result.wrong += [f"round {number}: {what}" for what in wrong]
        _count(result, one)
        if not wrong:
            shutil.rmtree(place)
        told(result)
        number += plan.every
    return result


def _count(result: Result, one: Round) -> None:
    result.rounds += 1
    result.sessions += len(one.talks)
    effects = one.folder / "effects"
    result.effects += effects.read_bytes().count(b"}") if effects.exists() else 0
    result.slept += sum(isinstance(note, SeenSleep) for note in read_seen(one.folder / "seen"))
    result.events += sum(seen_up_to(one.folder).values())
