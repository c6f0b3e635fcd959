"""Putting files back: nothing that the log lacks is lost."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Files
from callboard.errors import ChangedFiles, CorruptLog, FileError, MissingVersions, MisuseError
from callboard.runtime.files import restoring
from callboard.runtime.files.restoring import restore
from callboard.runtime.log.file_contents import Contents
from callboard.runtime.log.recorded_files import RecordedFiles
from callboard.runtime.secrets.redactor import Redactor
from tests.effort import effort
from tests.runtime.files.history_kit import Told, change, folder


@pytest.fixture
def told(tmp_path: Path) -> Told:
    told = Told(tmp_path / "root")
    change(told.root / "kept", b"never touched")
    change(told.root / "a", b"0")
    told.write("a", b"1")
    told.run(("a", b"2"), ("d/new", b"x"))
    return told


def test_files_go_back_and_forth_and_others_stay(told: Told) -> None:
    at_the_start = restore(told.files, told.recorded(0))
    assert (at_the_start.written, at_the_start.removed) == (("a",), ("d/new",))
    assert folder(told.root) == {"kept": b"never touched", "a": b"0"}
    restore(told.files, told.recorded())
    assert folder(told.root) == {"kept": b"never touched", "a": b"2", "d/new": b"x"}
    assert restore(told.files, told.recorded()).written == ()


def test_nothing_is_written_over_a_change_that_the_log_does_not_know(told: Told) -> None:
    change(told.root / "a", b"by hand")
    with pytest.raises(ChangedFiles, match="does not know: a; nothing was written") as error:
        restore(told.files, told.recorded(1))
    assert error.value.paths == ("a",)
    assert folder(told.root)["d/new"] == b"x"
    restore(told.files, told.recorded(1), force=True)
    assert folder(told.root) == {"kept": b"never touched", "a": b"1"}


def test_a_file_that_somebody_removed_is_a_change_and_one_that_has_the_bytes_is_none(told: Told) -> None:
    change(told.root / "a", None)
    with pytest.raises(ChangedFiles):
        restore(told.files, told.recorded(1))
    change(told.root / "a", b"1")
    assert restore(told.files, told.recorded(1)).written == ()


def test_a_secret_is_never_put_back(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.learn("KEY", "open-sesame")
    told = Told(tmp_path / "root", redactor=redactor)
    told.write("a", b"open-sesame")
    told.write("b", b"plain")
    with pytest.raises(MissingVersions, match=r"does not have the bytes of a \(secret\)"):
        restore(told.files, told.recorded())
    change(told.root / "b", None)
    done = restore(told.files, told.recorded(), skip_lost=True, force=True)
    assert (done.written, done.skipped) == (("b",), ("a",))
    with pytest.raises(ChangedFiles):  # the log cannot put the file with the secret back
        restore(told.files, told.recorded(0))


def test_a_damaged_version_is_found_before_anything_is_written(told: Told) -> None:
    change(told.root / "a", b"1")
    broken = RecordedFiles("s", 0, told.history, Contents())
    with pytest.raises(CorruptLog):
        restore(told.files, broken)
    assert folder(told.root)["d/new"] == b"x"


def test_a_link_or_a_folder_in_the_place_of_a_file_is_no_way_out(told: Told, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"2")
    (told.root / "a").unlink()
    (told.root / "a").symlink_to(outside)
    with pytest.raises(ChangedFiles):
        restore(told.files, told.recorded(1))
    with pytest.raises(FileError, match="link"):
        restore(told.files, told.recorded(1), force=True)
    assert outside.read_bytes() == b"2"


def test_permissions_go_back(told: Told) -> None:
    call = told.call()
    call.begin()
    (told.root / "a").chmod(0o755)
    call.end()
    told.answer(call)
    restore(told.files, told.recorded(2))
    assert (told.root / "a").stat().st_mode & 0o111 == 0
    restore(told.files, told.recorded())
    assert (told.root / "a").stat().st_mode & 0o111 == 0o111


def test_names_that_differ_in_case_alone_are_refused_where_they_are_one(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.write("README", b"1")
    told.write("ReadMe", b"2")
    assert not restoring.takes_cases_for_one(told.files)
    assert restore(told.files, told.recorded()).written == ()
    monkeypatch.setattr(restoring, "takes_cases_for_one", lambda files: True)
    with pytest.raises(MisuseError, match=r"upper and lower case for one.*README, ReadMe"):
        restore(told.files, told.recorded())


def test_an_empty_folder_gets_what_the_history_knows(told: Told, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ChangedFiles):  # somebody has removed a file that was there at the start
        restore(Files(other, write=["."]), told.recorded())
    restore(Files(other, write=["."]), told.recorded(), force=True)
    assert folder(other) == {"a": b"2", "d/new": b"x"}


_WRITES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([b"1", b"2", b"33"])), max_size=6)


@settings(max_examples=effort(15, 500))
@given(_WRITES, st.data())
def test_a_folder_goes_to_any_event_and_back(writes: list[tuple[str, bytes]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as place:
        told = Told(Path(place, "root"))
        after = [folder(told.root)]
        for path, content in writes:
            told.write(path, content)
            after.append(folder(told.root))
        for at in data.draw(st.lists(st.integers(0, len(writes)), max_size=4)):
            restore(told.files, told.recorded(at))
            assert folder(told.root) == after[at]
