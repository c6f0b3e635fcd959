"""Attack cases L7 to L12: a person, or a disk, changes a log.

Each change is made in the log of a real session. `callboard verify` must find it, as it would for a user.
Tests also show the changes that cannot be found without a key or a saved head.
"""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.actors.protocol.errors import SessionFailed
from callboard.actors.protocol.events import Event
from callboard.cli.main import cli
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.protocol import GENESIS, Append, Head, event_of
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.cli.recorded import record
from tests.runtime.log.kit import large, run, seal_one

SURVEY, REPORT = "20250101-survey", "20250102-report"
KEY = b"a key that the attacker lacks"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record real sessions, and one with large values."""
    path = tmp_path_factory.mktemp("recorded") / "log.db"
    record(path)

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.create("large", 1, "")
        await log.append([Append("large", 0, 1, [large(1, 3_000), large(2, 4_000, "y")])])
        await log.close()

    run(work)
    return path


@pytest.fixture
def path(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(recorded, tmp_path / "log.db"))


def verify(path: Path, session: str, *options: str) -> int:
    """Return the exit code of `callboard verify`."""
    done = CliRunner().invoke(cli, ["verify", session, "--log", str(path), *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code


def head_of(path: Path, session: str) -> str:
    with SQLiteReader(path) as reader:
        head = reader.head(session)
    return f"{head.seq}:{head.digest.hex()}"


@contextmanager
def changing(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def place(connection: sqlite3.Connection, session: str, seq: int) -> int:
    """Return the id of an event."""
    query = "SELECT id FROM sessions WHERE session_id = ?"
    number: int = connection.execute(query, (session,)).fetchone()[0]
    return number << 32 | seq


def test_the_logs_are_whole_before_they_are_changed(path: Path) -> None:
    for session in (SURVEY, REPORT):
        assert verify(path, session) == 0
        assert verify(path, session, "--head", head_of(path, session)) == 0


# --- L7 -----------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["at", "sender", "recipient", "cause", "body", "digest"])
@pytest.mark.parametrize("seq", [1, 9, 28])
def test_l7_a_flipped_bit_in_any_column_is_found(path: Path, column: str, seq: int) -> None:
    with changing(path) as connection:
        where = place(connection, SURVEY, seq)
        kept = f"SELECT CAST({column} AS BLOB), typeof({column}) FROM events WHERE id = ?"
        data, kind = connection.execute(kept, (where,)).fetchone()
        flipped = bytearray(data)
        flipped[len(flipped) // 2] ^= 1
        connection.execute(
            f"UPDATE events SET {column} = CAST(? AS {kind}) WHERE id = ?", (bytes(flipped), where)
        )
    assert verify(path, SURVEY) == 4
    assert verify(path, REPORT) == 0


def test_l7_a_flipped_bit_in_a_large_value_is_found(path: Path) -> None:
    with changing(path) as connection:
        connection.execute("UPDATE blobs SET data = replace(data, 'yyyy', 'yyxy')")
    assert verify(path, "large") == 4
    assert verify(path, SURVEY) == 0


def test_l7_a_flipped_bit_of_the_text_in_the_file_itself_is_found(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for at in occurrences(bytes(content), b"src: 3 files"):
        damaged = bytearray(content)
        damaged[at] ^= 1
        path.write_bytes(damaged)
        with closing(sqlite3.connect(path)) as shell:
            assert shell.execute("PRAGMA integrity_check").fetchone() == ("ok",)  # SQLite sees nothing
        assert verify(path, SURVEY) == 4


def occurrences(content: bytes, text: bytes) -> list[int]:
    found = [at for at in range(len(content)) if content.startswith(text, at)]
    assert found
    return found


# --- L8 -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the files of a killed process: a log whose WAL has many commits, and its last head."""
    path = tmp_path_factory.mktemp("left") / "log.db"
    with SQLiteReader(recorded) as reader:
        events = [event_of(SURVEY, row) for row in reader.events(SURVEY)]

    async def work() -> Head:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        head = Head(0, GENESIS)
        for one in events:
            (answer,) = await log.append([Append("s", one.seq - 1, 1, [one])])
            assert isinstance(answer, Head)
            head = answer
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{path}.left{suffix}")
        await log.close()
        return head

    head = run(work)
    return path.with_name("log.db.left"), f"{head.seq}:{head.digest.hex()}"


