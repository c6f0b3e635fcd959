from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.labels import Labels, united
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.uses import Use
from callboard.actors.session.file_labels import VERSIONS_MAX, FileLabels

CALL = CallTool(1, 1, "save", "write", NULL, labels=("secret",))
words = st.sampled_from(["secret", "untrusted", "x"])
labels = st.lists(words, max_size=2).map(lambda one: united(tuple(one)))
writes = st.tuples(st.sampled_from(["a", "b"]), st.integers(1, VERSIONS_MAX + 2).map(str), labels)


def opened(labels: Labels) -> Event:
    """Return the first event of a session with files."""
    area = FileArea("files", labels=labels)
    return Event(1, 0, CLIENT, SUPERVISOR, 0, SessionOpened(1, "host", (), ModelSpec("m", 50), files=area))


def resumed(labels: Labels | None) -> Event:
    """Return a resume, with files that have these labels; None without a change of files."""
    area = None if labels is None else FileArea("files", labels=labels)
    return Event(2, 0, CLIENT, SUPERVISOR, 0, Resumed(1, files=area))


def written(path: str, digest: str, of: Labels, status: str = "ok") -> ToolReturned:
    return ToolReturned(1, 1, status, uses=(Use("write", path, digest, of),))  # type: ignore[arg-type]  # a status


def test_a_file_has_the_labels_of_the_write_with_its_bytes() -> None:
    files = FileLabels()
    files.take(CALL, written("a", "1", ("secret",)))
    files.take(CALL, written("a", "2", (), "error"))
    assert files.labels_of("a", "1") == ("secret",)
    assert files.labels_of("a", "2") == ()


def test_a_changed_file_is_unknown_and_keeps_the_labels_of_its_writes() -> None:
    files = FileLabels()
    files.take(CALL, written("a", "1", ("secret",)))
    assert files.labels_of("a", "other") == ("secret", "unknown")
    assert files.labels_of("b", "other") == ()


def test_files_of_the_start_have_the_labels_of_every_resume() -> None:
    files = FileLabels()
    files.declare(opened(("untrusted",)))
    files.declare(resumed(("mail",)))
    files.declare(resumed(None))
    assert files.labels_of("a", "") == ("mail", "untrusted")


def test_a_call_that_a_crash_cut_off_may_have_written_any_file() -> None:
    files = FileLabels()
    files.take(CALL, ToolReturned(1, 1, "interrupted"))
    assert files.labels_of("a", "") == (), "the session has no files"
    files.declare(opened(()))
    files.take(CALL, ToolReturned(1, 1, "interrupted"))
    assert files.labels_of("a", "") == ("secret", "unknown")


def test_a_call_that_was_cut_off_and_tells_its_writes_labels_no_other_file() -> None:
    files = FileLabels()
    files.declare(opened(()))
    files.take(CALL, written("a", "1", ("secret",), "interrupted"))
    assert files.labels_of("b", "") == ()


def test_a_read_records_no_version() -> None:
    files = FileLabels()
    files.take(CALL, ToolReturned(1, 1, "ok", uses=(Use("read", "a", labels=("secret",)),)))
    assert not files.is_written("a")
    files.take(CALL, written("b", "1", ()))
    assert files.is_written("b")


def test_bytes_that_come_back_after_nine_other_versions_keep_their_label() -> None:
    files = FileLabels()
    files.note("a", "yes", ("secret",))
    for number in range(VERSIONS_MAX + 1):
        files.note("a", f"other {number}", ())
    files.note("a", "yes", ())
    assert files.labels_of("a", "yes") == ("secret",)


def test_the_last_eight_versions_are_told_apart_however_many_there_were() -> None:
    """The labels of all older ones stay with the file, as those of no version in particular."""
    files = FileLabels()
    made = [f"v{number}" for number in range(3 * VERSIONS_MAX)]
    for number, label in enumerate(made, 1):
        files.note("a", label, (label,))
        # From the first older one on, a version begins with the labels of all that it may have been before.
        for last in made[max(0, number - VERSIONS_MAX + 1) : number]:
            assert last in files.labels_of("a", last)
            assert "unknown" not in files.labels_of("a", last)
        assert set(files.labels_of("a", "changed")) == {*made[:number], "unknown"}
    assert set(files.labels_of("a", made[0])) == {*made, "unknown"}


@given(st.lists(writes, min_size=VERSIONS_MAX + 2, max_size=40))
def test_no_label_of_a_write_is_ever_lost(made: list[tuple[str, str, Labels]]) -> None:
    files = FileLabels()
    for path, digest, of in made:
        files.note(path, digest, of)
    for path, digest, of in made:
        assert set(of) <= set(files.labels_of(path, digest))
        assert set(of) <= set(files.labels_of(path, "changed"))
        assert len(files._versions[path]) <= VERSIONS_MAX + 1


def test_eight_versions_are_told_apart_and_an_unnamed_one_is_none_of_the_older() -> None:
    files = FileLabels()
    for number in range(8):
        files.note("a", f"v{number}", (f"l{number}",))
    assert files.labels_of("a", "v0") == ("l0",)
    files.note("a", "v8", ("l8",))
    assert "unknown" in files.labels_of("a", "v0")
    assert "unknown" in files.labels_of("a", "")


def test_a_call_that_has_ended_and_tells_no_write_labels_no_file() -> None:
    files = FileLabels()
    files.declare(opened(()))
    files.take(CALL, ToolReturned(1, 1, "ok"))
    assert files.labels_of("b", "") == ()
