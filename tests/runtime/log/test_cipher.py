"""Encryption at rest: nothing readable in the file, nothing that can be moved, no way in without the key."""

import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, MisuseError, WrongKey
from callboard.runtime.log import cipher as module
from callboard.runtime.log.cipher import (
    Cipher,
    Place,
    Unopenable,
    cipher_of,
    new_cipher,
)
from callboard.runtime.log.protocol import Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import added, event, events, json_text, large, run, same, write_some
from tests.tables import table

KEY = b"k" * 32
CANARY = "canary-5e0b"


# --- the log ------------------------------------------------------------------------


POSTED = [event(1, Cancel(CANARY)), large(2, 5_000, "y"), large(3, 5_000, "z"), *events(4, 6)]


def write(path: Path, key: bytes | None = KEY) -> Head:
    async def work() -> Head:
        log = SQLiteLog(path, encryption_key=key)
        await log.open()
        heads = []
        for name in "st":
            await log.create(name, 1, f"a title with {CANARY}")
            heads.append(await added(log, name, 1, POSTED))
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{path}.open{suffix}")
        await log.close()
        return heads[-1]

    return run(work)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    write(path)
    return path


def test_nothing_that_was_said_can_be_found_in_the_files(path: Path) -> None:
    files = list(path.parent.iterdir())
    assert len(files) == 4
    for file in files:
        content = file.read_bytes()
        assert CANARY.encode() not in content
        assert b"yyyyyyyy" not in content
        assert b"reason" not in content


def test_without_encryption_all_of_it_can(tmp_path: Path) -> None:
    """Show that the test above can fail."""
    write(tmp_path / "log.db", None)
    content = (tmp_path / "log.db").read_bytes()
    assert CANARY.encode() in content
    assert b"yyyyyyyy" in content
    assert b"reason" in content


def test_digests_are_those_of_the_text(path: Path, tmp_path: Path) -> None:
    with SQLiteReader(path, encryption_key=KEY) as reader:
        assert reader.head("t") == write(tmp_path / "plain.db", None)


def test_equal_bodies_and_values_do_not_look_alike(path: Path) -> None:
    connection = sqlite3.connect(path)
    bodies = [row[0] for row in connection.execute("SELECT body FROM events")]
    titles = [row[0] for row in connection.execute("SELECT title FROM sessions")]
    assert len(set(bodies)) == len(bodies) == 12
    assert titles[0] != titles[1]
    assert connection.execute("SELECT kind FROM log LIMIT 1").fetchone() == (None,)
    connection.close()


@pytest.mark.parametrize(
    ("key", "said"), [(None, "is encrypted: pass the key"), (b"x" * 32, "another key; pass that one")]
)
def test_a_lost_or_wrong_key_is_a_clear_error_for_everybody(path: Path, key: bytes | None, said: str) -> None:
    with pytest.raises(WrongKey, match=said):
        SQLiteReader(path, encryption_key=key)
    before = path.read_bytes()
    with pytest.raises(WrongKey, match=said):
        run(SQLiteLog(path, encryption_key=key).open)
    assert path.read_bytes() == before


def test_a_key_for_a_log_that_is_not_encrypted_is_refused(tmp_path: Path) -> None:
    write_some(tmp_path / "log.db")
    with pytest.raises(WrongKey, match="without encryption"):
        SQLiteReader(tmp_path / "log.db", encryption_key=KEY)
    with pytest.raises(WrongKey, match="without encryption"):
        run(SQLiteLog(tmp_path / "log.db", encryption_key=KEY).open)


def test_a_password_is_no_key(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="at least 32 random bytes"):
        SQLiteLog(tmp_path / "log.db", encryption_key=b"correct horse")
    assert not list(tmp_path.iterdir())


ID = "(SELECT id FROM sessions WHERE session_id = 's') << 32"
OTHER = "(SELECT id FROM sessions WHERE session_id = 't') << 32"
MOVES = {
    "to another seq": f"UPDATE events SET body = (SELECT body FROM events WHERE id = {ID} | 5) "
    f"WHERE id = {ID} | 4",
    "from another session": f"UPDATE events SET body = (SELECT body FROM events WHERE id = {OTHER} | 4) "
    f"WHERE id = {ID} | 4",
    "a byte changed": f"UPDATE events SET body = CAST(body || x'00' AS BLOB) WHERE id = {ID} | 4",
    "as text": f"UPDATE events SET body = '{{}}' WHERE id = {ID} | 4",
    "too short": f"UPDATE events SET body = x'00' WHERE id = {ID} | 4",
    "as nothing": f"UPDATE events SET body = 5 WHERE id = {ID} | 4",
}


@pytest.mark.parametrize("what", MOVES)
def test_a_body_that_was_moved_or_changed_does_not_decrypt(path: Path, what: str) -> None:
    shell = sqlite3.connect(path)
    assert shell.execute(MOVES[what]).rowcount == 1
    shell.commit()
    shell.close()
    with SQLiteReader(path, encryption_key=KEY) as reader:
        assert len(reader.events("s", 1, 3)) == 3
        for look in (reader.events, reader.verify_chain):
            with pytest.raises(CorruptLog, match="event 4") as caught:
                look("s")
            assert caught.value.seq == 4


