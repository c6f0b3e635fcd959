"""The fixture `recording`: a recorded session, replayed strictly, and written again where that is wanted."""

from pathlib import Path
from typing import Final

import pytest
from click import ClickException

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.actors.protocol.events import Event
from callboard.cli.changed_agents import replay_with
from callboard.cli.formats import counted
from callboard.replay.changed.result import ChangedReplay
from callboard.replay.exports.lines import Header
from callboard.replay.exports.parsing import ExportReader
from callboard.replay.recording import Recording
from callboard.testing.storing import recording_of

_LINES: Final = 60  # of what differs, in a failure


class Recordings:
    """Replays recordings for one test. told_as: the name under which its report tells of an update."""

    def __init__(self, request: pytest.FixtureRequest, told_as: str) -> None:
        self._told_as = told_as
        self._folder = request.path.parent
        self._root = str(request.config.rootpath)
        self._told = request.node.user_properties
        self._is_updating = bool(request.config.getoption("callboard_update", False))

    def __call__(self, path: str | Path, agent: str = "", *, key: bytes | None = None) -> Recording:
        """Replay a recording strictly, and return it. Fail the test if something differs.

        path: a `jsonl` export of one session; a relative one is beside the test. agent: `module:agent`, with
        whose agents it is replayed: no request and no decision may differ. Without it the session is
        verified: callboard itself must decide as it did. key: the digest key of the log, if it has one.
        """
        __tracebackhide__ = True
        file = self._folder / path
        try:
            found = load_recording(file, key)
            what = self._difference(found, agent)
        except (CallboardError, ClickException) as error:
            pytest.fail(f"{file.name}: {error}", pytrace=False)
        if what is None:
            return found
        if not self._is_updating:
            pytest.fail(_failure(file, what, agent), pytrace=False)
        return self._write_again(file, found, what, key)

    def _difference(self, found: Recording, agent: str) -> ChangedReplay | None:
        """Return the replay of a recording that is not made again; None for one that is."""
        if agent:
            replayed = replay_with(found, agent, folder=self._root)
            return None if replayed.is_same else replayed
        return None if found.verify().is_ok else found.against()

    def _write_again(self, file: Path, found: Recording, what: ChangedReplay, key: bytes | None) -> Recording:
        __tracebackhide__ = True
        if what.log is None:
            pytest.fail(
                f"{file.name} is not rewritten, because a decision differs: its answers are to another "
                "conversation. Record the session again, and export it\n" + _told(what),
                pytrace=False,
            )
        if key is not None:
            pytest.fail(f"{file.name} has a digest key: export the session from its log again", pytrace=False)
        again = recording_of(what.log, found.session_id)
        again.verify().check()
        again.export("jsonl", file)
        self._told.append((self._told_as, f"{file.name}: {_changes(found, what)}"))
        return again


def load_recording(path: str | Path, key: bytes | None = None) -> Recording:
    """Load the session of a `jsonl` export into memory, every digest checked.

    key: the digest key of the log, if it has one. The loaded events have digests of their own, without a key.
    Raises CorruptLog, MisuseError for a file that cannot be read or holds more than one session, WrongKey.
    """
    headers: list[Header] = []
    events: list[Event] = []
    try:
        with Path(path).open("rb") as file, ExportReader(file, key, str(path)) as reader:
            for item in reader.items():
                if isinstance(item, Header):
                    headers.append(item)
                else:
                    events.append(item[0])
    except OSError as error:
        raise MisuseError(f"the recording {path} cannot be read: {error.strerror}") from None
    if len(headers) != 1:
        raise MisuseError(f"{path} holds {len(headers)} sessions; export one")
    return recording_of(events, headers[0].session, headers[0].title)


def _failure(file: Path, what: ChangedReplay, agent: str) -> str:
    by = f"the agents of {agent} differ" if agent else "this callboard decides otherwise"
    advice = "if the change is intended: pytest --callboard-update" if what.log is not None else ""
    return "\n".join(filter(None, (f"{file.name}: {by}", _told(what), advice)))


def _told(what: ChangedReplay) -> str:
    lines = what.lines()
    more = [f"… {len(lines) - _LINES} more lines: callboard replay --with"] if len(lines) > _LINES else []
    return "\n".join([*lines[:_LINES], *more])


def _changes(found: Recording, what: ChangedReplay) -> str:
    """Return what has changed in a recording, in words."""
    assert what.log is not None
    before, now = list(found.events), what.log
    same = sum(one == other for one, other in zip(before, now, strict=False))
    agents = ", ".join(f"{one.agent} from turn {one.turn}" for one in what.requests)
    requests = f"the requests of {agents}" if agents else "no request"
    return f"{counted(max(len(before), len(now)) - same, 'event')} of {len(now):,}, {requests}"
