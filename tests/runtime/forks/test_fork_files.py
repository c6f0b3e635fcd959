"""The files of a fork: a copy as of its event, or those of the origin, which it only reads."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from callboard import (
    Agent,
    Call,
    Files,
    ModelRequest,
    Reply,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.errors import MissingFiles, MissingVersions, MisuseError, SessionExists
from callboard.replay import Recording
from callboard.replay.folders import files_of
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.tools.files import FILE_TOOLS
from callboard.tools.shell import shell
from tests.runtime.files.history_kit import change, folder
from tests.runtime.forks.kit import said

_CALLS = [
    call("edit_file", path="a", old_text="one", new_text="two"),
    call("shell", command="mv old new; echo made > made"),
    call("edit_file", path="a", old_text="two", new_text="three"),
]
_START = {"a": b"one\n", "old": b"old\n", "other": b"as of today\n"}
_END = {"a": b"three\n", "new": b"old\n", "made": b"made\n", "other": b"as of today\n"}


def policy(request: ModelRequest) -> Call | Reply:
    return _CALLS[request.turn - 1] if request.turn <= len(_CALLS) else say("done")


HOST = Agent("host", tools=[*FILE_TOOLS, shell], model=ScriptedModel(policy))


class Place:
    """A session in memory that worked in a folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, MemoryLog()
        for path, data in _START.items():
            change(root / path, data)
        self.files = Files(root, write=["."], history=True)
        Runtime(self.log, files=self.files).run_sync(HOST, "go", session_id="origin")

    def seqs(self) -> list[int]:
        """Return the seqs of the answers of tools."""
        events = Recording.open(MemoryReader(self.log), "origin").events
        return [event.seq for event in events if isinstance(event.body, ToolReturned)]

    def fork(self, use: Callable[[Runtime], Awaitable[object]]) -> object:
        async def main() -> object:
            async with Runtime(self.log, files=self.files) as runtime:
                return await use(runtime)

        return asyncio.run(main())

    def answers(self, session_id: str) -> list[ToolReturned]:
        recording = Recording.open(MemoryReader(self.log), session_id)
        assert recording.verify().divergence is None
        return [event.body for event in recording.events if isinstance(event.body, ToolReturned)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "root")


def test_a_copy_begins_as_of_the_event_and_gets_the_versions_of_each_result(
    place: Place, tmp_path: Path
) -> None:
    change(place.root / "a", b"changed since\n")
    seen: list[dict[str, bytes]] = []

    async def use(runtime: Runtime) -> None:
        session = await runtime.fork(
            "origin", HOST, at=place.seqs()[0], files_to=tmp_path / "copy", fork_id="fork"
        )
        seen.append(dict(folder(tmp_path / "copy")))
        await session.outcome
        await session.close()

    place.fork(use)
    assert seen == [{**_START, "a": b"two\n"}]
    assert folder(tmp_path / "copy") == _END
    assert folder(place.root)["a"] == b"changed since\n"
    assert [bool(one.reused) for one in place.answers("fork")] == [False, True, True]
    fork = files_of(Recording.open(MemoryReader(place.log), "fork"))
    assert {path: fork.read(path) for path in fork.there} == {
        path: data for path, data in _END.items() if path != "other"
    }


def test_a_tool_that_runs_in_a_copy_writes_there_and_never_into_the_origin(
    place: Place, tmp_path: Path
) -> None:
    before = folder(place.root)

    def other(request: ModelRequest) -> Call | Reply:
        return call("shell", command="echo mine > a") if request.turn == 3 else policy(request)

    host = Agent("host", tools=[*FILE_TOOLS, shell], model=ScriptedModel(other))

    async def use(runtime: Runtime) -> None:
        at = place.seqs()[1]
        how = {"effects": "live", "files_to": tmp_path / "copy", "fork_id": "fork"}
        session = await runtime.fork("origin", host, at=at, **how, changes={("host", 3, -1): "x"})  # type: ignore[arg-type]  # by name
        await session.outcome
        await session.close()
        follow = await runtime.fork("origin", host, at=place.seqs()[0] - 4, effects="live")
        await follow.outcome
        await follow.close()

    place.fork(use)
    assert folder(place.root) == before


def test_a_result_whose_files_are_others_by_now_counts_as_none(place: Place, tmp_path: Path) -> None:
    """The second call is changed and does not run, so that the copy lacks what the third one found."""

    def other(request: ModelRequest) -> Call | Reply:
        if request.turn == 2:
            return call("write_file", path="a", content="mine\n")
        return policy(request)

    host = Agent("host", tools=[*FILE_TOOLS, shell], model=ScriptedModel(other))

    async def use(runtime: Runtime) -> None:
        how = {"at": place.seqs()[0], "effects": "live", "files_to": tmp_path / "copy", "fork_id": "fork"}
        session = await runtime.fork("origin", host, changes={("host", 2, -1): [_MINE]}, **how)  # type: ignore[arg-type]  # by name
        await session.outcome
        await session.close()

    place.fork(use)
    answers = place.answers("fork")
    assert [bool(one.reused) for one in answers] == [False, False, False]
    assert answers[2].status == "error"  # the text to replace is not there: the tool has run
    assert folder(tmp_path / "copy")["a"] == b"mine\n"


_MINE = {"type": "tool_use", "id": "t", "name": "write_file", "input": {"path": "a", "content": "mine\n"}}


