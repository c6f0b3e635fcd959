"""Events as a recording in memory, and as a file."""

from pathlib import Path

from callboard.replay.recording import Recording, sessions
from callboard.replay.testing.agents.scenario_arguments import recording_of, store
from callboard.runtime.log.opening import open_log
from tests.golden import golden


def test_events_are_a_recording_and_a_file(tmp_path: Path) -> None:
    events = golden("report")
    found = recording_of(events, "one", "a title")
    assert list(found.events) == events
    assert found.verify().is_ok
    store(open_log(tmp_path / "x.db"), events, "two", "a title")
    with Recording.open(tmp_path / "x.db", "two") as other:
        assert list(other.events) == events
    (row,) = sessions(tmp_path / "x.db")
    assert (row.title, row.created_ms) == ("a title", events[0].at)
