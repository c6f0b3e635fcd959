"""A process that dies in a run of a brain by `kill -9`, and another one that goes on with its log."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.replay.recording import Recording
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.victims import FRAMEWORKS, POINTS, Notes, brain_of, model_of, paths

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork on this system")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.runtime.brains.victims", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=100)
    return folder


def returns(recording: Recording) -> dict[tuple[int, int], str]:
    """Return how each call of a tool ended."""
    bodies = [event.body for event in recording.events]
    return {(one.turn, one.call): one.status for one in bodies if isinstance(one, ToolReturned)}


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_is_gone_on_with_and_repeats_nothing_that_is_on_disk(
    killed: Path, framework: str, point: str
) -> None:
    log, path = paths(killed, framework, point)
    before = path.read_text().splitlines()
    with Recording.open(log, "s") as recording:
        kept = [
            event for event in recording.events if event.recipient != "host"
        ]  # its own steps cost nothing
        answered = sum(isinstance(one.body, ModelReplied) and one.body.status == "ok" for one in kept)
        finished = returns(recording)
    notes = Notes(path)

    async def go_on() -> str:
        async with Runtime(log, model=model_of(framework, notes), strict_spending=True) as runtime:
            session = await runtime.resume("s", brain_of(framework, notes))
            return (await session.outcome).text

    assert asyncio.run(go_on()) == ("5" if framework == "langgraph" else '{"good":true,"why":"5"}')
    asked = [one for one in notes if one.startswith("model")]
    assert asked == [f"model {turn}" for turn in range(answered, 3)]
    done = Counter(before + notes)
    assert done["save k"] == 1
    with Recording.open(log, "s") as recording:
        assert recording.verify().is_ok
        ends = returns(recording)
    assert list(ends.values()).count("interrupted") == (point == "save k")
    assert ends | finished == ends
