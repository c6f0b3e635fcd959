"""The files of a fork: which recorded results are given, and the bytes that come with them."""

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST, TOOLS
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.file_versions import FileVersion
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.session.copied_files import NO_COPY, CopiedFiles, CopyChoice, OriginFiles
from callboard.actors.session.file_history import FileHistory, bases_of
from tests.tables import table


def content(digest: str, base: str = "", **more: object) -> Json:
    return Json(msgspec.json.encode({"digest": digest, "base": base, **more}))


def answer(seq: int, *files: FileVersion, contents: tuple[Json, ...] = ()) -> Event:
    return Event(seq, seq, TOOLS, HOST, seq - 1, ToolReturned(seq, 0, files=files, contents=contents))


FOUND = FileVersion("a", "0", 1, is_found=True)
FIRST = answer(3, FOUND, FileVersion("a", "1", 1), contents=(content("0"), content("1", "0")))
SECOND = answer(5, FileVersion("a", "2", 1), contents=(content("2", "1"), content("1", "0", again=True)))
LOST = answer(7, FileVersion("a", left_out="large"))
POST = Post(HOST, SECOND.body)


def origin() -> OriginFiles:
    found = OriginFiles()
    for event in (FIRST, Event(4, 4, HOST, TOOLS, 3, Stopped()), SECOND):
        found.take(event)
    return found


def test_a_recording_knows_the_bytes_of_each_version_and_the_folder_as_of_each_event() -> None:
    found = origin()
    assert found.contents == {"0": content("0"), "1": content("1", "0"), "2": content("2", "1")}
    assert {at: found.as_of(at)["a"].version.digest for at in (0, 3, 5)} == {0: "0", 3: "1", 5: "2"}
    history = FileHistory()
    for event in (FIRST, SECOND):
        history.take(event)
    assert isinstance(LOST.body, ToolReturned)
    assert found.bases(LOST.body) == bases_of(LOST.body, history) == {"a": ("2", 1, False)}
    assert found.bases(ToolReturned(1, 0)) == found.bases(ModelReplied(1, 1, "ok")) == {}


@table(
    ("choice", "base", "body", "why"),
    [
        (CopyChoice(True, False), 3, SECOND.body, ""),
        (CopyChoice(True, False), 0, SECOND.body, "a has other bytes in this fork than the call found"),
        (NO_COPY, 0, SECOND.body, ""),
        (CopyChoice(True, False), 5, LOST.body, "the log does not have the bytes of a (large)"),
        (CopyChoice(True, True), 5, LOST.body, ""),
        (CopyChoice(True, False), 0, ModelReplied(1, 1, "ok"), ""),
        (CopyChoice(True, False), 0, ToolReturned(1, 0), ""),
    ],
)
def test_a_recorded_result_is_given_to_a_copy_that_it_fits(
    choice: CopyChoice, base: int, body: ToolReturned | ModelReplied, why: str
) -> None:
    found = OriginFiles()
    found.take(FIRST)
    if body is LOST.body:
        found.take(SECOND)
    bases = found.bases(body)
    copied = CopiedFiles(found, base, choice)
    assert copied.misfit(body, bases, FileHistory()) == why
    post, request = Post(HOST, body), Event(9, 9, HOST, TOOLS, 8, Stopped())
    given = copied.fitted(request, post, bases, FileHistory())
    assert given == (None if why else copied.with_contents(post, FileHistory()))
    assert [copied.why_refused(request) for _ in range(2)] == [why, ""]


def test_a_result_comes_with_the_bytes_that_the_fork_lacks() -> None:
    copied, now = CopiedFiles(origin(), 3, CopyChoice(True, False)), FileHistory()
    assert isinstance(SECOND.body, ToolReturned)
    whole = (content("2", "1"), content("1", "0"), content("0"))
    assert copied.with_contents(POST, now) == Post(HOST, replace(SECOND.body, contents=whole))
    now.take(FIRST)
    assert copied.with_contents(POST, now) == Post(HOST, replace(SECOND.body, contents=whole[:1]))
    plain = Post(HOST, ToolReturned(1, 0))
    assert copied.with_contents(plain, now) is plain
