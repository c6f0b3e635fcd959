"""Tests of the fold of the versions of files."""

from dataclasses import dataclass, field

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.session.file_history import (
    INTERRUPTED,
    FileHistory,
    Gap,
    bases_of,
    contents_for,
    digest_in,
    history_of,
    why_unfit,
)
from tests.tables import table

_NONE = FileVersion("a", is_found=True)


def answer(seq: int, *files: FileVersion, gap: str = "", contents: tuple[Json, ...] = ()) -> Event:
    body = ToolReturned(seq, 0, files=files, files_gap=gap, contents=contents)
    return Event(seq, seq, TOOLS, HOST, seq - 1, body)


def history(*events: Event) -> FileHistory:
    found = FileHistory()
    for event in events:
        found.take(event)
    return found


def test_a_folder_is_known_as_of_each_event_and_before_the_first() -> None:
    found = history(answer(5, _NONE, FileVersion("a", "1", 1)), answer(9, FileVersion("a", "2", 2)))
    assert [found.as_of(seq)["a"].version.digest for seq in (0, 4, 5, 8, 9, 99)] == [
        "",
        "",
        "1",
        "1",
        "2",
        "2",
    ]


def test_a_late_version_never_is_the_one_of_the_folder() -> None:
    found = history(
        answer(5, _NONE, FileVersion("a", "2", 1)),
        answer(7, FileVersion("a", "1", 1, is_late=True)),
    )
    now = found.now("a")
    assert now is not None
    assert (now.digest, found.as_of(9)["a"].seq) == ("2", 5)


def test_only_versions_with_bytes_can_be_the_base_of_others() -> None:
    found = history(
        answer(5, _NONE, FileVersion("a", "1", 1, differences=3), FileVersion("b", "2", 1, "secret")),
        answer(6, FileVersion("c", "1", 1), contents=(msgspec.Raw(b"{}"),)),
    )
    assert found.steps == {"1": 3}
    assert found.stored_bytes == 2


def test_gaps_are_named_up_to_an_event() -> None:
    found = history(answer(5, gap="too many"), answer(8, gap="more"))
    assert [gap.why for gap in found.gaps_to(7)] == ["too many"]


@dataclass
class _Folder:
    """The model: the contents of a folder, now and after each event."""

    files: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    after: list[dict[str, str]] = field(default_factory=list)


_CALLS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "2", "3"])), max_size=3), max_size=8
)


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"])), _CALLS)
def test_the_folder_as_of_any_event_is_that_of_the_model(
    start: dict[str, str], calls: list[list[tuple[str, str]]]
) -> None:
    model, found = _Folder(dict(start)), FileHistory()
    model.after.append(dict(model.files))
    for seq, writes in enumerate(calls, 1):
        named = []
        for path, digest in writes:
            before = model.files.get(path, "")
            if model.known.get(path) != before:
                named.append(FileVersion(path, before, is_found=True))
            named.append(FileVersion(path, digest))
            model.files[path] = model.known[path] = digest
        found.take(answer(seq, *named))
        model.after.append(dict(model.files))
    for seq, files in enumerate(model.after):
        listed = {path: one.version.digest for path, one in found.as_of(seq).items()}
        assert listed == {path: files.get(path, "") for path in found.versions}


def test_a_recorded_result_fits_a_copy_that_has_what_its_call_found() -> None:
    origin = history(answer(3, _NONE, FileVersion("a", "1", 1)))
    body = answer(5, FileVersion("a", "2", 1)).body
    assert isinstance(body, ToolReturned)
    bases = bases_of(body, origin)
    start = origin.as_of(0)
    assert why_unfit(body, bases, start, origin) == ""
    assert "a has other bytes" in why_unfit(body, bases, start, FileHistory())
    assert why_unfit(body, bases, origin.as_of(3), FileHistory()) == ""
    other = history(answer(4, _NONE, FileVersion("a", "9", 1)))
    assert "a has other bytes" in why_unfit(body, bases, start, other)


def test_a_change_by_others_before_a_call_comes_with_its_result() -> None:
    origin = history(answer(3, _NONE, FileVersion("a", "1", 1)))
    body = answer(5, FileVersion("a", "7", 1, is_found=True), FileVersion("a", "2", 1)).body
    assert isinstance(body, ToolReturned)
    assert why_unfit(body, bases_of(body, origin), origin.as_of(3), FileHistory()) == ""


def test_a_result_without_its_bytes_fits_no_copy_unless_told() -> None:
    body = answer(5, _NONE, FileVersion("a", "1", 1, "secret")).body
    assert isinstance(body, ToolReturned)
    now = FileHistory()
    assert "does not have the bytes of a (secret)" in why_unfit(body, bases_of(body, now), {}, now)
    assert why_unfit(body, bases_of(body, now), {}, now, skips_lost=True) == ""


def opening(body: SessionOpened | Resumed | Forked) -> Event:
    return Event(1, 1, CLIENT, SUPERVISOR, 0, body)


def area(*, history: bool) -> FileArea:
    return FileArea("files", history=history)


OPENED = SessionOpened(2, "host", (), ModelSpec("m"))


@table(
    ("bodies", "is_kept"),
    [
        ([], False),
        ([OPENED], False),
        ([replace(OPENED, files=area(history=True))], True),
        ([replace(OPENED, files=area(history=True)), Resumed(2)], True),
        ([replace(OPENED, files=area(history=True)), Resumed(2, files=area(history=False))], False),
        ([OPENED, Resumed(2, files=area(history=True))], True),
        ([OPENED, Forked("s", 1, "", Resumed(2, files=area(history=True)))], True),
    ],
)
def test_a_call_that_was_interrupted_leaves_a_gap_if_the_session_keeps_versions(
    bodies: list[SessionOpened | Resumed | Forked], is_kept: bool
) -> None:
    cut = Event(7, 7, TOOLS, HOST, 6, ToolReturned(1, 0, "interrupted"))
    told = Event(8, 8, TOOLS, HOST, 6, ToolReturned(1, 0, "interrupted", files_gap="too many"))
    done = Event(9, 9, TOOLS, HOST, 6, ToolReturned(1, 0))
    found = history_of([*map(opening, bodies), cut, told, done, Event(10, 9, HOST, TOOLS, 6, Stopped())])
    assert found.is_kept == is_kept
    gaps = [Gap(7, INTERRUPTED)] * is_kept + [Gap(8, "too many")]
    assert found.gaps_to(9) == found.gaps == gaps
    assert [found.gaps_to(seq) for seq in (6, 7)] == [[], gaps[:-1]]


def content(digest: str, base: str = "") -> Json:
    return Json(msgspec.json.encode({"digest": digest, "base": base}))


def test_a_log_is_given_the_bytes_that_it_lacks_and_those_of_their_bases() -> None:
    contents = {"1": content("1"), "2": content("2", "1"), "3": content("3", "2"), "4": content("4", "4")}
    versions = {digest: FileVersion(f"f{digest}", digest, 1) for digest in "1234"}

    def given(digests: str, known: str = "") -> list[str]:
        return [digest_in(one) for one in contents_for([versions[one] for one in digests], contents, known)]

    assert given("1") == ["1"]
    assert given("3") == ["3", "2", "1"]
    assert given("23") == ["2", "1", "3"]
    assert given("3", known="2") == ["3"]
    assert given("1", known="1") == []
    assert given("4") == ["4"]
    lost = FileVersion("f1", "1", 1, left_out="secret")
    assert contents_for([lost, FileVersion("gone"), FileVersion("new", "9", 1)], contents, ()) == ()
