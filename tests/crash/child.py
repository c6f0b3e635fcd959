"""The program that is killed: opens its sessions, or resumes them, and asks.

It is written as users write programs: every ask has a request id, so that asking again after a crash gives
the outcome of the same ask. It notes everything that it is shown before it continues.

    python -m tests.crash.child JOB BELL     one run as a process of its own
"""

import asyncio
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import MisuseError, SessionEnded, TellRefused, UnknownName
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval
from callboard.runtime.models.protocol import Model
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.context import ToolContext
from tests.crash import leaving, stacks
from tests.crash.agents import SCHEMA, TOOL_SETS, host_of, is_program, limits_of, scripted_model
from tests.crash.broken import BREAKS
from tests.crash.notes import (
    Effect,
    Notes,
    SeenEvent,
    SeenHead,
    SeenOutcome,
    SeenSleep,
    SeenState,
    SeenTell,
)
from tests.crash.points import Death, DyingLog, Reaper, install

FAILED: Final = 3
"""The exit code of a run that raised; its traceback is in `error.txt`."""

STACKS: Final = "stacks.txt"
"""The file in the folder of a round that gets the stacks of a run that hangs."""

LEFT: Final = 4
"""The exit code of a run that has left politely."""


class Talk(msgspec.Struct, frozen=True):
    """A session. seed: for the replies of its models. cancels: seconds until a cancel, by number of ask.

    tells: seconds until words for the host, by number of ask. reopens: its last ask comes after a close.
    """

    name: str
    seed: str
    asks: int
    cancels: dict[int, float] = {}
    tells: dict[int, float] = {}
    reopens: bool = False


class Job(msgspec.Struct, frozen=True):
    """A run: its folder, its sessions and its death.

    watch_from: the first seq to watch, by session. idle_s: None for sessions that never sleep; else they
    sleep after every ask. service: the address of the models' server; "" for scripted models.
    """

    folder: str
    talks: tuple[Talk, ...]
    death: Death = Death()
    watch_from: dict[str, int] = {}
    idle_s: float | None = None
    break_: str = ""
    service: str = ""

    @property
    def log(self) -> Path:
        """Return the path of the log file."""
        return Path(self.folder, "log.db")


def run(job: Job, bell: int) -> int:
    """Run the program once; return its exit code, unless it is killed."""
    _talk_aside(Path(job.folder, "stderr.txt"))
    stacks.install(Path(job.folder, STACKS))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    try:
        reaper = Reaper(job.death, bell)
        install(reaper)
        if job.break_:
            BREAKS[job.break_]()
        if leaving.run(_Program(job, reaper).begun, job.death.point, job.death.after_s):
            return LEFT
    except BaseException:
        Path(job.folder, "error.txt").write_text(traceback.format_exc())
        return FAILED
    return 0


def _talk_aside(path: Path) -> None:
    """Send stderr to a file."""
    # A campaign starts a thousand of these processes: their output would bury that of the parent.
    aside = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(aside, 2)
    os.close(aside)


