"""Large values are fetched by their number, each once, and a damaged one names its event."""

import sqlite3
from collections.abc import Iterator

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.sqlite.blobs import Blobs, places_of

ONE, TWO = b'"one"', b'"two"'


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:")
    made.execute("CREATE TABLE blobs(id INTEGER PRIMARY KEY, digest BLOB, data)")
    yield made
    made.close()


def keep(file: sqlite3.Connection, number: int, data: bytes, cipher: Cipher | None = None) -> None:
    digest = blob_digest(data)
    stored = data.decode() if cipher is None else cipher.seal(("blob", digest), data)
    file.execute("INSERT INTO blobs VALUES (?, ?, ?)", (number, digest, stored))


def blobs_of(file: sqlite3.Connection, cipher: Cipher | None = None) -> Blobs:
    return Blobs(file, cipher, lambda data: (blob_digest(data), data))


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_the_cuts_of_an_event_have_their_places_and_their_data(
    file: sqlite3.Connection, is_encrypted: bool
) -> None:
    cipher = Cipher(b"e" * 32, b"salt" * 4) if is_encrypted else None
    keep(file, 1, ONE, cipher)
    keep(file, 2, TWO, cipher)
    found = blobs_of(file, cipher).cuts("s", 4, b"[[10,2],[20,1],[30,2]]")
    assert found == (
        Cut(10, blob_digest(TWO), TWO),
        Cut(20, blob_digest(ONE), ONE),
        Cut(30, blob_digest(TWO), TWO),
    )
    assert blobs_of(file, cipher).cuts("s", 4, b"[]") == ()


def test_each_value_is_fetched_once(file: sqlite3.Connection) -> None:
    keep(file, 1, ONE)
    asked: list[bytes] = []

    def kept(data: bytes) -> tuple[bytes, bytes]:
        asked.append(data)
        return b"", data

    blobs = Blobs(file, None, kept)
    assert blobs.cuts("s", 1, b"[[0,1],[9,1]]") == (Cut(0, b"", ONE), Cut(9, b"", ONE))
    file.execute("DELETE FROM blobs")
    assert blobs.cuts("s", 2, b"[[5,1]]") == (Cut(5, b"", ONE),)
    assert asked == [ONE]


@pytest.mark.parametrize(
    ("cuts", "why"),
    [
        (b"[[0,7]]", "no blob 7"),
        (b"[[0,2]]", "no blob 2"),
        (b"[[0]]", ""),
        (b"{", ""),
        (b"\xff", ""),
        (b'[["a",1]]', ""),
        (b"[[0,1e30]]", ""),
    ],
)
def test_a_value_that_is_not_there_names_its_event(file: sqlite3.Connection, cuts: bytes, why: str) -> None:
    keep(file, 1, ONE)
    file.execute("INSERT INTO blobs VALUES (2, ?, NULL)", (blob_digest(TWO),))
    blobs = Blobs(file, None, lambda data: (b"", data))
    with pytest.raises(CorruptLog, match=rf"session s, event 4 lacks a large value \(.*{why}"):
        blobs.cuts("s", 4, cuts)


def test_a_value_of_another_place_does_not_open(file: sqlite3.Connection) -> None:
    cipher = Cipher(b"e" * 32, b"salt" * 4)
    file.execute(
        "INSERT INTO blobs VALUES (1, ?, ?)", (blob_digest(TWO), cipher.seal(("blob", blob_digest(ONE)), ONE))
    )
    with pytest.raises(CorruptLog, match="lacks a large value"):
        blobs_of(file, cipher).cuts("s", 4, b"[[0,1]]")


def test_places_are_pairs_of_an_offset_and_a_number() -> None:
    assert places_of(b"[[1,2],[3,4]]") == [(1, 2), (3, 4)]
