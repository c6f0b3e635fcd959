"""The folder of a session as of an event, read from few of its events."""

import pytest

from callboard import Agent, ScriptedModel, say
from callboard.actors.protocol.addresses import CLIENT, TOOLS
from callboard.errors import UnknownName
from callboard.replay import Recording
from callboard.replay.folders import files_of
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.runtime import Runtime
from tests.runtime.forks.test_fork_files import Place


def test_a_listing_by_few_events_is_that_of_all_events(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = Place(tmp_path_factory.mktemp("root"))
    recording = Recording.open(MemoryReader(place.log), "origin")
    for at in range(recording.head.seq + 1):
        quick, whole = files_of(recording, at), files_of(recording, at, is_checked=True)
        assert (quick.files, quick.gaps, quick.is_kept) == (whole.files, whole.gaps, True)
    asked: list[str] = []
    of_actor = recording._source.of_actor
    recording._source.of_actor = lambda who, *seqs: asked.append(who) or of_actor(who, *seqs)  # type: ignore[method-assign, func-returns-value]  # spied on
    files_of(recording)
    assert asked == [CLIENT, TOOLS]


def test_an_event_that_is_not_there_is_named_and_a_session_without_files_has_none() -> None:
    log = MemoryLog()
    Runtime(log, model=ScriptedModel([say("done")])).run_sync(Agent("host"), "go", session_id="s")
    recording = Recording.open(MemoryReader(log), "s")
    found = files_of(recording)
    assert (found.is_kept, found.files, found.gaps) == (False, {}, [])
    with pytest.raises(UnknownName, match="has events 1 to"):
        files_of(recording, 99)
