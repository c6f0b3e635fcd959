"""Values of a log as stores keep them: damage of copies hides nothing, damage of events is named."""

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.runtime.log.cipher import new_cipher
from callboard.runtime.log.large_values import Cut, blob_digest
from callboard.runtime.log.protocol import Sealed, Stored
from callboard.runtime.log.session_rows import Details
from callboard.runtime.log.stored_values import (
    damaged_session,
    decrypted,
    details_in,
    title_in,
    whole_body,
    whole_row,
    without_parent,
)

CIPHER = new_cipher(b"k" * 32)


def test_titles_and_details_that_cannot_be_read_are_empty_or_say_so() -> None:
    assert title_in(None, "s", b"plain") == "plain"
    assert title_in(CIPHER, "s", CIPHER.seal(("title", "s"), b"secret")) == "secret"
    assert title_in(CIPHER, "s", b"") == ""
    for cipher, stored in ((None, b"\xff"), (CIPHER, b"x")):
        assert title_in(cipher, "s", stored) == "(a title that cannot be read)"
        assert details_in(cipher, "s", stored) == Details()
    assert details_in(None, "s", b'{"tags":["a"]}') == Details(("a",))


def test_bodies_are_opened_and_joined_and_damage_names_its_event() -> None:
    data = b'"' + b"x" * 2_000 + b'"'
    cut = Cut(5, blob_digest(data), data)
    row = Sealed(3, 1, "a", "b", 2, b'{"a":null}', (cut,), b"d")
    assert whole_row("s", row) == Stored(3, 1, "a", "b", 2, b'{"a":' + data + b"}", b"d")
    assert decrypted(CIPHER, "s", 3, CIPHER.seal(("event", "s", 3), b"{}")) == b"{}"
    with pytest.raises(CorruptLog, match="event 4 has a body of another event"):
        decrypted(CIPHER, "s", 4, CIPHER.seal(("event", "s", 3), b"{}"))
    with pytest.raises(CorruptLog, match="event 3 has a large value in no known place"):
        whole_body("s", 3, b"{}", (cut,))


def test_errors_name_the_session() -> None:
    assert "session s: its row" in str(damaged_session("s"))
    assert "session f is a fork, and its parent s has no event 7" in str(without_parent("f", "s", 7))
