"""A power cut at any moment loses nothing acknowledged: the real store on a disk that is simulated."""

import itertools
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from callboard.actors.protocol.errors import CorruptLog, SessionNotFound, StoreError, StoreUnreadable
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, Head
from callboard.runtime.log.sqlite import store as sqlite_store
from callboard.runtime.log.sqlite.meta import Durability, prepare
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.log.sqlite.store import SQLiteStore
from tests.effort import effort
from tests.runtime.log.kit import events, large
from tests.runtime.log.sqlite.disk import Disk

VARIANTS = 2
"""How many legal outcomes are looked at for each moment, beside the one where nothing unsynced stays."""


class Acknowledged(NamedTuple):
    """What the store had promised when so many operations were done."""

    at: int
    heads: dict[str, Head]


class Run:
    """A store at work on a disk: two sessions, checkpoints in between, closing, opening again."""

    def __init__(self, path: Path, durability: Durability = "full", *, is_lying: bool = False) -> None:
        self.path = path
        self.disk = Disk(is_lying=is_lying)
        self.promises = [Acknowledged(0, {})]
        for turn in range(2):
            with closing(self.disk.connect(path)) as connection:
                owner = prepare(connection, path, durability, HashChain())
                store = SQLiteStore(connection, path, HashChain(), owner)
                if turn == 0:
                    for name in "ab":
                        store.create(name, 1, "", GENESIS)
                        self._acknowledge(name, Head(0, GENESIS))
                self._write(store)
                store.leave()
        self.disk.close()

    def _write(self, store: SQLiteStore) -> None:
        for step in range(5):
            for name in "ab":
                epoch, head = store.take_over(name)
                more = [*events(head.seq + 1, head.seq + 1 + step), large(head.seq + 2 + step, 9_000 + step)]
                (answer,) = store.append([Append(name, head.seq, epoch, more)])
                assert isinstance(answer, Head)
                self._acknowledge(name, answer)

    def _acknowledge(self, name: str, head: Head) -> None:
        self.promises.append(Acknowledged(len(self.disk.trace), {**self.promises[-1].heads, name: head}))

    def promised(self, at: int) -> dict[str, Head]:
        """Return the heads that were acknowledged before the power failed."""
        return next(one.heads for one in reversed(self.promises) if one.at <= at)

    def outcomes(self, folder: Path, every: int = 1) -> Iterator[tuple[int, Path]]:
        """Yield moments of the run, with folders as a power cut may leave them. every: 1 for all of them."""
        moments = itertools.product(range(len(self.disk.trace) + 1), range(VARIANTS + 1))
        for at, variant in itertools.islice(moments, 0, None, every):
            chance = random.Random(at * 1_000 + variant) if variant else None
            self.disk.after_power_loss(at, chance, folder)
            yield at, folder / self.path.name
            shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_PAGES", 20)


def broken_promise(path: Path, heads: dict[str, Head]) -> str:
    """Return the fault of the log after a power cut, or an empty text."""
    try:
        with SQLiteReader(path) as reader:
            for name, head in heads.items():
                reader.verify_chain(name, head=head)
    except (StoreError, CorruptLog, SessionNotFound) as error:
        return str(error) if heads else ""
    return ""


def broken_promises(run: Run, folder: Path, every: int = 1) -> Iterator[tuple[int, str]]:
    for at, path in run.outcomes(folder, every):
        if said := broken_promise(path, run.promised(at)):
            yield at, said


@pytest.mark.slow
def test_a_power_cut_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    run = Run(tmp_path / "log.db")
    kinds = {op.kind for op in run.disk.trace}
    assert kinds == {"link", "unlink", "write", "truncate", "sync", "sync folder"}
    assert sum(op.kind == "write" and op.name.endswith(".db") for op in run.disk.trace) > 30  # checkpoints
    # Each moment has three outcomes, so every second one leaves no moment out.
    assert not list(broken_promises(run, tmp_path / "after", every=effort(2, 1)))


@pytest.mark.slow
def test_the_next_owner_goes_on_after_a_power_cut_at_any_moment(tmp_path: Path) -> None:
    run = Run(tmp_path / "log.db")
    for at, path in run.outcomes(tmp_path / "after", every=effort(13, 7)):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            owner = prepare(connection, path, "process", HashChain())
            store = SQLiteStore(connection, path, HashChain(), owner)
            for name in run.promised(at):
                epoch, head = store.take_over(name)
                (answer,) = store.append([Append(name, head.seq, epoch, events(head.seq + 1, head.seq + 2))])
                assert isinstance(answer, Head)
            store.leave()
        assert broken_promise(path, run.promised(at)) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("durability", "is_lying"), [("process", False), ("full", True)], ids=["NORMAL", "a disk that lies"]
)
def test_without_the_barrier_acknowledged_events_are_lost(
    tmp_path: Path, durability: Durability, is_lying: bool
) -> None:
    """Show that the tests above would fail if a commit were not synced."""
    run = Run(tmp_path / "log.db", durability, is_lying=is_lying)
    assert next(broken_promises(run, tmp_path / "after"), None) is not None


@pytest.mark.slow
def test_without_the_barrier_a_log_still_has_no_hole(tmp_path: Path) -> None:
    """Check durability="process": a power cut may take the newest events, never one in the middle."""
    run = Run(tmp_path / "log.db", "process")
    lost = 0
    for at, path in run.outcomes(tmp_path / "after", every=effort(4, 2)):
        if not path.exists():
            continue
        try:
            reader = SQLiteReader(path)
        except StoreUnreadable as error:
            lost += "nothing was ever recorded" not in str(error)
            continue
        with reader:
            for row in reader.sessions():
                assert reader.verify_chain(row.session_id).seq == row.head, at
    assert not lost