@pytest.mark.slow
def test_l8_a_flipped_bit_of_the_wal_is_found(left: tuple[Path, str], tmp_path: Path) -> None:
    origin, head = left
    whole = Path(f"{origin}-wal").read_bytes()
    assert verify(origin, "s", "--head", head) == 0
    frame = 24 + 8_192
    used = [at for at in range(32, len(whole), frame) if whole[at + 8 : at + 16] == whole[16:24]]
    commits = [at for at in used if whole[at + 4 : at + 8] != bytes(4)]
    for number, at in enumerate(used):
        path = Path(shutil.copy(origin, tmp_path / f"{number}.db"))
        damaged = bytearray(whole)
        damaged[at + 24 + 100 * number % 8_000] ^= 1
        Path(f"{path}-wal").write_bytes(damaged)
        is_early = at <= commits[-2]  # the last commit would look as if it had been cut short
        assert verify(path, "s", "--head", head) == 4
        assert not is_early or verify(path, "s") == 4


# --- L9 -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 10, 27, 28])
def test_l9_a_cut_tail_is_found_with_a_saved_head(path: Path, count: int) -> None:
    head = head_of(path, SURVEY)
    with changing(path) as connection:
        last = place(connection, SURVEY, 28 - count)
        end = place(connection, SURVEY, 28)
        connection.execute("DELETE FROM events WHERE id > ? AND id <= ?", (last, end))
    assert verify(path, SURVEY) == 4  # the session's row still says how many there were
    with changing(path) as connection:
        connection.execute("UPDATE sessions SET head = ? WHERE session_id = ?", (28 - count, SURVEY))
    assert verify(path, SURVEY) == 0  # the log alone does not show it
    assert verify(path, SURVEY, "--head", head) == 4


# --- L10, L11 -----------------------------------------------------------------------

ENVELOPE = "at, sender, recipient, cause, body, cuts"


@pytest.mark.parametrize("columns", [ENVELOPE, f"{ENVELOPE}, digest"], ids=["contents", "whole rows"])
@pytest.mark.parametrize("pair", [(1, 2), (5, 6), (3, 20), (27, 28)])
def test_l10_two_swapped_events_are_found(path: Path, columns: str, pair: tuple[int, int]) -> None:
    with changing(path) as connection:
        one, other = (place(connection, SURVEY, seq) for seq in pair)
        query = f"SELECT {columns} FROM events WHERE id = ?"
        rows = [connection.execute(query, (where,)).fetchone() for where in (one, other)]
        for where, row in ((one, rows[1]), (other, rows[0])):
            connection.execute(
                f"UPDATE events SET ({columns}) = ({', '.join('?' * len(row))}) WHERE id = ?", (*row, where)
            )
    assert verify(path, SURVEY) == 4


@pytest.mark.parametrize("first", [1, 5, 10])
def test_l11_events_of_another_session_are_found(path: Path, first: int) -> None:
    with changing(path) as connection:
        query = f"SELECT {ENVELOPE}, digest FROM events WHERE id BETWEEN ? AND ?"
        bounds = (place(connection, REPORT, first), place(connection, REPORT, first + 4))
        for seq, row in enumerate(connection.execute(query, bounds).fetchall(), first):
            connection.execute(
                f"UPDATE events SET ({ENVELOPE}, digest) = (?,?,?,?,?,?,?) WHERE id = ?",
                (*row, place(connection, SURVEY, seq)),
            )
    assert verify(path, SURVEY) == 4


