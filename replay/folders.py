"""The folder of a session as of an event, from its log."""

import heapq

from callboard.actors.protocol.addresses import CLIENT, TOOLS
from callboard.actors.protocol.errors import UnknownName
from callboard.replay.recording import Recording
from callboard.runtime.log.protocol import event_of
from callboard.runtime.log.recorded_files import RecordedFiles, recorded_files

_OF_FILES = (b'"files":', b'"files_gap":', b'"interrupted"', b'"SessionOpened"', b'"Resumed"', b'"Forked"')


def files_of(recording: Recording, at: int | None = None, *, is_checked: bool = False) -> RecordedFiles:
    """Return the files of a session as of event `at`: those that its history knows.

    at: 0 for the start; None for the last event. is_checked: check every digest before; else only the events
    of clients and tools are read. Raises UnknownName for an event that is not there, CorruptLog.
    """
    last = recording.head.seq
    upto = last if at is None else at
    if not 0 <= upto <= last:
        raise UnknownName(f"session {recording.session_id} has events 1 to {last}; there is no {upto}")
    if is_checked:
        return recorded_files(recording.session_id, recording.events, upto)
    source = recording._source
    rows = heapq.merge(*(source.of_actor(who, 1, last) for who in (CLIENT, TOOLS)), key=lambda row: row.seq)
    told = (row for row in rows if any(mark in row.body for mark in _OF_FILES))
    return recorded_files(recording.session_id, (event_of(recording.session_id, row) for row in told), upto)
