"""The examples of programs and of background work, each in processes of its own."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay import Recording
from tests.pages import ROOT
from tests.processes import running
from tests.waiting import block_until

pytestmark = pytest.mark.slow


def command(name: str, *words: str) -> list[str]:
    return [sys.executable, str(ROOT / "examples" / name), *words]


def says(folder: Path, name: str, *words: str) -> list[str]:
    """Run an example and return the lines that it prints."""
    done = subprocess.run(
        command(name, *words), cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def verified(folder: Path, name: str, session: str = "") -> Recording:
    recording = Recording.open(folder / name, session) if session else Recording.open(folder / name)
    recording.verify().check()
    return recording


def test_the_orchestrator_answers_without_the_specialist_that_is_too_slow(tmp_path: Path) -> None:
    first, *rest = says(tmp_path, "orchestrator.py", "Is it worth it?")
    assert first == ("It saves half of the energy. It pays after about ten years. (no word of the economist)")
    assert sorted(rest) == [
        "  host.1 engineer: reported",
        "  host.2 economist: cancelled",
        "  host.3 lawyer: reported",
        "  host.4 thumb: answered",
    ]
    verified(tmp_path, "orchestrator.db")


def test_a_deployment_asks_a_person_and_goes_back_from_a_broken_version(tmp_path: Path) -> None:
    asked = "may I release {'version': '%s'}? yes"
    assert says(tmp_path, "deployment.py", "2.0") == [asked % "2.0", "2.0 runs"]
    broken = "2.1-broken"
    assert says(tmp_path, "deployment.py", broken) == [asked % broken, f"{broken} failed, back to 2.0"]
    # Asked again, it gives the outcome that it had.
    assert says(tmp_path, "deployment.py", broken) == [f"{broken} failed, back to 2.0"]
    verified(tmp_path, "deployments.db", f"deploy-{broken}")


def test_the_researcher_hears_a_word_while_three_readers_read(tmp_path: Path) -> None:
    heard, report, ends = says(tmp_path, "researcher.py")
    assert heard.startswith("the researcher heard it in turn ")
    assert report == "My report for sailors: all three matter."
    assert ends == "host.1 answered, host.2 answered, host.3 answered"
    kinds = [event.kind for event in verified(tmp_path, "research.db").events]
    assert (kinds.count("Delegated"), kinds.count("Told"), kinds.count("TellEnded")) == (3, 1, 1)


def test_the_nightly_job_that_is_killed_in_its_sleep_sleeps_for_the_rest_only(tmp_path: Path) -> None:
    job = ("nightly.py", "3", "+1")
    done = tmp_path / "nights.txt"
    with running(command(*job), cwd=tmp_path, stdout=subprocess.PIPE):  # and kill it
        block_until(lambda: done.exists() and done.read_text().endswith("\n"))
    assert len(done.read_text().split()) == 1
    time.sleep(1.2)  # the second night passes while no process runs
    assert says(tmp_path, *job) == ["3 nights are done"]
    assert len(done.read_text().split()) == 3
    recording = verified(tmp_path, "nightly.db", "nightly")
    returned = [event.body for event in recording.events if isinstance(event.body, ToolReturned)]
    assert [body.status for body in returned] == ["ok"] * 3


@pytest.mark.parametrize("name", ["orchestrator.py", "deployment.py", "researcher.py", "nightly.py"])
def test_these_examples_have_at_most_80_lines(name: str) -> None:
    assert len((ROOT / "examples" / name).read_text().splitlines()) <= 80
