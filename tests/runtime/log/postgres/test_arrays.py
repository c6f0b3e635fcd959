"""Arrays in binary form come back from the server as they were given."""

import struct
from typing import Any

import pytest

from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.arrays import Bytea, byteas, int8s, texts
from callboard.runtime.log.postgres.link import Link
from tests.postgres_server import shared

CASES: list[tuple[Any, list[Any]]] = [
    (int8s, [0, -1, (1 << 63) - 1, -(1 << 63)]),
    (int8s, []),
    (texts, ["", "a", "\N{SNOWMAN}'\"\\{},NULL", "x" * 5_000]),
    (texts, []),
    (byteas, [b"", b"\0\xff", b"y" * 4_095, b"z" * 4_096]),
    (byteas, []),
]


def test_the_server_reads_what_was_packed() -> None:
    link = Link(address_of(shared().url()))
    for pack, items in CASES:
        assert link.read("SELECT %s", (pack(items),)) == [(items,)]
        assert [one for (one,) in link.read("SELECT * FROM unnest(%s)", (pack(items),))] == items
    assert link.read("SELECT %s", (Bytea(b"\0one"),)) == [(b"\0one",)]
    link.close()


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_a_number_of_more_than_64_bits_is_refused(number: int) -> None:
    with pytest.raises(struct.error, match=r"too large|format requires"):
        int8s([number])
