import base64
import json
from itertools import cycle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.refs import SecretPattern
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.secrets.stream_buffer import MAX_CHARS, StreamBuffer
from tests.tables import table

KEY = "sk-" + "ant-" + "a1B2c3D4" * 5
SECRET = "open sesame: now"
PEM = "-----BEGIN " + "PRIVATE KEY-----\n" + "\n".join(["Ab3/" * 16] * 3) + "\n-----END PRIVATE KEY-----"


def wrapped(before: int) -> str:
    """Return the secret as base64 in lines, behind so many bytes."""
    return base64.encodebytes(b"y" * before + SECRET.encode() + b"z" * 80).decode()


def known() -> Redactor:
    redactor = Secrets().redactor
    redactor.learn("DOOR", SECRET)
    return redactor


def in_pieces(text: str, sizes: list[int]) -> list[str]:
    """Cut a text into pieces of these sizes, again and again."""
    pieces, at, each = [], 0, cycle(sizes)
    while at < len(text):
        size = next(each)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def shown(pieces: list[str], redactor: Redactor, *, by_line: bool = False) -> list[str]:
    out: list[str] = []
    stream = StreamBuffer(redactor, out.append, by_line=by_line)
    found = []
    for piece in [*pieces, None]:
        stream.end() if piece is None else stream.take(piece)
        found.append("".join(out))
        out.clear()
    return found


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(
            [KEY, SECRET, PEM, wrapped(50), "hello ", "wörld", " ", "\n", "open ", "sk-", "日本語"]
        ),
        max_size=8,
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
)
@example([SECRET, PEM, KEY, KEY, "\n", KEY], [1])  # a key ends with its line, whatever stands before it
def test_pieces_show_the_same_text_as_the_whole(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    redactor = known()
    assert "".join(shown(in_pieces(text, sizes), redactor)) == redactor.text(text)


def test_a_secret_in_single_characters_is_never_shown() -> None:
    for secret in (KEY, SECRET, PEM):
        live = shown(list(f"It is {secret} there."), known())
        assert "".join(live).startswith("It is [secret:")
        assert "".join(live).endswith(" there.")
        assert not any(part and part in secret and len(part) > 6 for part in live)


@table("sizes", [[1], [7, 60]])
def test_a_secret_on_two_lines_of_base64_is_never_shown(sizes: list[int]) -> None:
    for text in (wrapped(before) for before in range(40, 60, 4)):
        for form in (text, text.replace("\n", "\r\n  "), json.dumps(text)):
            redacted = known().text(form)
            assert "[secret:DOOR]" in redacted
            assert "".join(shown(in_pieces(form, sizes), known())) == redacted


def test_words_are_shown_as_soon_as_they_are_whole() -> None:
    assert shown(["Hel", "lo wor", "ld", ". 日本", "語"], known()) == [
        "",
        "Hello ",
        "",
        "world. 日本",
        "語",
        "",
    ]


def test_with_patterns_of_its_own_a_line_waits_until_it_is_whole() -> None:
    redactor = Redactor([SecretPattern("name", "Agent [A-Z][a-z]+ Smith")])
    pieces = ["Ask Agent ", "John Sm", "ith.\nThen", " go"]
    assert shown(pieces, redactor, by_line=True) == ["", "", "Ask [secret:name].\n", "", "Then go"]


def test_no_text_waits_for_ever() -> None:
    out = shown(["x" * 1_000] * (MAX_CHARS // 1_000 + 2), known())[:-1]
    assert sum(map(len, out)) >= MAX_CHARS


def test_where_nothing_is_looked_for_every_piece_is_shown_at_once() -> None:
    assert shown(["a", "b"], Redactor()) == ["a", "b", ""]
