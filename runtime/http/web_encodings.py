"""The encodings of the web, by their labels: the only ones that a stranger may choose.

Python knows further codecs, and finds them by the same names: some take quadratic time (`punycode`, `idna`),
unpack (`zip`), or read escapes (`unicode_escape`). The labels are those of https://encoding.spec.whatwg.org
(4.2, names and labels), from the package webencodings, without the encodings that browsers refuse to decode.
Any other label means UTF-8.
"""

import codecs
from functools import cache
from typing import Final

_REFUSED: Final = frozenset({"replacement", "x-user-defined"})
_OF_MANY_BYTES: Final = ("utf", "gb", "big5", "euc", "iso2022", "cp932", "cp949")
_LABEL_CHARS_MAX: Final = 40
# The kind of a unit of UTF-16 by its high byte: the first half of a pair, the second one, or a character.
_HALVES: Final = bytes(
    72 if 0xD8 <= byte < 0xDC else 76 if 0xDC <= byte < 0xE0 else 46 for byte in range(256)
)
_LONE: Final = bytes(255 if byte in b"HL" else 0 for byte in range(256))
_C1_END: Final = 0xA0  # bytes from 0x80 up to here that a table has not are control characters


def encoding_named(label: str | None) -> str:
    """Return the name of the encoding that a label of the web stands for; `utf-8` for any other text.

    >>> encoding_named("Latin1"), encoding_named("punycode")
    ('windows-1252', 'utf-8')
    """
    return names().get((label or "")[:_LABEL_CHARS_MAX].strip("\t\n\f\r ").lower(), "utf-8")


@cache
def names() -> dict[str, str]:
    """Return the names of the encodings by their labels."""
    from webencodings.labels import LABELS  # here, since it comes with the extra `http`

    return {label: name for label, name in LABELS.items() if name not in _REFUSED}


@cache
def codec_of(name: str) -> str:
    """Return the name of Python's codec for an encoding."""
    from webencodings import lookup

    if name == "gbk":  # the standard decodes it by the larger one
        return "gb18030"
    return str(lookup(name).codec_info.name)


def decode(data: bytes, name: str) -> str:
    """Decode bytes of a named encoding. Bytes that it does not have become the replacement character."""
    codec = codec_of(encoding_named(name))
    if codec.startswith("utf-16"):
        data = _with_pairs(data, is_little=codec.endswith("le"))
    if codec.startswith(_OF_MANY_BYTES):
        return data.decode(codec, "replace")
    # By a whole table: an error handler that is called for each byte takes 200 times as long.
    return codecs.charmap_decode(data, "replace", _table_of(codec))[0]


def _with_pairs(data: bytes, *, is_little: bool) -> bytes:
    """Replace the halves of pairs in UTF-16 that have no other half.

    Python's decoder calls an error handler for each. Here they are found and replaced by operations on whole
    texts: those of the high bytes, and of the numbers that all high and all low bytes are.
    """
    whole = len(data) & ~1
    high, low = data[is_little:whole:2], data[not is_little : whole : 2]
    halves = high.translate(_HALVES)
    if not (halves.count(b"H") or halves.count(b"L")):
        return data
    lone = halves.replace(b"HL", b"..").translate(_LONE)
    if len(data) > whole and lone.endswith(b"\xff"):
        lone = lone[:-1] + b"\0"  # with half a character behind it: the decoder makes one error of both
    mask, size = int.from_bytes(lone, "big"), len(lone)
    found = bytearray(data)
    found[is_little:whole:2] = (int.from_bytes(high, "big") | mask).to_bytes(size, "big")
    kept = int.from_bytes(low, "big") | mask
    kept ^= mask & int.from_bytes(b"\x02" * size, "big")  # 0xFF becomes 0xFD
    found[not is_little : whole : 2] = kept.to_bytes(size, "big")
    return bytes(found)


@cache
def _table_of(codec: str) -> str:
    """Return the characters of all bytes of an encoding that has one byte for each."""
    found = (bytes([byte]).decode(codec, "ignore") for byte in range(256))
    return "".join(one or (chr(byte) if byte < _C1_END else "\ufffd") for byte, one in enumerate(found))
