"""A process that is killed with kill -9 while eight sessions share budgets: the sums hold, on SQLite."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from callboard import Agent, Budget, Outcome, Runtime, ScriptedModel, Usage, call, say, tool
from callboard.actors.protocol.port_messages import BudgetGiven
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.budget_keys import BudgetKeys, Settlement
from callboard.replay import Recording
from callboard.runtime.models.scripted import Step
from tests.runtime.log.kit import child

SESSIONS = 8
BUDGETS = {"*": Budget(tokens=60_000, per="month"), "tenant:*": Budget(tokens=40_000)}


@tool(effect="read")
def look(n: int) -> str:
    """Look something up."""
    return "found"


def host_of(started: Path) -> Agent:
    """Return an agent of four calls, each of which notes in a file that it has started."""

    async def policy(request: ModelRequest) -> Step:
        with started.open("a") as file:
            file.write(f"{request.session_id} {request.turn} {request.attempt}\n")
        await asyncio.sleep(0.002)
        return call("look", n=request.turn) if request.turn < 4 else say("done")

    usage = Usage(output_tokens=900)
    return Agent("host", model=ScriptedModel(policy, name="m", max_tokens=1_000, usage=usage), tools=[look])


RUNNING = """
import asyncio, os, signal, sys
from pathlib import Path
from callboard.runtime.log.sqlite import store
from callboard.runtime.runtime import Runtime
from tests.runtime.ports.test_budget_port_killed import BUDGETS, SESSIONS, host_of

path, last, when, is_strict = sys.argv[1:]
events, original = 0, store.SQLiteStore.append

def append(self, batch):
    global events
    events += sum(len(part.events) for part in batch)
    if events >= int(last) and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = original(self, batch)
    if events >= int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    return done

store.SQLiteStore.append = append

async def main():
    host = host_of(Path(path).with_name("started"))
    async with Runtime(path, budgets=BUDGETS, strict_spending=is_strict == "strict") as runtime:
        names = range(SESSIONS)
        await asyncio.gather(
            *(runtime.run(host, "go", session_id=f"s{n}", tags=[f"tenant:{n % 2}"]) for n in names)
        )

asyncio.run(main())
"""


def killed(path: Path, last: int, when: str, is_strict: str = "") -> None:
    """Run the sessions in a process that is killed at the commit of so many events, before or after it."""
    done = child(RUNNING, str(path), str(last), when, is_strict)
    assert done.returncode == -signal.SIGKILL, done.stderr


async def resumed(path: Path) -> list[str]:
    """Resume every session, and return the kinds of their outcomes. The scopes keep to their limits."""
    host = host_of(path.with_name("again"))
    async with Runtime(path, budgets=BUDGETS) as runtime, asyncio.timeout(30):
        outcomes: list[Outcome] = []
        async for found in runtime.resume_all([host]):
            assert found.error is None
            assert found.session is not None
            outcomes.append(await found.session.outcome)
            await found.session.close()
        report = await runtime.budgets()
        for scope in report.scopes:
            assert scope.spent_tokens <= (scope.budget.tokens or 0)
            assert (scope.reserved_tokens, scope.elsewhere_tokens) == (0, 0)
        assert report.unlogged == ()
        stored = await runtime.log.spending.read()  # type: ignore[union-attr]  # a SQLite log has it
        assert charged(path, [row.session_id async for row in runtime.sessions()]) == {
            (one.scope, one.period): one.amount.tokens for one in stored.spent
        }
        return [outcome.kind for outcome in outcomes]


def charged(path: Path, names: list[str]) -> dict[tuple[str, str], int]:
    """Return the charges in the logs, by scope and period."""
    found: Counter[tuple[str, str]] = Counter()
    for name in names:
        with Recording.open(path, name) as recording:
            recording.verify().check()
            for change in BudgetKeys(name, 1).take(recording.events):
                if isinstance(change, Settlement):
                    found.update(dict.fromkeys(change.reservation.spans, change.charge.tokens))
    return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("last", [60, 140, 220])
def test_after_a_kill_the_amount_spent_is_what_the_committed_logs_charge(
    tmp_path: Path, last: int, when: str
) -> None:
    path = tmp_path / "log.db"
    killed(path, last, when)
    assert set(asyncio.run(resumed(path))) <= {"answered", "budget"}


@pytest.mark.slow
def test_with_strict_spending_every_call_that_started_is_reserved_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    killed(path, 200, "before", "strict")
    started = {tuple(line.split()) for line in path.with_name("started").read_text().splitlines()}
    assert started
    reserved = set()
    for name in {name for name, _, _ in started}:
        with Recording.open(path, name) as recording:
            bodies = [event.body for event in recording.events]
            given = [one for one in bodies if isinstance(one, BudgetGiven) and one.spans]
            reserved |= {(name, str(one.turn), str(one.attempt)) for one in given}
    assert started <= reserved
    asyncio.run(resumed(path))