def test_large_values_that_were_exchanged_do_not_decrypt(path: Path) -> None:
    shell = sqlite3.connect(path)
    shell.execute("UPDATE blobs SET data = o.data FROM blobs AS o WHERE o.id <> blobs.id")
    shell.execute("UPDATE sessions SET title = 'x' WHERE session_id = 's'")
    shell.commit()
    shell.close()
    with SQLiteReader(path, encryption_key=KEY) as reader:
        for look in (reader.events, reader.verify_chain):
            with pytest.raises(CorruptLog, match="lacks a large value") as caught:
                look("s")
            assert caught.value.seq == 2
        titles = [row.title for row in reader.sessions()]
        assert titles == [f"a title with {CANARY}", "(a title that cannot be read)"]


def test_another_owner_goes_on_with_the_key(path: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(path, encryption_key=KEY)
        await log.open()
        epoch, _ = await log.take_over("s")
        await added(log, "s", epoch, events(7, 9))
        assert same(await log.read("s"), [*POSTED, *events(7, 9)])
        await log.close()

    run(work)
    with SQLiteReader(path, encryption_key=KEY) as reader:
        assert reader.verify_chain("s").seq == 9


# --- the cipher ---------------------------------------------------------------------


def test_everything_comes_back_only_in_its_own_place() -> None:
    one = new_cipher(KEY)
    same_log = cipher_of(one.description, KEY, "log.db")
    assert same_log is not None
    stored = one.seal(("event", "s", 1), b"body")
    assert same_log.open(("event", "s", 1), stored) == b"body"
    assert one.open(("title", "s"), one.seal(("title", "s"), b"title")) == b"title"
    assert one.open(("blob", b"d"), one.seal(("blob", b"d"), b"value")) == b"value"
    elsewhere: list[tuple[Cipher, Place, bytes]] = [
        (one, ("event", "s", 2), stored),
        (one, ("event", "t", 1), stored),
        (one, ("title", "s"), stored),
        (one, ("blob", b"d"), stored),
        (new_cipher(KEY), ("event", "s", 1), stored),
        (one, ("blob", b"e"), one.seal(("blob", b"d"), b"value")),
    ]
    for cipher, place, kept in elsewhere:
        with pytest.raises(Unopenable):
            cipher.open(place, kept)


def test_the_same_text_is_never_encrypted_to_the_same_bytes() -> None:
    one = new_cipher(KEY)
    assert len({one.seal(("event", "s", 1), b"body") for _ in range(100)}) == 100


def test_the_keys_of_sessions_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED_MAX", 3)
    one = new_cipher(KEY)
    stored = {name: one.seal(("event", name, 1), name.encode()) for name in "abcdefgh"}
    assert len(one._keys) <= 3
    assert all(one.open(("event", name, 1), kept) == name.encode() for name, kept in stored.items())


def test_a_description_of_a_later_version_is_refused() -> None:
    with pytest.raises(WrongKey, match="use a newer one"):
        cipher_of("aes-512 callboard/9 00 00", KEY, "log.db")
    assert cipher_of("", None, "log.db") is None


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(MisuseError, match="callboard\\[encryption\\]"):
        Cipher(KEY, bytes(16))


def test_the_format_is_the_documented_one() -> None:
    """Decrypt a log with these lines and the key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from msgspec import msgpack

    made = new_cipher(KEY)
    salt = bytes.fromhex(made.description.split()[-2])
    stored = made.seal(("event", "s", 7), bytes(json_text(50)))
    key = HKDF(SHA256(), 32, salt, b"callboard/1 session s").derive(KEY)
    place = msgpack.encode(["event", "s", 7])
    assert AESGCM(key).decrypt(stored[:12], stored[12:], place) == bytes(json_text(50))


@table("stored", [None, "text", 5, b"", b"short"])
def test_a_value_that_is_no_sealed_text_does_not_decrypt(stored: object) -> None:
    with pytest.raises(Unopenable):
        new_cipher(KEY).open(("event", "s", 2), stored)


def test_equal_tags_have_equal_digests_under_one_key_only() -> None:
    cipher, other = new_cipher(KEY), new_cipher(KEY)
    tag = cipher.tag("urgent")
    assert tag == cipher_of(cipher.description, KEY, "it").tag("urgent")  # type: ignore[union-attr]  # it is encrypted
    assert len({tag, cipher.tag("Urgent"), other.tag("urgent"), "urgent"}) == 4
    assert len(bytes.fromhex(tag)) == 16


def test_a_description_with_a_broken_salt_is_damage() -> None:
    name, salt, check = new_cipher(KEY).description.rsplit(" ", 2)
    with pytest.raises(CorruptLog, match="it is damaged: its encryption has no valid salt"):
        cipher_of(f"{name} {salt}x {check}", KEY, "it")


def test_a_cipher_has_a_key_for_all_values_and_one_for_each_session_whatever_its_name() -> None:
    with pytest.raises(MisuseError):
        Cipher(b"short", b"salt" * 4)
    cipher = Cipher(b"e" * 32, b"salt" * 4)
    for place in (("title", "blob"), ("blob", b"digest"), ("event", "blob", 3)):
        assert cipher.open(place, cipher.seal(place, b"text")) == b"text"
    assert len(cipher._keys) == 2, "of values, and of the session with that name"
