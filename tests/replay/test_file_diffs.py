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


def test_binary_and_long_files_are_compared_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert line_diff("a", b"\0", b"\xff" * 7) == ("binary: 1 bytes, then 7 bytes",)
    monkeypatch.setattr(file_diffs, "LINES_MAX", 2)
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
