"""The encodings of the web, by their labels: the only ones that a stranger may choose.

Python knows further codecs, and finds them by the same names: some take quadratic time (`punycode`, `idna`),
unpack (`zip`), or read escapes (`unicode_escape`). The table is that of https://encoding.spec.whatwg.org
(4.2, names and labels), without the encodings that browsers refuse to decode. Any other label means UTF-8.
"""

import codecs
from functools import cache
from typing import Final

# The name of an encoding, Python's codec for it, and its labels.
_TABLE: Final = """
utf-8           utf-8        unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8
ibm866          cp866        866 cp866 csibm866 ibm866
iso-8859-2      iso8859-2    csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2
iso-8859-3      iso8859-3    csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3
iso-8859-4      iso8859-4    csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4
iso-8859-5      iso8859-5    csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988
iso-8859-6      iso8859-6    arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
iso-8859-7      iso8859-7    csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek
iso-8859-8      iso8859-8    csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual
iso-8859-8-i    iso8859-8    csiso88598i iso-8859-8-i logical
iso-8859-10     iso8859-10   csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6
iso-8859-13     iso8859-13   iso-8859-13 iso8859-13 iso885913
iso-8859-14     iso8859-14   iso-8859-14 iso8859-14 iso885914
iso-8859-15     iso8859-15   csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9
iso-8859-16     iso8859-16   iso-8859-16
koi8-r          koi8-r       cskoi8r koi koi8 koi8-r koi8_r
koi8-u          koi8-u       koi8-ru koi8-u
macintosh       mac-roman    csmacintosh mac macintosh x-mac-roman
windows-874     cp874        dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874
windows-1250    cp1250       cp1250 windows-1250 x-cp1250
windows-1251    cp1251       cp1251 windows-1251 x-cp1251
windows-1252    cp1252       ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252
windows-1253    cp1253       cp1253 windows-1253 x-cp1253
windows-1254    cp1254       cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254
windows-1255    cp1255       cp1255 windows-1255 x-cp1255
windows-1256    cp1256       cp1256 windows-1256 x-cp1256
windows-1257    cp1257       cp1257 windows-1257 x-cp1257
windows-1258    cp1258       cp1258 windows-1258 x-cp1258
x-mac-cyrillic  mac-cyrillic x-mac-cyrillic x-mac-ukrainian
gbk             gb18030      chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk
gb18030         gb18030      gb18030
big5            big5hkscs    big5 big5-hkscs cn-big5 csbig5 x-x-big5
euc-jp          euc_jp       cseucpkdfmtjapanese euc-jp x-euc-jp
iso-2022-jp     iso2022_jp   csiso2022jp iso-2022-jp
shift_jis       cp932        csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis
euc-kr          cp949        cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949
utf-16be        utf-16-be    unicodefffe utf-16be
utf-16le        utf-16-le    csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le
"""  # noqa: E501  # one encoding a line
_ROWS: Final = [line.split() for line in _TABLE.split("\n") if line]
_NAMES: Final = {label: name for name, _, *labels in _ROWS for label in labels}
_CODECS: Final = {name: codec for name, codec, *_ in _ROWS}
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
    return _NAMES.get((label or "")[:_LABEL_CHARS_MAX].strip("\t\n\f\r ").lower(), "utf-8")


def decode(data: bytes, name: str) -> str:
    """Decode bytes of a named encoding. Bytes that it does not have become the replacement character."""
    codec = _CODECS[encoding_named(name)]
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
