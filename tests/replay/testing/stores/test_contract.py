"""The contract can fail: stores with one fault each, all of which it finds."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from callboard.actors.protocol.events import Event
from callboard.replay.testing.stores.contract import StoreContract, StorePlace
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import GENESIS, Append, Head, Stored
from callboard.runtime.log.session_rows import EVERY_SESSION, SessionQuery, SessionRow

# --- one fault each -----------------------------------------------------------------


class TakesAnyHead(MemoryLog):
    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        fitted = []
        for part in batch:
            session = self._sessions.get(part.session_id)
            head = session.head.seq if session else 0
            events = [_numbered(one, seq) for seq, one in enumerate(part.events, head + 1)]
            fitted.append(part._replace(expected_head=head, events=events))
        return await super().append(fitted)


def _numbered(event: Event, seq: int) -> Event:
    return Event(seq, event.at, event.sender, event.recipient, event.cause, event.body)


class TakesAnyEpoch(MemoryLog):
    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        epochs = {name: session.epoch for name, session in self._sessions.items()}
        fitted = [part._replace(epoch=epochs.get(part.session_id, 0)) for part in batch]
        return await super().append(fitted)


class ForgetsTheEpochs(MemoryLog):
    async def close(self) -> None:
        await super().close()
        for session in self._sessions.values():
            session.epoch = 1


class FailsTheWholeBatch(MemoryLog):
    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        for answer in await super().append(batch):
            if isinstance(answer, Exception):
                raise answer
        return [self._sessions[part.session_id].head for part in batch]


class StoresHalf(MemoryLog):
    """A store that keeps the part of a refused append before the fault."""

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        answers = await super().append(batch)
        for part, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Exception):
                for one in part.events:
                    await super().append([part._replace(events=[one], expected_head=one.seq - 1)])
        return answers


class AcknowledgesAndDrops(MemoryLog):
    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        answers = await super().append(batch)
        for part in batch:
            session = self._sessions.get(part.session_id)
            if session and len(part.events) == 3 and len(session.rows) > 6:
                session.rows.pop()
        return answers


class MakesASessionAnew(MemoryLog):
    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        self._sessions.pop(session_id, None)
        return await super().create(session_id, created_ms, title, origin)


class IgnoresTheOrigin(MemoryLog):
    async def create(self, session_id: str, created_ms: int, title: str, origin: bytes = GENESIS) -> int:
        return await super().create(session_id, created_ms, title)


class IgnoresTheKey(MemoryLog):
    def __init__(self, key: bytes | None = None) -> None:
        super().__init__()


class ListsOldestFirst(MemoryLog):
    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        return sorted(await super().sessions(query), key=lambda row: row.created_ms)


class ForgetsChoices(MemoryLog):
    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        return (await super().sessions(SessionQuery(after=query.after)))[: query.limit]


class BeginsEveryPageAtTheStart(MemoryLog):
    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        return await super().sessions(structs.replace(query, after=""))


class KeepsTheFirstStatus(MemoryLog):
    async def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        rows = await super().sessions(structs.replace(query, status=None))
        return [structs.replace(row, status="open") for row in rows]


class PurgesTheLiving(MemoryLog):
    async def purge(self) -> bool:
        for session in self._sessions.values():
            session.rows.clear()
        return False


class StartsPagesOneLate(MemoryLog):
    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return await super().read(session_id, max(start, 1) + (start > 20), limit)


class GivesOneEventTooMany(MemoryLog):
    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return await super().read(session_id, start, limit + 1)


class TidiesJson(MemoryLog):
    async def read(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        rows = await super().read(session_id, start, limit)
        return [_tidied(row) for row in rows]


def _tidied(row: Stored) -> Stored:
    return Stored(
        row.seq, row.at, row.sender, row.recipient, row.cause, row.body.replace(b" ", b""), row.digest
    )


class WorksWhenClosed(MemoryLog):
    def _check_open(self) -> None:
        pass


class DeletesNothing(MemoryLog):
    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        return self._session(session_id).head.seq


class DeletesSharedValues(MemoryLog):
    async def delete(self, session_id: str, *, keep_forks: bool = False) -> int:
        count = await super().delete(session_id, keep_forks=keep_forks)
        self._blobs.clear()
        return count


class ReaderWithoutHeads(MemoryReader):
    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        return super().verify_chain(session_id, key)


class LateReader(MemoryReader):
    """Sees everything but the newest event."""

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return super().events(session_id, start, limit)[: max(0, super().head(session_id).seq - start)]


FAULTS: list[tuple[type[MemoryLog], type[MemoryReader]]] = [
    *(
        (log, MemoryReader)
        for log in (
            TakesAnyHead,
            TakesAnyEpoch,
            ForgetsTheEpochs,
            FailsTheWholeBatch,
            StoresHalf,
            AcknowledgesAndDrops,
            MakesASessionAnew,
            IgnoresTheOrigin,
            IgnoresTheKey,
            ListsOldestFirst,
            ForgetsChoices,
            BeginsEveryPageAtTheStart,
            KeepsTheFirstStatus,
            PurgesTheLiving,
            StartsPagesOneLate,
            GivesOneEventTooMany,
            TidiesJson,
            WorksWhenClosed,
            DeletesNothing,
            DeletesSharedValues,
        )
    ),
    (MemoryLog, ReaderWithoutHeads),
    (MemoryLog, LateReader),
]


class Faulty:
    def __init__(self, log: type[MemoryLog], reader: type[MemoryReader]) -> None:
        self._made: list[MemoryLog] = []
        self._log = log
        self._reader = reader

    def log(self, key: bytes | None = None) -> MemoryLog:
        if not self._made:
            self._made.append(self._log(key))
        return self._made[0]

    def reader(self) -> MemoryReader:
        return self._reader(self._made[0])

    def after_crash(self) -> None:
        return None


def cases() -> Iterator[Callable[[StorePlace], None]]:
    """Return the quick cases of the contract, each with the first of its parameters."""
    contract = StoreContract()
    for name, case in inspect.getmembers(contract, inspect.ismethod):
        marks = getattr(case, "pytestmark", [])
        if name.startswith("test_") and not any(mark.name == "slow" for mark in marks):
            yield from _with_parameters(case, [mark for mark in marks if mark.name == "parametrize"])


def _with_parameters(case: Callable[..., None], marks: list[Any]) -> Iterator[Callable[[StorePlace], None]]:
    if not marks:
        yield case
        return
    names, values = marks[0].args
    for value in values:
        given = dict(zip(names, value, strict=True)) if isinstance(names, tuple) else {names: value}
        yield partial(case, **given)


def fails(case: Callable[[StorePlace], None], place: StorePlace) -> bool:
    try:
        case(place)
    except (Exception, pytest.fail.Exception):
        return True
    return False


def test_a_good_store_passes_every_case() -> None:
    found = list(cases())
    assert len(found) > 50
    assert not any(fails(case, Faulty(MemoryLog, MemoryReader)) for case in found)


@pytest.mark.parametrize(("log", "reader"), FAULTS, ids=lambda kind: kind.__name__)
def test_every_fault_is_found(log: type[MemoryLog], reader: type[MemoryReader]) -> None:
    assert any(fails(case, Faulty(log, reader)) for case in cases())


WARNING = "error::pytest.PytestAssertRewriteWarning"
REWRITTEN = """
import sys
from callboard.replay.testing.stores.forks import forked  # a part of the contract before the whole
from callboard.replay.testing.stores.contract import StoreContract

def test_it():
    parts = [base for base in StoreContract.__mro__ if base.__name__.endswith("Cases")]
    assert len(parts) == 5
    for part in parts:
        loader = vars(sys.modules[part.__module__])["__loader__"]
        assert type(loader).__name__ == "AssertionRewritingHook", part
"""


@pytest.mark.slow
def test_cases_show_the_compared_values_also_without_plugins(tmp_path: Path) -> None:
    """Load no plugins: pytest rewrites a distribution's assertions itself only if it loads its plugins."""
    (tmp_path / "test_it.py").write_text(REWRITTEN)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-W", WARNING, "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