def test_l11_a_whole_session_under_another_name_is_found(path: Path) -> None:
    with changing(path) as connection:
        connection.execute("UPDATE sessions SET session_id = 'mine' WHERE session_id = ?", (SURVEY,))
    assert verify(path, "mine") == 4


def test_l11_an_inserted_or_removed_event_is_found(path: Path) -> None:
    with changing(path) as connection:
        for seq in range(28, 9, -1):
            where = place(connection, SURVEY, seq)
            connection.execute("UPDATE events SET id = id + 1 WHERE id = ?", (where,))
        where = place(connection, SURVEY, 10)
        connection.execute(
            f"INSERT INTO events SELECT ?, {ENVELOPE}, digest FROM events WHERE id = ?", (where, where - 1)
        )
        connection.execute("UPDATE sessions SET head = 29 WHERE session_id = ?", (SURVEY,))
    assert verify(path, SURVEY) == 4


# --- L12 ----------------------------------------------------------------------------


def rewrite(path: Path, session: str, hash_chain: HashChain, edit: Callable[[Event], Event]) -> None:
    """Change events and compute every digest again, like an attacker who knows the format."""
    with SQLiteReader(path) as reader:
        events = [edit(event_of(session, row)) for row in reader.events(session)]
    with changing(path) as connection:
        digest = GENESIS
        for one in events:
            sealed = seal_one(hash_chain, session, digest, one)
            digest = sealed.digest
            connection.execute(
                "UPDATE events SET at = ?, digest = ? WHERE id = ?",
                (one.at, digest, place(connection, session, one.seq)),
            )


def later(event: Event) -> Event:
    return Event(event.seq, event.at + 3_600_000, event.sender, event.recipient, event.cause, event.body)


def test_l12_a_fully_rewritten_log_is_found_with_a_saved_head(path: Path) -> None:
    head = head_of(path, SURVEY)
    rewrite(path, SURVEY, HashChain(), later)
    assert verify(path, SURVEY) == 0  # without a key the log alone does not show it
    assert verify(path, SURVEY, "--head", head) == 4


def test_l12_a_log_with_a_key_cannot_be_rewritten_without_it(recorded: Path, tmp_path: Path) -> None:
    path, key = tmp_path / "keyed.db", tmp_path / "key"
    key.write_bytes(KEY)
    with SQLiteReader(recorded) as reader:
        events = [event_of(SURVEY, row) for row in reader.events(SURVEY)]

    async def work() -> None:
        log = SQLiteLog(path, key=KEY)
        await log.open()
        await log.create(SURVEY, 1, "")
        await log.append([Append(SURVEY, 0, 1, events)])
        await log.close()

    run(work)
    assert verify(path, SURVEY, "--key-file", str(key)) == 0
    assert verify(path, SURVEY) == 2  # it says which key it wants
    for chain in (HashChain(), HashChain(b"a guess")):
        rewrite(path, SURVEY, chain, later)
        assert verify(path, SURVEY, "--key-file", str(key)) == 4
    with changing(path) as connection:
        connection.execute("UPDATE meta SET value = '' WHERE key = 'key_check'")
    rewrite(path, SURVEY, HashChain(), later)
    done = CliRunner().invoke(cli, ["verify", SURVEY, "--log", str(path), "--key-file", str(key)])
    assert done.exit_code == 2  # the log denies that there ever was a key
    assert "the log was rewritten" in done.stderr


def test_a_session_whose_wal_is_cut_ends_before_its_next_outcome_is_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def main() -> None:
        async with Runtime(path, model=ScriptedModel(lambda request: say("done"))) as runtime:
            session = await runtime.open(Agent("host"), session_id="s")
            assert (await session.ask("one")).text == "done"
            os.truncate(f"{path}-wal", 40)
            for prompt in ("two", "three"):
                with pytest.raises(SessionFailed, match="was cut below the open log"):
                    await session.ask(prompt)

    asyncio.run(main())
