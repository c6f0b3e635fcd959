"""Versions of files on their way to the log: which ones are kept, and how."""

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.file_versions import FileVersion
from callboard.runtime.files import versions
from callboard.runtime.files.versions import CallVersions
from callboard.runtime.log.file_contents import STEPS_MAX, digest_of
from callboard.runtime.secrets.redactor import Redactor
from tests.effort import effort
from tests.runtime.files.history_kit import Told, change, folder


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "root")


def paths(files: tuple[FileVersion, ...]) -> list[tuple[str, bool, bool]]:
    return [(one.path, one.is_found, one.is_there) for one in files]


def test_the_first_write_of_a_file_names_the_version_before_it(told: Told) -> None:
    change(told.root / "a", b"before")
    assert paths(told.write("a", b"after").files) == [("a", True, True), ("a", False, True)]
    assert paths(told.write("new", b"x").files) == [("new", True, False), ("new", False, True)]
    assert [told.as_of(seq).get("a") for seq in (0, 1, 2)] == [b"before", b"after", b"after"]
    assert ("new" in told.as_of(1), told.as_of(2)["new"]) == (False, b"x")


def test_equal_bytes_are_stored_once_and_an_equal_write_is_none(told: Told) -> None:
    told.write("a", b"text")
    assert told.write("b", b"text").contents == ()
    again = told.write("a", b"text")
    assert (again.files, again.contents) == ((), ())
    assert told.as_of() == {"a": b"text", "b": b"text"}


def test_a_small_change_of_a_large_file_is_stored_as_a_difference(told: Told) -> None:
    text = b"".join(b"line %d\n" % number for number in range(5_000))
    told.write("a", text)
    for number in range(STEPS_MAX + 4):
        text = text.replace(b"line %d\n" % (number * 7), b"another %d\n" % number)
        body = told.write("a", text)
        assert body.files[-1].differences == (number + 1 if number < STEPS_MAX else number - STEPS_MAX)
        assert len(body.contents[0]) < (300 if body.files[-1].differences else 30_000)
    assert told.as_of()["a"] == text


def test_a_program_is_compared_and_moves_removals_and_permissions_are_found(told: Told) -> None:
    for name in ("old", "kept", "gone"):
        change(told.root / name, name.encode() * 3)
    call = told.call()
    call.begin()
    (told.root / "old").rename(told.root / "new")
    (told.root / "gone").unlink()
    (told.root / "kept").chmod(0o755)
    call.end()
    body = told.answer(call)
    assert {(one.path, one.is_there) for one in body.files if not one.is_found} == {
        ("old", False),
        ("new", True),
        ("gone", False),
        ("kept", True),
    }
    assert told.as_of(0) == {"old": b"oldoldold", "kept": b"keptkeptkept", "gone": b"gonegonegone"}
    assert told.as_of() == {"new": b"oldoldold", "kept": b"keptkeptkept"}
    assert told.recorded().files["kept"].version.is_executable
    assert len(body.contents) == 3  # a moved file is stored once


def test_a_change_within_one_tick_of_the_clock_is_found(told: Told) -> None:
    for number in range(20):
        told.write("a", b"%02d" % number)
        body = told.run(("a", b"%02d" % (number + 50)))
        assert [one.digest for one in body.files] == [digest_of(b"%02d" % (number + 50))]


def test_a_change_by_others_is_found_before_the_next_write_and_program(told: Told) -> None:
    told.write("a", b"1")
    change(told.root / "a", b"by hand")
    assert paths(told.write("a", b"2").files) == [("a", True, True), ("a", False, True)]
    change(told.root / "a", b"by hand again")
    assert paths(told.run().files) == [("a", True, True)]
    assert told.as_of()["a"] == b"by hand again"


def test_of_two_calls_the_one_that_wrote_last_has_the_version_of_the_folder(told: Told) -> None:
    first, second = told.call(), told.call()
    told.files_of(first).write_bytes("a", b"1")
    told.files_of(second).write_bytes("a", b"2")
    assert [one.is_late for one in told.answer(second).files] == [False, False]
    assert all(one.is_late for one in told.answer(first).files)
    assert told.as_of() == {"a": b"2"}


def test_no_difference_has_the_version_of_a_call_under_way_as_its_base(told: Told) -> None:
    text = b"".join(b"%d\n" % number for number in range(3_000))
    lost, other = told.call(), told.call()
    told.files_of(lost).write_bytes("a", text)
    told.files_of(other).write_bytes("a", text + b"more\n")
    told.answer(other)  # the process ends before the answer of the first call
    assert told.as_of() == {"a": text + b"more\n"}


def test_a_write_behind_the_answer_is_found_by_the_next_call(told: Told) -> None:
    late = told.call()
    told.answer(late)
    before = late.before("a")
    change(told.root / "a", b"late")
    late.wrote("a", before, late.before("a"))
    told.write("a", b"next")
    assert told.as_of(1) == {"a": b"late"}


