"""What holds for agents of every framework: their runs, kills, changes, simulations and recordings."""

import asyncio
import gc
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    CallModel,
    CallTool,
    ModelReplied,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.resumes import go_on
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.testing import explore, simulate
from tests.runtime.brains.kit import (
    FRAMEWORKS,
    HAS_CLIENT,
    NO_CLIENT,
    PARAMS,
    WORDS,
    Framework,
    run,
    turns_in,
    wait_for_no_clients,
)
from tests.runtime.brains.victims import Notes, model_of, paths

ROOT = Path(__file__).parents[3]
VICTIMS = [
    pytest.param(name, point, marks=NO_CLIENT if name == "claude" else ())
    for name, framework in FRAMEWORKS.items()
    for point in framework.points
]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # A Claude client that is given up leaves a stream of its SDK to the garbage collection.
    pytest.mark.filterwarnings("ignore:.*(MemoryObject|Subprocess):pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*MemoryObject.*:ResourceWarning"),
]


@pytest.fixture
def framework(request: pytest.FixtureRequest) -> Iterator[Framework]:
    """Return a framework by its name."""
    yield FRAMEWORKS[request.param]
    if request.param == "claude":
        gc.collect()


every = pytest.mark.parametrize("framework", PARAMS, indirect=True)


@every
def test_a_run_has_the_effects_of_its_tools_and_its_words(tmp_path: Path, framework: Framework) -> None:
    notes: list[str] = []
    systems: list[bytes] = []

    def answers(request: ModelRequest) -> Any:
        systems.append(bytes(request.system))
        return framework.policy(request)

    brain = framework.brain(notes)
    outcome = run(brain, answers, log=tmp_path / "log.db")
    assert (outcome.kind, outcome.text, outcome.usage.calls) == (*framework.end, len(framework.answers))
    assert {"add 2", "add 8"} < {*notes}
    assert all(WORDS.encode() in system for system in systems)
    assert (brain.name, brain.description) == ("expert", "Knows.")
    with Recording.open(tmp_path / "log.db", "s") as recording:
        assert recording.verify().is_ok
        bodies = [event.body for event in recording.events]
    assert {body.tool: body.effect for body in bodies if isinstance(body, CallTool)} == {
        "add": "read",
        "save": "write",
    }


@every
def test_a_budget_ends_a_run_before_its_question(framework: Framework) -> None:
    outcome = run(framework.brain(), framework.policy, limits=Limits(tokens=500))
    assert (outcome.kind, outcome.usage.calls) == ("budget", 0)


# --- simulations ----------------------------------------------------------------------


@every
def test_no_order_no_fault_and_no_crash_breaks_a_rule(framework: Framework) -> None:
    host = Agent("host", agents=[framework.brain()])

    def answers(request: ModelRequest) -> Any:
        if request.profile == "host":
            return say("Done.") if turns_in(request) else calls(call("task", agent="expert", prompt="2+3?"))
        return framework.policy(request)

    explore(host, answers, "go", runs=12, faults="all", tools=dict(framework.fakes))  # raises BrokenRules


@every
def test_killed_after_any_event_it_comes_to_the_same_end_and_repeats_no_answer(framework: Framework) -> None:
    done = simulate(framework.brain(), framework.policy, "2+3?", tools=dict(framework.fakes))
    scenario, log, turns = done.world.scenario, done.events, len(framework.answers)
    for length in range(3, len(log) + 1, 2):
        after = go_on(scenario, log[:length]).run(lambda count: 0)
        end = after.of(AskEnded)[-1]
        assert (end.kind, end.text) == framework.end
        asked = [grant for grant in after.of(CallModel) if grant.agent != "host"]
        lost = [reply for reply in after.of(ModelReplied) if reply.status == "lost"]
        assert turns <= len(asked) <= turns + len(lost) <= turns + 1
        assert len(after.of(ToolStarted)) == 1  # the write
        assert [one.status for one in after.of(ToolReturned)].count("interrupted") <= 1


# --- processes that die ---------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let a process die in each point of each framework."""
    if sys.platform == "win32":
        pytest.skip("no fork on this system")
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.runtime.brains.victims", str(folder)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=100)
    return folder


def returns(recording: Recording) -> dict[tuple[int, int], str]:
    """Return how each call of a tool ended."""
    bodies = [event.body for event in recording.events]
    return {(one.turn, one.call): one.status for one in bodies if isinstance(one, ToolReturned)}


async def resumed(framework: Framework, log: Path, notes: Notes, words: str = WORDS) -> tuple[str, str]:
    async with Runtime(log, model=model_of(framework, notes), strict_spending=True) as runtime:
        outcome = await (await runtime.resume("s", framework.brain(notes, words))).outcome
        return outcome.kind, outcome.text


@pytest.mark.slow
@every
def test_a_changed_agent_is_a_divergence_that_names_the_difference(
    killed: Path, tmp_path: Path, framework: Framework
) -> None:
    log, _ = paths(killed, framework.name, "model 2")
    for end in ("", "-wal", "-shm"):
        shutil.copy(f"{log}{end}", tmp_path)
    notes = Notes(tmp_path / "notes.txt")
    with pytest.raises(CallboardError, match=framework.changed):
        asyncio.run(resumed(framework, tmp_path / log.name, notes, "Be long."))
    assert "model 0" not in notes


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "point"), VICTIMS, indirect=["framework"])
def test_a_killed_run_is_gone_on_with_and_repeats_nothing_that_is_on_disk(
    killed: Path, framework: Framework, point: str
) -> None:
    log, path = paths(killed, framework.name, point)
    before = path.read_text().splitlines()
    with Recording.open(log, "s") as recording:
        kept = [event.body for event in recording.events if event.recipient != "host"]  # its steps are free
        answered = sum(isinstance(one, ModelReplied) and one.status == "ok" for one in kept)
        finished = returns(recording)
    notes = Notes(path)
    assert asyncio.run(resumed(framework, log, notes)) == framework.end
    asked = [one for one in notes if one.startswith("model")]
    assert asked == [f"model {turn}" for turn in range(answered, len(framework.answers))]
    done = Counter(before + notes)
    with Recording.open(log, "s") as recording:
        assert recording.verify().is_ok
        ends = returns(recording)
    interrupted = list(ends.values()).count("interrupted")
    assert done["save k"] == 1 or (point == "add 2" and not done["save k"] and interrupted)
    assert interrupted == (point == "save k") or point == "add 2"
    assert ends | finished == ends


@pytest.mark.slow
@NO_CLIENT
def test_no_client_outlives_its_process(killed: Path) -> None:
    assert len([*killed.glob("callboard-claude-*")]) == len(FRAMEWORKS["claude"].points)  # what they leave
    wait_for_no_clients(killed)


@pytest.mark.slow
def test_recordings_open_and_verify_without_the_frameworks(killed: Path) -> None:
    modules = [name for framework in FRAMEWORKS.values() for name in framework.modules]
    code = (
        "import sys; from pathlib import Path; sys.modules.update(dict.fromkeys(sys.argv[2:]))\n"
        "from callboard.replay import Recording\n"
        "for path in sorted(Path(sys.argv[1]).glob('*.db')):\n"
        "    with Recording.open(path, 's') as one: assert one.verify().is_ok and one.head.seq > 5\n"
        "    print(path.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(killed), *modules], capture_output=True, text=True, check=True
    )
    names = {path.rpartition("-model")[0] for path in done.stdout.split() if "-model" in path}
    assert names == {*FRAMEWORKS} - ({"claude"} if not HAS_CLIENT else set())
