r"""The texts, keys and numbers of JSON, each searched for secrets by its meaning, not by its spelling.

Rules
  - JSON keeps its bytes, its key order and its spacing apart from the texts and numbers that change.
  - A megabyte of JSON can have half a million parts, and a step of Python for each takes half a second. So
    chunks of some parts are searched first, all of them at once; only those with a secret are taken apart.
  - Keys that become equal are numbered, since most parsers keep one of two equal keys.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import accumulate, chain, compress
from typing import Final, TypeAlias

import msgspec

from callboard.runtime.secrets.unescaping import Found, placeholder, with_placeholders

Search: TypeAlias = Callable[[bytes], list[Found]]
"""Returns the places of secrets in a text, in order; they do not overlap."""

# Of a chunk that is taken apart: each text or number, and the colon of those that are keys.
_TEXT: Final = slice(2, None, 4)
_COLON: Final = slice(3, None, 4)
_MANY: Final = placeholder("one of more than 1,000 in a value").encode()
_MARK: Final = b"[secret:"
_SEPARATOR: Final = b"\0"  # which no JSON has, and no form of a secret goes across

_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_NUMBER: Final = rb"-?[0-9][0-9.eE+-]*+"
_COLON_IF_KEY: Final = rb"(?:[ \t\r\n]*+:)?"
# Up to 16 texts, each with the parts before it; of a long stretch without texts, 256 bytes to a number's end.
_CHUNK: Final = re.compile(
    rb'(?:[^"]{0,256}+' + _STRING + _COLON_IF_KEY + rb'){1,16}+|[^"]{1,256}+[0-9.eE+-]*+', re.DOTALL
)
_SPACES: Final = bytes.maketrans(b"\t\n\r", b"   ")
_decode = msgspec.json.Decoder().decode
_decode_texts = msgspec.json.Decoder(list[str]).decode
_encode = msgspec.json.Encoder().encode


def unescaped(chunks: Iterable[bytes]) -> list[bytes]:
    """Return what chunks of JSON say: without the escapes of their texts, and a line end for each quote."""
    # One string for each chunk, in one list of JSON: the decoder of C reads them all.
    written = _SEPARATOR.join(chunks)
    if written.find(b"\\") < 0:
        return written.replace(b'"', b"\n").split(_SEPARATOR)
    written = written.translate(_SPACES).replace(b"\\\\", b"\\u005c").replace(b'\\"', b"\\u0022")
    written = written.replace(b'"', b"\\n").replace(_SEPARATOR, b'","')
    return [text.encode() for text in _decode_texts(b'["%b"]' % written)]


def redacted(data: bytes, search: Search, chars_min: int) -> bytes | None:
    """Return JSON without secrets; None if its texts have none. chars_min: of the shortest secret."""
    chunks = _CHUNK.findall(data)
    said = unescaped(chunks)
    found, end = _found_among(said, search)
    token = _token(chars_min)
    opened = {place: token.split(chunks[place]) for place in found if place < end}
    texts = dict.fromkeys(chain.from_iterable(parts[_TEXT] for parts in opened.values()))
    changed = _changed([*texts], search)
    if end < len(chunks):
        chunks[end:] = [b"".join(chunks[end:])]
        opened[end] = token.split(chunks[end])
    elif not changed:
        return None
    keys = _new_keys(opened, end, texts, changed, said)
    values = {one: _encode(text.decode()) for one, text in changed.items()}
    # Half a million texts can be left: to collect those that differ would take longer than to replace them.
    known, many = {**dict(zip(texts, texts, strict=True)), **values}, b'"%b"' % _MANY
    for place, parts in opened.items():
        pairs = zip(parts[_TEXT], parts[_COLON], strict=True)
        if place == end:
            parts[_TEXT] = [(keys if colon else known).get(one, many) for one, colon in pairs]
        else:
            parts[_TEXT] = [(keys if colon else values).get(one, one) for one, colon in pairs]
        chunks[place] = b"".join(parts)
    return b"".join(chunks)


@cache
def _token(chars_min: int) -> "re.Pattern[bytes]":
    """Return the pattern of a text or number that can hold a secret, with the shorter ones before it."""
    short = b""
    if chars_min > 1:
        most = b"%d" % (chars_min - 1)
        short = rb'|"(?:[^"\\]|\\.){0,%b}+"|-?[0-9][0-9.eE+-]{0,%d}+(?![0-9.eE+-])' % (most, chars_min - 3)
    before = rb'((?:[^"0-9-]++' + short + rb")*+)"
    return re.compile(before + b"(" + _STRING + b"|" + _NUMBER + rb")([ \t\r\n]*+:|)", re.DOTALL)


def _found_among(texts: list[bytes], search: Search) -> tuple[dict[int, list[Found] | None], int]:
    """Return the secrets in texts, by the text's place, and the place from which on none was searched.

    None stands for a text beside a secret that goes on in the next one: it is to be searched alone.
    """
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    found: dict[int, list[Found] | None] = {}
    for each in search(_SEPARATOR.join(texts)):
        first, last = (bisect_right(starts, place) - 1 for place in (each.start, each.end - 1))
        if each.is_rest:
            return found, first
        inside = found.setdefault(first, [])
        if first < last:
            found.update(dict.fromkeys(range(first, last + 1)))
        elif inside is not None:
            at = starts[first]
            inside.append(each._replace(start=each.start - at, end=each.end - at))
    return found, len(texts)


def _changed(texts: list[bytes], search: Search) -> dict[bytes, bytes]:
    """Return the new text of each text or number that has secrets, as written, or that was not searched."""
    said = [one[1:-1] if one[:1] == b'"' and b"\\" not in one else _text_of(one) for one in texts]
    found, end = _found_among(said, search)
    changed = dict.fromkeys(texts[end:], _MANY)
    for place, places in found.items():
        if place < end and (inside := search(said[place]) if places is None else places):
            changed[texts[place]] = with_placeholders(said[place], len(said[place]), inside)
    return changed


def _text_of(written: bytes) -> bytes:
    """Return the text of a string or number of JSON."""
    return _decode(written).encode() if written.startswith(b'"') else written


def _new_keys(
    opened: Mapping[int, list[bytes]],
    end: int,
    texts: Iterable[bytes],
    changed: Mapping[bytes, bytes],
    said: list[bytes],
) -> dict[bytes, bytes]:
    """Return the keys as JSON, by the old ones as written: no two new ones are equal.

    end: the place of the chunk whose texts were not searched, apart from these texts. said: the chunks
    without escapes, whose texts end with lines: a new key is none of their keys.
    """
    names = dict.fromkeys(chain.from_iterable(map(_keys_in, opened.values())))
    whole = b"\n".join(said) if names else b""
    lines = whole.split(b"\n") if whole.find(_MARK) >= 0 else ()
    taken = {text for text in lines if text.find(_MARK) >= 0}
    numbers: dict[bytes, int] = {}
    keys = {one: one for one in texts if one in names}
    for one in keys:
        if one in changed:
            key = free = changed[one]
            while free in taken:
                numbers[key] = numbers.get(key, 1) + 1
                free = b"%b %d" % (key, numbers[key])
            taken.add(free)
            keys[one] = _encode(free.decode())
    if end in opened:
        # A number of more digits than any key of them has.
        first = 10 ** max((len(text) for text in taken if text.startswith(_MANY)), default=0)
        later = [one for one in names if one not in keys]
        keys.update(
            zip(later, map((b'"' + _MANY + b' %d"').__mod__, range(first, first + len(later))), strict=True)
        )
    return keys


def _keys_in(parts: list[bytes]) -> Iterable[bytes]:
    """Return the keys of a chunk that was taken apart, as written."""
    return compress(parts[_TEXT], parts[_COLON])
