"""Another process that makes the same runs, under another PYTHONHASHSEED.

    with Twin(scenario, "1") as twin:
        twin.make(schedule)                 # begins there at once
        twin.digests()                      # of the start and of each step
        twin.note(7)                        # states and posts of step 7, as JSON values

Rules
  - Questions are answered in order: a run, then anything about this run.
  - It ends with the campaign.
"""

from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

from callboard.actors.protocol.errors import CallboardError
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit
from callboard.replay.testing.schedulers.replayed import replay
from callboard.replay.testing.state_digests import StepDigests, plain, plain_event
from callboard.replay.testing.worker_process import check_named, start
from callboard.replay.testing.world import Scenario

HASH_SEED = "PYTHONHASHSEED"


class StepRecord(NamedTuple):
    """A note as JSON values. states: of those who changed, by name. posts: the new events."""

    states: dict[str, Any]
    posts: list[Any]


class Replica:
    """The other process. hash_seed: its PYTHONHASHSEED."""

    def __init__(self, scenario: Scenario[Any], hash_seed: str) -> None:
        check_named(scenario)
        self.hash_seed = hash_seed
        self._process, self._ours = start(_serve, scenario, environment={HASH_SEED: hash_seed})

    def make(self, schedule: Schedule) -> None:
        """Let it make this run."""
        self._send(("run", schedule))

    def digests(self) -> list[bytes]:
        """Return the digests of the start and of each step; fewer than steps if the run did not fit there."""
        found: list[bytes] = self._receive()
        return found

    def note(self, step: int) -> StepRecord:
        """Return the states and posts after a step of the last run."""
        self._send(("note", step))
        found: StepRecord = self._receive()
        return found

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._ours.send(None)
        self._process.join(5)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._ours.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, message: object) -> None:
        try:
            self._ours.send(message)
        except OSError as error:
            raise self._gone() from error

    def _receive(self) -> Any:
        try:
            answer = self._ours.recv()
        except (EOFError, OSError) as error:
            raise self._gone() from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _gone(self) -> CallboardError:
        self._process.join(5)
        return CallboardError(
            f"the process that makes every run again has ended with exit code {self._process.exitcode}; "
            "see stderr"
        )


# --- over there ---------------------------------------------------------------------


def _serve(connection: Connection, scenario: Scenario[Any]) -> None:
    """Answer until there are no more questions."""
    with suppress(EOFError, OSError), connection:
        try:
            make_world, _ = scenario()
        except Exception as error:
            connection.recv()
            connection.send(CallboardError(f"the scenario cannot be made in another process: {error!r}"))
            return
        notes = StepDigests()
        while (asked := connection.recv()) is not None:
            what, about = asked
            if what == "note":
                connection.send(step_record(notes, about))
                continue
            try:
                with suppress(ScheduleMisfit):
                    replay(make_world, about, [notes])
                connection.send([note.digest for note in notes.of_steps])
            except CallboardError as error:
                connection.send(CallboardError(str(error)))


def step_record(notes: StepDigests, step: int) -> StepRecord:
    """Return a step of a run as JSON values; empty for a step that was not made."""
    if step >= len(notes.of_steps):
        return StepRecord({}, [])
    note = notes.of_steps[step]
    return StepRecord(
        {name: plain(state) for name, state in note.states.items()},
        [plain_event(event) for event in note.posts],
    )
