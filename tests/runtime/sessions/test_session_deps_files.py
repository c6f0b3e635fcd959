"""The files of a session: given by a runtime, a run or a function, named in the log, needed by a resume."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from callboard import (
    Agent,
    Call,
    Files,
    ModelRequest,
    Outcome,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.messages import AnyMessage
from callboard.errors import MissingFiles, MisuseError
from callboard.runtime.log.protocol import event_of
from callboard.runtime.sessions.session_deps import FilesChoice
from tests.waiting import until


@tool(effect="read")
def look(path: str, ctx: ToolContext) -> str:
    """Read a file."""
    return ctx.files.read_text(path)


@tool(effect="idempotent")
def note(text: str, ctx: ToolContext) -> None:
    """Write a note."""
    ctx.files.write_text("notes/today", text)


reader = Agent("reader", description="Reads.", tools=[look])
HOST = Agent("host", tools=[look, note], agents=[reader])


def last_result(request: ModelRequest) -> str:
    return str(request.conversation[-1]["content"])


def script(*calls: Call) -> ScriptedModel:
    return ScriptedModel({"host": [*calls, lambda request: say(last_result(request))]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").write_text("the text of a")
    return tmp_path / "root"


def run_with(
    files: FilesChoice, *calls: Call, own: FilesChoice = None, log: str | Path = ":memory:"
) -> Outcome:
    async def main() -> Outcome:
        async with Runtime(log, model=script(*calls), files=files) as runtime:
            return await runtime.run(HOST, "go", files=own, session_id="s", tags=["red"], metadata={"n": 1})

    return asyncio.run(main())


async def bodies(runtime: Runtime, name: str = "s") -> list[AnyMessage]:
    return [event_of(name, row).body for row in await runtime.log.read(name, 1, 10_000)]


def test_a_folder_may_be_read_by_every_agent(folder: Path) -> None:
    assert "the text of a" in run_with(folder, call("look", path="a")).text
    model = ScriptedModel(
        {
            "host": [
                call("task", agent="reader", prompt="Read a."),
                lambda request: say(last_result(request)),
            ],
            "reader": [call("look", path="a"), lambda request: say(last_result(request))],
        }
    )
    assert "the text of a" in Runtime(":memory:", model=model, files=str(folder)).run_sync(HOST, "go").text


def test_a_write_needs_its_prefix(folder: Path) -> None:
    assert "may not be written" in run_with(folder, call("note", text="x")).text
    run_with(Files(folder, write=["notes"]), call("note", text="x"))
    assert (folder / "notes" / "today").read_text() == "x"


def test_the_files_of_a_run_replace_those_of_the_runtime(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a").write_text("another text")
    assert "another text" in run_with(folder, call("look", path="a"), own=tmp_path / "other").text


def test_a_function_gives_each_session_its_files(folder: Path) -> None:
    seen: list[object] = []

    def files_for(session_id: str, tags: Sequence[str], metadata: object) -> Files:
        seen.append((session_id, tags, metadata))
        return Files(folder, name=session_id)

    assert "the text of a" in run_with(files_for, call("look", path="a")).text
    assert seen == [("s", ("red",), {"n": 1})]


def test_a_tool_of_a_session_without_files_gets_the_advice() -> None:
    assert "pass Runtime(files=...)" in run_with(None, call("look", path="a")).text


@pytest.mark.parametrize("bad", [3, ["a"], lambda *_: "a text", lambda *_: 3])
def test_another_object_is_refused(bad: FilesChoice) -> None:
    with pytest.raises(MisuseError, match="files"):
        run_with(bad, call("look", path="a"))


# --- the log, resume and fork ---------------------------------------------------------


def scene(log: Path, first: FilesChoice, then: Callable[[Path], Awaitable[None]]) -> list[AnyMessage]:
    """Open a session, leave it idle, and do something else with its log. Return the log's messages."""

    async def main() -> list[AnyMessage]:
        async with Runtime(log, model=script(), files=first) as runtime:
            session = await runtime.open(HOST, session_id="s")
            await session.ask("go")
        await then(log)
        async with Runtime(log, model=script()) as runtime:
            return await bodies(runtime)

    return asyncio.run(main())


def resumed_with(files: FilesChoice) -> Callable[[Path], Awaitable[None]]:
    async def resume(log: Path) -> None:
        async with Runtime(log, model=script(), files=files) as runtime:
            await runtime.resume("s", HOST)

    return resume


def test_the_log_has_the_name_and_the_prefixes_and_no_place(folder: Path, tmp_path: Path) -> None:
    files = Files(folder, read=["a"], write=["notes"], name="project")
    found = scene(tmp_path / "log.db", files, resumed_with(files))
    opened, resumed = found[0], found[-1]
    assert isinstance(opened, SessionOpened)
    assert opened.files == FileArea("project", ("a",), ("notes",))
    assert isinstance(resumed, Resumed)
    assert resumed.files is None, "no change"
    assert str(folder) not in repr(found)


def test_a_resume_with_other_prefixes_is_recorded(folder: Path, tmp_path: Path) -> None:
    found = scene(tmp_path / "log.db", Files(folder), resumed_with(Files(folder, read=["a"])))
    assert isinstance(found[-1], Resumed)
    assert found[-1].files == FileArea("files", ("a",), ())


@pytest.mark.parametrize("name", [None, "other"])
def test_a_resume_without_the_files_is_refused_and_changes_nothing(
    folder: Path, tmp_path: Path, name: str | None
) -> None:
    async def refused(log: Path) -> None:
        with pytest.raises(MissingFiles, match=r"files named 'files', and .*Runtime\(files="):
            await resumed_with(Files(folder, name=name) if name else None)(log)

    found = scene(tmp_path / "log.db", Files(folder), refused)
    assert not any(isinstance(body, Resumed) for body in found)


def test_a_fork_has_the_files_that_it_is_given(folder: Path, tmp_path: Path) -> None:
    async def forked(log: Path) -> None:
        model = ScriptedModel({"host": [say("again")]})
        async with Runtime(log, model=model, files=Files(folder, write=["."])) as runtime:
            fork = await runtime.fork("s", HOST, at=1, fork_id="f", files=Files(folder, read=["a"]))
            await fork.close()
            (first,) = (body for body in await bodies(runtime, "f") if isinstance(body, Forked))
            assert first.resumed.files == FileArea("files", ("a",), ())

    scene(tmp_path / "log.db", Files(folder), forked)


def test_a_session_that_was_asleep_has_its_files(folder: Path) -> None:
    async def main() -> str:
        model = script(call("look", path="a"))
        async with Runtime(":memory:", model=model, files=folder, idle_s=0.01) as runtime:
            session = await runtime.open(HOST)
            await until(lambda: session._is_asleep)
            return (await session.ask("go")).text

    assert "the text of a" in asyncio.run(main())


def test_a_session_that_is_opened_again_gets_the_files_of_that_call(folder: Path) -> None:
    async def main() -> str:
        async with Runtime(":memory:", model=script(call("look", path="a"))) as runtime:
            session = await runtime.open(HOST, session_id="s", files=Files(folder))
            await session.detach()
            again = await runtime.open(HOST, session_id="s", resume=True, files=Files(folder))
            return (await again.ask("go")).text

    assert "the text of a" in asyncio.run(asyncio.wait_for(main(), 20))