def test_a_version_with_a_secret_keeps_digest_and_size_alone(told: Told) -> None:
    redactor = Redactor()
    redactor.learn("KEY", "open-sesame")
    told = Told(told.root, redactor=redactor)
    change(told.root / "a", b"plain")
    body = told.write("a", b"the key is open-sesame")
    found, written = body.files
    assert (found.left_out, written.left_out, written.bytes) == ("", "secret", 22)
    assert written.digest == digest_of(b"the key is open-sesame")
    assert b"sesame" not in b"".join(map(bytes, body.contents))
    wide = told.write("b", "﻿open-sesame".encode("utf-16"))
    assert wide.files[-1].left_out == "secret"
    named = told.write("open-sesame.txt", b"x")
    assert (named.files, "holds a secret" in named.files_gap) == ((), True)


def test_a_history_at_its_limit_names_versions_without_their_bytes(tmp_path: Path) -> None:
    told = Told(tmp_path / "root", bytes_max=500)
    bodies = [told.write("a", bytes(range(number, number + 100))) for number in range(5)]
    left_out = [body.files[-1].left_out for body in bodies]
    assert left_out == ["", "", "full", "full", "full"]
    assert [told.recorded(seq).files["a"].version.left_out for seq in (1, 3)] == ["", "full"]
    assert told.write("b", bytes(range(100))).files[-1].left_out == ""  # the log has these bytes


def test_what_one_program_changes_is_limited_and_the_rest_is_a_gap(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "CHANGED_MAX", 3)
    body = told.run(*((f"f{number}", b"x%d" % number) for number in range(5)))
    assert len(told.as_of()) == 3
    assert body.files_gap == "2 more files changed than are kept of one call"


def test_a_file_that_vanishes_or_cannot_be_read_is_no_failure(told: Told) -> None:
    change(told.root / "a", b"x")
    call = told.call()
    call.begin()
    (told.root / "a").unlink()
    (told.root / "a").mkdir()
    call.end()
    assert paths(told.answer(call).files) == [("a", True, True), ("a", False, False)]


_NAMES = st.sampled_from(["a", "b", "d/c"])
_DATA = st.sampled_from([b"", b"1", b"22", b"line\n" * 400, b"line\n" * 399 + b"x\n"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 2), _NAMES, _DATA),
        st.tuples(st.just("program"), st.integers(0, 2), _NAMES, st.none() | _DATA),
        st.tuples(st.just("others"), st.just(0), _NAMES, st.none() | _DATA),
        st.tuples(st.just("answer"), st.integers(0, 2), st.just(""), st.none()),
        st.tuples(st.just("lose"), st.integers(0, 2), st.just(""), st.none()),
    ),
    max_size=14,
)


_EMPTY = dict.fromkeys(["a", "d/c"], b"")


@settings(max_examples=effort(25, 1_500))
@given(st.dictionaries(_NAMES, _DATA), _STEPS)
@example(  # a call finds what the log knows, while the answer of another one is to bring another version
    _EMPTY,
    [
        ("program", 2, "d/c", None),
        ("answer", 2, "", None),
        ("others", 0, "d/c", b""),
        ("program", 0, "d/c", None),
        ("program", 1, "a", None),
    ],
)
@example(
    _EMPTY,
    [
        ("write", 0, "a", b"1"),
        ("answer", 0, "", None),
        ("write", 1, "a", b"22"),
        ("others", 0, "a", b"1"),
        ("write", 2, "a", b"1"),
        ("answer", 2, "", None),
        ("answer", 1, "", None),
    ],
)
def test_whatever_calls_programs_and_others_do_the_history_is_that_of_the_folder(
    start: dict[str, bytes], steps: list[tuple[str, int, str, bytes | None]]
) -> None:
    """Three calls at a time write, run programs, answer or are lost with their process."""
    with tempfile.TemporaryDirectory() as place:
        told = Told(Path(place, "root"))
        for path, content in start.items():
            change(told.root / path, content)
        calls: dict[int, tuple[CallVersions, bool]] = {}
        for kind, number, path, data in steps:
            call, has_begun = calls.get(number) or (told.call(), False)
            if kind == "write":
                told.files_of(call).write_bytes(path, data or b"")
            elif kind == "program":
                if not has_begun:
                    call.begin()
                change(told.root / path, data)
                has_begun = True
            elif kind == "others":
                change(told.root / path, data)
            if kind in ("write", "program"):
                calls[number] = (call, has_begun)
            elif kind == "answer" and number in calls:
                _answer(told, *calls.pop(number))
            elif kind == "lose":  # the process ends, and another one goes on with the log
                calls.clear()
                told.session = type(told.session)(told.files, told.history, Redactor(), 10_000_000)
        for call, has_begun in calls.values():
            _answer(told, call, has_begun)
        told.run()
        known = folder(told.root)
        assert told.as_of() == {path: known[path] for path in told.history.versions if path in known}
        before = told.recorded(0)
        for path in before.there:
            assert start.get(path) is not None or any(step[2] == path for step in steps)
        _check_contents(told)


def _answer(told: Told, call: CallVersions, has_begun: bool) -> None:
    if has_begun:
        call.end()
    told.answer(call)


def _check_contents(told: Told) -> None:
    """Check that the log has the bytes of each version, as of its event."""
    for one in itertools.chain.from_iterable(told.history.versions.values()):
        version = one.version
        if version.digest and not version.left_out:
            assert len(told.recorded().bytes_of(version)) == version.bytes
