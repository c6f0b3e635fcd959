"""Another process that makes the same runs, under another PYTHONHASHSEED. It ends with the campaign."""

from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from callboard.actors.protocol.errors import CallboardError
from callboard.replay.testing.schedule import Schedule, ScheduleMisfit
from callboard.replay.testing.schedulers.replayed import replay
from callboard.replay.testing.state_digests import StepDigests, StepRecord
from callboard.replay.testing.worker_process import start
from callboard.replay.testing.world import MakeWorld, Scenario

HASH_SEED = "PYTHONHASHSEED"


class Replica:
    """The other process. hash_seed: its PYTHONHASHSEED."""

    def __init__(self, scenario: Scenario[Any], hash_seed: str) -> None:
        self.hash_seed = hash_seed
        self._process, self._ours = start(_serve, scenario, environment={HASH_SEED: hash_seed})

    def digests(self, schedule: Schedule) -> list[bytes]:
        """Make this run there. Return the digests of the start and of each step, as far as the run fits."""
        found: list[bytes] = self._answer(schedule)
        return found

    def record(self, step: int) -> StepRecord:
        """Return the states and posts after a step of the last run."""
        found: StepRecord = self._answer(step)
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

    def _answer(self, asked: Schedule | int) -> Any:
        try:
            self._ours.send(asked)
            answer = self._ours.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            raise CallboardError(
                "the process that makes every run again has ended with exit code "
                f"{self._process.exitcode}; see stderr"
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer


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
            connection.send(_answer(make_world, notes, asked))


def _answer(make_world: MakeWorld[Any], notes: StepDigests, asked: Schedule | int) -> object:
    if isinstance(asked, int):
        return notes.record(asked)
    try:
        with suppress(ScheduleMisfit):
            replay(make_world, asked, [notes])
    except CallboardError as error:
        return CallboardError(str(error))  # errors with other arguments than their text cannot be unpickled
    return notes.digests