class _Program:
    """The sessions of one run, side by side."""

    def __init__(self, job: Job, reaper: Reaper) -> None:
        self.job = job
        self.reaper = reaper
        self.seen = Notes(Path(job.folder, "seen"), reaper.may_note)
        self.effects = Notes(Path(job.folder, "effects"), reaper.may_note)
        self.watch_from = dict(job.watch_from)
        self.is_leaving = False

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[Awaitable[object]]:
        """Open the runtime and begin to drive every session to its end. Leave the runtime at the end."""
        log = DyingLog(self.job.log, self.reaper, self.seen)
        keeps = bool(self.job.service)
        async with Runtime(log, approve=self.approve, idle_s=self.job.idle_s, keep_requests=keeps) as runtime:
            known = {row.session_id for row in await log.sessions()}
            talks = (self.talk(runtime, talk, talk.name in known) for talk in self.job.talks)
            try:
                yield asyncio.gather(*talks)
            finally:
                self.is_leaving = True
                await runtime.aclose(grace_s=0 if self.job.death.is_late else 1)

    async def talk(self, runtime: Runtime, talk: Talk, is_known: bool) -> None:
        """Open or resume one session, ask all its asks and close it."""
        host = host_of(talk.seed, self.deed, self.model_of(talk.seed))
        try:
            if is_known:
                session = await runtime.resume(talk.name, host)
            else:
                session = await runtime.open(host, session_id=talk.name, limits=limits_of(talk.seed))
        except SessionEnded:
            if talk.reopens:
                await self.reopened(runtime, talk, host)
            return
        if is_known:
            with contextlib.suppress(MisuseError):  # it was killed before the first ask
                self.note(talk, await session.outcome)
        await self.drive(session, talk, talk.asks - talk.reopens)
        if talk.reopens:
            await self.reopened(runtime, talk, host)

    def model_of(self, seed: str) -> Model:
        """Create the model of a session."""
        if not self.job.service:
            return scripted_model(seed)
        from tests.crash.service import ServedScript  # its library takes a second that others do not need

        return ServedScript(self.job.service, seed)

    async def reopened(self, runtime: Runtime, talk: Talk, host: Agent) -> None:
        """Continue a closed session with its last ask, unless that has ended."""
        try:
            with contextlib.suppress(UnknownName):  # the last ask never reached the log
                if await runtime.outcome(talk.name, f"ask-{talk.asks - 1}", agent=host) is not None:
                    return
            session = await runtime.reopen(talk.name, host)
        except MisuseError:  # the runtime is not open any more
            if not self.is_leaving:
                raise
            return
        await self.drive(session, talk, talk.asks)

    async def drive(self, session: Session, talk: Talk, asks: int) -> None:
        """Ask the first asks of a session, also those that have ended, and close it."""
        watching = asyncio.create_task(self.watch(session))
        for number in range(asks):
            self.note(talk, await self.ask(session, talk, number))
            if self.job.idle_s is not None:
                await self.slept(session, watching)
                watching = asyncio.create_task(self.watch(session))  # it wakes the session beside the ask
        head = await session.close()
        did, count = tuple(session.state["did"]), session.state["count"]
        self.seen.write(
            SeenHead(talk.name, head.seq, head.digest.hex()), SeenState(talk.name, head.seq, did, count)
        )
        await watching

    async def slept(self, session: Session, watching: "asyncio.Task[None]") -> None:
        """Stop watching and wait for sleep, unless an earlier process had begun to close the session."""
        watching.cancel()
        await asyncio.wait([watching])
        with contextlib.suppress(SessionEnded):
            await self.until_asleep(session)
            self.seen.write(SeenSleep(session.id))

    async def until_asleep(self, session: Session) -> None:
        """Wait until the session sleeps. Raises SessionEnded, SessionDetached for one that never will."""
        while not session._is_asleep:  # a timer of the runtime does it
            session._check_open()
            await asyncio.sleep(0.001)

    async def ask(self, session: Session, talk: Talk, number: int) -> Outcome:
        """Ask, and cancel some asks before they end."""
        after_s = talk.cancels.get(number)
        handle = None
        if after_s is not None:
            loop = asyncio.get_running_loop()
            handle = loop.call_later(after_s, lambda: asyncio.ensure_future(session.cancel("enough")))
        if number % 2 and not is_program(talk.seed):
            with contextlib.suppress(SessionEnded):  # an earlier process had begun to close it
                await session.set_tools(TOOL_SETS[number % 4 // 2], agent="worker")
        telling = asyncio.create_task(self.tell(session, talk, number))
        schema = SCHEMA if number % 3 == 2 else None
        outcome = await session.ask(f"ask {number}", request_id=f"ask-{number}", output_schema=schema)
        if handle is not None:
            handle.cancel()
        await telling
        return outcome

    async def tell(self, session: Session, talk: Talk, number: int) -> None:
        """Say something to the host during an ask, and note the answer."""
        if (after_s := talk.tells.get(number)) is None:
            return
        await asyncio.sleep(after_s)
        name, turn = f"tell-{number}", 0
        with contextlib.suppress(SessionEnded):  # an earlier process had begun to close it: nothing to note
            with contextlib.suppress(TellRefused):  # an answer too: it is noted as turn 0
                turn = await session.tell("host", f"words {number}", request_id=name)
            self.seen.write(SeenTell(talk.name, name, turn))

    async def approve(self, question: Approval) -> bool | str:
        """Allow every call once, and refuse to repeat a call whose effect is unknown."""
        self.seen.write(SeenHead(question.session_id, question.seq, question.digest))
        await asyncio.sleep(0.001)
        return True if not question.is_repeat else "not again"

    async def watch(self, session: Session) -> None:
        """Note every event of the session."""
        name, loop = session.session_id, asyncio.get_running_loop()
        came: list[SeenEvent] = []
        async for event in session.events(self.watch_from.get(name, 1)):
            if not came:  # events that are already there go into one write
                loop.call_soon(self._keep, came)
            body = encode(event.body).decode()
            where = (event.seq, event.at, event.sender, event.recipient, event.cause)
            came.append(SeenEvent(name, *where, body))
            self.watch_from[name] = event.seq + 1
        self._keep(came)

    def _keep(self, came: list[SeenEvent]) -> None:
        if came:
            self.seen.write(*came)
            came.clear()

    def note(self, talk: Talk, outcome: Outcome) -> None:
        """Note an outcome and its head."""
        value = msgspec.json.encode(outcome.structured_output).decode()
        usage = msgspec.json.encode(outcome.usage).decode()
        told = SeenOutcome(talk.name, outcome.request_id, outcome.kind, outcome.text, value, usage)
        self.seen.write(told, SeenHead(talk.name, *outcome.head))

    def deed(self, effect: str, label: str, ctx: ToolContext) -> None:
        """Note the effect of a tool."""
        self.reaper.at("before effect")
        read = len(ctx.state["did"])
        ctx.update_state("did", label)
        ctx.update_state("count", 1)
        self.effects.write(Effect(ctx.session_id, label, effect, ctx.idempotency_key, os.getpid(), read))
        self.reaper.at("after effect")


if __name__ == "__main__":
    sys.exit(run(msgspec.json.decode(sys.argv[1], type=Job), int(sys.argv[2])))
