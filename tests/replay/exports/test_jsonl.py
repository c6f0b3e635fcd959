import json

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, MisuseError, WrongKey
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.exports.jsonl import ExportReader, Header, Item
from tests.replay.exports.kit import events_of, exported, log_of

LARGE = msgspec.Raw(b'"' + b"x" * 2_000 + b'"')
EVENTS = events_of([Cancel("why"), ToolReturned(1, 1, "ok", LARGE), ToolReturned(1, 2, "ok", LARGE)])
LINES = exported(log_of(EVENTS)).splitlines(keepends=True)


def read(lines: list[bytes], key: bytes | None = None) -> list[Item]:
    with ExportReader(lines, key, "file") as reader:
        return list(reader.items())


def changed(place: int, **values: object) -> list[bytes]:
    line = json.dumps({**json.loads(LINES[place]), **values}, separators=(",", ":")).encode()
    return [*LINES[:place], line + b"\n", *LINES[place + 1 :]]


def test_the_events_are_those_that_were_exported() -> None:
    header, *items = read(LINES)
    assert isinstance(header, Header)
    assert header.events == 3
    assert [item[0] for item in items if not isinstance(item, Header)] == EVENTS


def test_several_sessions_follow_each_other() -> None:
    assert len(read([*LINES, *LINES])) == 8


def test_every_changed_field_is_found_at_its_line() -> None:
    for place, line in enumerate(LINES):
        if b'"kind"' not in line:
            continue
        for name, value in json.loads(line).items():
            other = f"{value}x" if isinstance(value, str) else value + 1
            with pytest.raises(CorruptLog, match=f"line {place + 1}: ") as caught:
                read(changed(place, **{name: other}))
            assert caught.value.session_id == "s"


def test_every_missing_line_is_found() -> None:
    for place in range(1, len(LINES)):
        with pytest.raises(CorruptLog):
            read([*LINES[:place], *LINES[place + 1 :]])
    with pytest.raises(CorruptLog, match="ends at event 2, its head is 3:"):
        read(LINES[:-2])


def test_a_changed_large_value_and_a_moved_cut_are_found() -> None:
    blob = next(place for place, line in enumerate(LINES) if line.startswith(b'{"blob"'))
    with pytest.raises(CorruptLog, match="does not match its digest"):
        read(changed(blob, data='"y"'))
    with pytest.raises(CorruptLog, match="not event 9"):
        read(changed(blob + 1, seq=9))
    with pytest.raises(CorruptLog, match="does not match its digest"):
        read(changed(blob + 1, cuts=[]))


def test_a_line_that_is_no_json_is_named() -> None:
    for junk in (b"\n", b"nonsense\n", b"\xff\xfe\n", b'{"seq":true}\n', b'{"blob":"zz","data":""}\n'):
        with pytest.raises(CorruptLog, match="file, line 3: cannot be read"):
            read([*LINES[:2], junk, *LINES[2:]])


def test_a_file_that_is_no_such_export_says_how_to_make_one() -> None:
    for lines in ([], [b"{}\n"], LINES[1:], [b'{"sessions":[\n']):
        with pytest.raises(MisuseError, match="callboard export"):
            read(lines)
    with pytest.raises(MisuseError, match="--parsed"):
        read(exported(log_of(EVENTS), is_parsed=True).splitlines(keepends=True))
    with pytest.raises(MisuseError, match="newer callboard"):
        read(changed(0, version=2))


def test_digests_under_a_key_need_that_key() -> None:
    key = b"a secret key"
    lines = exported(log_of(EVENTS, key), key).splitlines(keepends=True)
    assert len(read(lines, key)) == 4
    for wrong in (None, b"another"):
        with pytest.raises(WrongKey):
            read(lines, wrong)
    with pytest.raises(WrongKey):
        read(LINES, key)
