import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files.text import decoded
from tests.tables import table


@table(
    ("data", "text"),
    [
        (b"a\n\xc3\xa9", "a\né"),
        (b"\xef\xbb\xbfa", "a"),
        ("a\n€".encode("utf-16"), "a\n€"),
        (b"\xfe\xff" + "a€".encode("utf-16-be"), "a€"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\r\nb\n", "a\r\nb\n"),
        (b"a\rb", "a\rb"),
        (b"", ""),
    ],
)
def test_a_text_is_read_and_written_as_it_was(data: bytes, text: str) -> None:
    found = decoded(data, "file")
    assert found.text == text
    assert found.is_exact
    assert found.encoded(found.text) == data


def test_bytes_that_are_no_text_are_replaced_and_told() -> None:
    found = decoded(b"caf\xe9\n", "file")
    assert (found.text, found.is_exact) == ("caf\ufffd\n", False)


def test_a_binary_file_is_refused() -> None:
    with pytest.raises(FileError, match="binary, 4 bytes") as caught:
        decoded(b"a\0bc", "file")
    assert caught.value.reason == "binary"


@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")),
    st.sampled_from(["utf-8", "utf-16"]),
)
def test_every_text_comes_back_byte_for_byte(text: str, encoding: str) -> None:
    data = text.encode(encoding)
    if data.startswith(b"\xef\xbb\xbf") or text.startswith("\ufeff"):
        return
    found = decoded(data, "file")
    assert found.encoded(found.text) == data