def test_without_a_copy_no_tool_writes_and_no_program_starts(place: Place) -> None:
    before = folder(place.root)
    refused: list[str] = []

    def other(request: ModelRequest) -> Call | Reply:
        if request.turn == 4:
            return calls(call("write_file", path="a", content="x"), call("shell", command="echo x > a"))
        if request.turn == 5:
            refused.append(str(request.conversation[-1]["content"]))
        return policy(request)

    host = Agent("host", tools=[*FILE_TOOLS, shell], model=ScriptedModel(other))

    async def use(runtime: Runtime) -> None:
        how = {"at": place.seqs()[2], "effects": "live"}
        session = await runtime.fork("origin", host, changes={("host", 4, -1): [_MINE, _RUN]}, **how)  # type: ignore[arg-type]  # by name
        await session.outcome
        await session.close()

    place.fork(use)
    assert folder(place.root) == before
    assert refused[0].count("a fork never writes into the folder of the session that was forked") == 2


_RUN = {"type": "tool_use", "id": "u", "name": "shell", "input": {"command": "echo x > a"}}


def test_the_copy_of_a_fork_that_does_not_begin_is_removed(place: Place, tmp_path: Path) -> None:
    async def use(runtime: Runtime) -> None:
        with pytest.raises(SessionExists):
            await runtime.fork("origin", HOST, files_to=tmp_path / "copy", fork_id="origin")
        with pytest.raises(MisuseError, match="lies in the folder"):
            await runtime.fork("origin", HOST, files_to=place.root / "copy")

    place.fork(use)
    assert not (tmp_path / "copy").exists()
    assert folder(place.root) == _END


def test_a_secret_stops_a_fork_that_needs_the_file_unless_told(tmp_path: Path) -> None:
    @tool(effect="write")
    def leak(ctx: ToolContext) -> str:
        """Write a secret."""
        ctx.files.write_text("a", "open-sesame")
        return "done"

    script: list[Call | Reply] = [call("leak"), say("done")]
    host = Agent("host", tools=[leak], model=ScriptedModel(lambda request: script[request.turn - 1]))
    (tmp_path / "root").mkdir()
    log, files = MemoryLog(), Files(tmp_path / "root", write=["."], history=True)
    secrets = {"KEY": "open-sesame"}
    Runtime(log, files=files, secrets=secrets).run_sync(host, "go", session_id="origin")
    events = Recording.open(MemoryReader(log), "origin").events
    asked = next(event.seq for event in events if event.kind == "ToolReturned")

    async def main() -> list[str]:
        kinds: list[str] = []
        async with Runtime(log, files=files, secrets=secrets) as runtime:
            with pytest.raises(MissingVersions, match=r"a \(secret\)"):
                await runtime.fork("origin", host, at=asked, files_to=tmp_path / "one")
            for name, skips in (("two", False), ("three", True)):
                session = await runtime.fork(
                    "origin", host, at=asked - 2, files_to=tmp_path / name, skip_lost=skips
                )
                found = await session.outcome
                kinds.append(found.kind)
                await session.close()
        return kinds

    assert asyncio.run(main()) == ["needs_effect", "answered"]
    assert folder(tmp_path / "three") == {}


def test_a_fork_goes_on_in_its_copy_after_a_resume_and_without_one_it_never_writes(
    place: Place, tmp_path: Path
) -> None:
    async def use(runtime: Runtime) -> None:
        at = place.seqs()[0] - 2
        session = await runtime.fork("origin", HOST, at=at, files_to=tmp_path / "copy", fork_id="f")
        await session.detach()
        bare = await runtime.fork("origin", HOST, at=at, fork_id="bare")
        await bare.detach()

    place.fork(use)
    change(tmp_path / "copy/a", b"one\n")

    async def again(runtime: Runtime) -> None:
        with pytest.raises(MissingFiles, match="works in a copy of the files, and another folder is given"):
            await runtime.resume("f", HOST)
        assert MemoryReader(place.log).session("f").epoch == 1  # no owner was fenced
        session = await runtime.resume("f", HOST, files=Files(tmp_path / "copy", write=["."], history=True))
        await session.outcome
        await session.close()
        bare = await runtime.resume("bare", HOST)
        await bare.outcome
        await bare.close()

    before = folder(place.root)
    place.fork(again)
    assert folder(tmp_path / "copy") == _END
    assert folder(place.root) == before
    events = Recording.open(MemoryReader(place.log), "bare").events
    forked = next(event.body for event in events if isinstance(event.body, Forked))
    assert forked.resumed.files is not None
    assert (forked.has_copy, forked.resumed.files.write) == (False, ())


def later(request: ModelRequest) -> Call | Reply:
    """Edit in the second turn as recorded; after a change only in the third."""
    if "other" not in said(request):
        return (call("read_file", path="a"), _CALLS[0], say("done"))[request.turn - 1]
    return (say("never"), call("read_file", path="b"), _CALLS[0], say("done"))[request.turn - 1]


def test_a_recorded_result_whose_files_cannot_be_put_may_be_chosen_again(tmp_path: Path) -> None:
    change(tmp_path / "root/a", b"one\n")
    log, files = MemoryLog(), Files(tmp_path / "root", write=["."], history=True)
    host = Agent("host", tools=FILE_TOOLS, model=ScriptedModel(later))
    Runtime(log, files=files).run_sync(host, "go", session_id="origin")
    path = tmp_path / "copy/a"

    async def main() -> str:
        how = {"effects": "ask", "files_to": tmp_path / "copy", "changes": {("host", 1, 0): "other"}}
        async with Runtime(log, files=files) as runtime, asyncio.timeout(20):
            session = await runtime.fork("origin", host, **how)  # type: ignore[arg-type]  # by name
            question = await anext(session.approvals())
            path.unlink()
            path.mkdir()
            with pytest.raises(MisuseError, match="cannot be reused for this call"):
                question.reuse()
            path.rmdir()
            assert question.reuse()
            return (await session.outcome).kind

    assert asyncio.run(main()) == "answered"
    assert path.read_bytes() == b"two\n"
