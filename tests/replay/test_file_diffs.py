"""The differences of files."""

from pathlib import Path

import pytest

from callboard.replay import file_diffs
from callboard.replay.file_diffs import folder_diff, line_diff
from tests.runtime.files.history_kit import Told


def test_lines_are_compared_and_new_and_removed_files_are_named() -> None:
    assert line_diff("a", b"1\n2\n", b"1\n3\n")[2:] == ("@@ -1,2 +1,2 @@", " 1", "-2", "+3")
    assert line_diff("a", None, b"1\n")[:2] == ("--- /dev/null", "+++ b/a")
    assert line_diff("a", b"1\n", None)[:2] == ("--- a/a", "+++ /dev/null")


def test_two_lines_stand_around_a_change() -> None:
    assert line_diff("a", b"1\n2\n3\n", b"1\n2\n3\n4\n")[2:] == ("@@ -2,2 +2,3 @@", " 2", " 3", "+4")


def test_binary_and_long_files_are_compared_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert line_diff("a", b"\0", b"\xff" * 7) == ("binary: 1 bytes, then 7 bytes",)
    assert line_diff("a", b"\0", b"text") == ("binary: 1 bytes, then 4 bytes",)
    assert line_diff("a", b"text", b"\0") == ("binary: 4 bytes, then 1 bytes",)
    assert file_diffs.LINES_MAX == 5_000
    monkeypatch.setattr(file_diffs, "LINES_MAX", 2)
    assert line_diff("a", b"1\n2\n", b"1\n3\n")[-1] == "+3", "no more than 2 lines"
    assert line_diff("a", None, b"1\n2\n3\n") == ("more than 2 lines: no file, then 6 bytes",)


def test_two_folders_differ_where_their_versions_do(tmp_path: Path) -> None:
    one, other = Told(tmp_path / "one"), Told(tmp_path / "other")
    for told in (one, other):
        told.write("same", b"x")
    one.write("a", b"1\n")
    other.write("a", b"2\n")
    other.write("b", b"3")
    found = {change.path: change.lines[-1] for change in folder_diff(one.recorded(), other.recorded())}
    assert found == {"a": "+2", "b": "session s neither found nor changed it"}
    found_before = {change.path for change in folder_diff(one.recorded(0), other.recorded(0))}
    assert found_before == {"b"}


def test_a_file_that_one_session_knows_has_the_version_of_that_one(tmp_path: Path) -> None:
    one, other = Told(tmp_path / "one"), Told(tmp_path / "other")
    one.write("a", b"1\n")
    (of_first,) = folder_diff(one.recorded(), other.recorded())
    (of_second,) = folder_diff(other.recorded(), one.recorded())
    assert of_first.first == of_second.second == one.recorded().files["a"].version
    assert of_first.second is None
    assert of_second.first is None
    assert of_first.lines == of_second.lines == ("session s neither found nor changed it",)


def test_bytes_that_the_log_does_not_have_are_told_with_the_reason(tmp_path: Path) -> None:
    one, other = Told(tmp_path / "one"), Told(tmp_path / "other", bytes_max=1)
    one.write("a", b"1\n")
    other.write("a", b"long\n")
    (found,) = folder_diff(one.recorded(), other.recorded())
    assert found.lines == ("session s does not have the bytes: the history was at its limit",)
