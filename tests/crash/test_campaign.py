"""Processes that are really killed: a short campaign, and proof that it notices a broken runtime.

The long campaign is `make crash`.
"""

import threading
from pathlib import Path

import pytest

from tests.crash.__main__ import lines, side_by_side
from tests.crash.broken import BREAKS
from tests.crash.campaign import PATIENCE_S, Plan
from tests.crash.notes import Effect, Notes, read_effects
from tests.crash.points import POINTS
from tests.effort import effort

NOTICED: dict[str, str | tuple[str, ...]] = {
    # A call that waits to run again may be stopped first, and is said to have never started then.
    "reruns writes": ("ran 2 times", "the log says that it never started"),
    # In a program, the rule of given-up calls may see first that a call was cancelled.
    "denies writes": ("the log says that it never started", "was not given up"),
    # Whether the log is short or another one depends on the moment of the kill, and a tool starts early, too.
    "tells early": (
        "is lost",
        "was acknowledged",
        "is missing",
        "the log does not know of it",
        "a run raised",  # one that ends politely, in time for a write that it told before
    ),
    "commits late": "is gone",
    "new keys": "the log does not know of it",
    "forgets outcomes": "ended 2 times",
    "gives back": "a lost call is said to have used",
    "drops an event": ("hung", "no longer does what the log says", "a run raised"),
}


@pytest.mark.slow
def test_killed_processes_lose_nothing_acknowledged_and_repeat_no_write(tmp_path: Path) -> None:
    # One worker: its draws favour the points that were hit least, so a few kills meet nearly all.
    result = side_by_side(tmp_path, Plan(effort(24, 200), "1"), 1)
    for number, point in enumerate(set(POINTS) - set(result.kills)):
        result.add(side_by_side(tmp_path, Plan(1, "1", first=1_000 * (number + 1), only=point), 1))
    assert not result.wrong, "\n".join(lines(result))
    assert result.killed >= 24
    assert set(result.kills) == set(POINTS), "some points were not met"
    assert result.fresh, "no run was a new interpreter"
    assert result.slept, "no session slept"


@pytest.mark.slow
def test_killed_processes_that_ask_a_server_keep_what_was_sent_and_repeat_no_write(tmp_path: Path) -> None:
    result = side_by_side(tmp_path, Plan(effort(4, 200), "1", is_served=True), effort(1, 2))
    assert not result.wrong, "\n".join(lines(result))
    assert result.effects, "no tool was called"


def test_every_way_to_break_the_runtime_is_tried() -> None:
    assert set(NOTICED) == set(BREAKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTICED)
def test_a_broken_runtime_is_noticed(name: str, tmp_path: Path) -> None:
    patience_s = 5 if "hung" in NOTICED[name] else PATIENCE_S
    # One worker, for it ends with the first finding, and a second one would look on for its own.
    result = side_by_side(tmp_path, Plan(60, "1", break_=name, patience_s=patience_s), 1)
    words = NOTICED[name]
    found = "\n".join(result.wrong)
    assert any(one in found for one in ((words,) if isinstance(words, str) else words)), found


def test_a_note_that_was_cut_off_is_skipped(tmp_path: Path) -> None:
    may_write = threading.Event()
    may_write.set()
    kept = Effect("s", "host/1/0", "write", "s/host/1/0", 1)
    path = tmp_path / "effects"
    Notes(path, may_write).write(kept)
    with path.open("ab") as file:
        file.write(b'\n{"note":"Effect","ses')
    Notes(path, may_write).write(kept)
    assert read_effects(path) == [kept, kept]
