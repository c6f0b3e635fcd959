"""JSON of a server, read and shown."""

import pytest

from callboard.runtime.mcp.foreign_json import parsed, shown
from tests.tables import table


@table(
    ("data", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'"a\tb"', "a\tb"),
        (b'"\xff"', "\ufffd"),
        (b'"\\ud83d"', "\ud83d"),
        (b"[1, 2.5e3]\r", [1, 2500.0]),
    ],
)
def test_json_is_read_as_servers_write_it(data: bytes, value: object) -> None:
    assert parsed(data) == value


@table("data", [b"", b"{", b"{} {}", b"[" * 100_000, b"1" * 10_000])
def test_other_data_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(data)


def test_a_value_is_shown_by_its_beginning() -> None:
    assert shown({"a": "\u2603"}) == '{"a": "\u2603"}'
    assert shown("a\ud83d") == '"a\ufffd"'
    assert shown([0] * 10**6, 5) == "[0, 0..."
    assert len(shown("a" * 10**7, 50)) == 53


def test_a_value_that_is_nested_too_deeply_is_shown_too() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep, 10**6).startswith("[[[")
    while deep:  # taken apart step by step, as its own end would nest too deeply
        deep = deep[0]  # type: ignore[assignment]  # a list
