"""The encodings of the web against Python's codecs: labels, characters, and what no stranger may choose."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.http import web_encodings
from callboard.runtime.http.web_encodings import codec_of, decode, encoding_named, names
from tests.tables import table

# https://encoding.spec.whatwg.org/#names-and-labels has 228 labels; 7 are of encodings that browsers refuse.
LABELS = 221

DANGEROUS = (
    *("punycode", "idna", "unicode_escape", "unicode-escape", "raw_unicode_escape", "utf-7", "utf7"),
    *("zip", "zlib", "bz2", "hex", "base64", "rot13", "uu", "quopri", "mbcs", "oem", "undefined"),
    *("hz", "iso2022_kr", "iso-2022-cn", "hz-gb-2312", "utf-32", "cp037", "utf-8-sig", "utf_8", "latin-1 x"),
)


@table("label", [*DANGEROUS, "", "nonsense", "a" * 100_000, None, "\u0130so-8859-1"])
def test_any_label_that_is_none_of_the_web_means_utf_8(label: str | None) -> None:
    assert encoding_named(label) == "utf-8"
    assert decode("é".encode(), label or "") == "é"


def test_every_label_of_the_web_is_known_in_any_case_and_with_spaces() -> None:
    assert len(names()) == LABELS
    for label, name in names().items():
        assert encoding_named(f" {label.upper()}\n") == name
        assert encoding_named(name) == name, "each name is a label of its own encoding"
        assert label == label.lower()


@table("name", sorted(set(names().values())))
def test_text_of_an_encoding_is_decoded_as_python_does(name: str) -> None:
    codec = codec_of(name)
    assert codecs.lookup(codec)
    pairs = [bytes([high, low]) for high in range(0x81, 0xFF) for low in (0x41, 0xA1)]
    pairs = pairs if codec.startswith(web_encodings._OF_MANY_BYTES) else []
    for data in (*(bytes([byte]) for byte in range(0x20, 0x100)), *pairs):
        try:
            wanted = data.decode(codec)
        except UnicodeDecodeError:
            assert decode(data, name)[:1] in {"\ufffd", *map(chr, range(0x100))}
        else:
            assert decode(data, name) == wanted


def test_bytes_without_a_character_are_control_characters_or_replaced_as_browsers_do() -> None:
    assert decode(b"\x80\x81\xaa\xff", "windows-1253") == "\u20ac\x81\ufffd\ufffd"
    assert decode(b"\x81", "windows-1252") == "\x81"
    assert decode(b"\xdb", "windows-874") == "\ufffd"
    assert decode(b"a\xff", "utf-8") == "a\ufffd"


UNITS = st.sampled_from(
    [
        b"\x00\xd8",
        b"\x3d\xd8",
        b"\x00\xdc",
        b"\xff\xdf",
        b"a\x00",
        b"\xd8\xd8",
        b"\xdc\x00",
        b"\xff\xff",
        b"\x00",
    ]
)


@pytest.mark.parametrize("name", ["utf-16le", "utf-16be"])
@given(st.lists(UNITS, max_size=8).map(b"".join))
def test_halves_of_pairs_are_replaced_as_pythons_decoder_does(name: str, data: bytes) -> None:
    assert decode(data, name) == data.decode(name, "replace")
