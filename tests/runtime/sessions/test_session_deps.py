"""The object that a program hands to its tools, approvers and policies: where it comes from, and that the
log never holds it."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from callboard import (
    Agent,
    Approval,
    Call,
    ModelRequest,
    Outcome,
    Reply,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from callboard.actors.protocol.client_messages import Ask, SessionOpened
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.errors import MissingDeps, MissingFiles, MisuseError
from callboard.replay import Recording
from callboard.runtime.files.copying import mark_of
from callboard.runtime.files.files import Files
from callboard.runtime.sessions.session_deps import (
    SessionDeps,
    files_of,
    labels_of,
    refuse_other_files,
)

USER: contextvars.ContextVar[str] = contextvars.ContextVar("USER", default="nobody")


@dataclass
class Shop:
    name: str


@tool(effect="read")
async def whose(ctx: ToolContext[Shop | None]) -> str:
    """Tell whose shop it is."""
    return ctx.deps.name if ctx.deps else "nobody's"


@tool(effect="read")
def user() -> str:
    """Tell the user of the context variable."""
    return USER.get()


HOST = Agent("host", tools=[whose, user])


def answers(request: ModelRequest) -> Reply | Call:
    """Call a tool, then repeat its result."""
    last = request.conversation[-1]["content"]
    if isinstance(last, list) and last[0].get("type") == "tool_result":
        return say(str(last[0]["content"]))
    return call("whose")


def played(
    scene: Callable[[Runtime], Awaitable[object]], log: str | Path = ":memory:", deps: object = None
) -> None:
    """Play a scene with a runtime."""

    async def main() -> None:
        async with asyncio.timeout(20), Runtime(log, model=ScriptedModel(answers), deps=deps) as runtime:
            await scene(runtime)

    asyncio.run(main())


def test_a_tool_gets_the_object_of_the_runtime() -> None:
    async def scene(runtime: Runtime) -> None:
        assert (await runtime.run(HOST, "go")).text == "Ada"

    played(scene, deps=Shop("Ada"))


def test_a_function_makes_the_object_of_each_session_from_its_id_tags_and_metadata() -> None:
    seen: list[object] = []

    def make(session_id: str, tags: Sequence[str], metadata: object) -> Shop:
        seen.append((session_id, tags, metadata))
        return Shop(session_id)

    async def scene(runtime: Runtime) -> None:
        session = await runtime.open(HOST, session_id="one", tags=["vip"], metadata={"desk": 4})
        assert (await session.ask("go")).text == "one"
        await session.detach()
        session = await runtime.resume("one", HOST)
        assert (await session.ask("go")).text == "one"

    played(scene, deps=make)
    assert seen == [("one", ("vip",), {"desk": 4})] * 2


def test_a_session_that_was_never_opened_has_no_tags_and_no_metadata() -> None:
    assert labels_of(None) == ((), None)


def test_the_object_of_an_ask_replaces_it_for_that_ask_alone() -> None:
    async def scene(runtime: Runtime) -> None:
        async with runtime.open(HOST) as session:
            told = [
                (await session.ask("go", deps=Shop("Bob"))).text,
                (await session.ask("go")).text,
            ]
        assert told == ["Bob", "Ada"]

    played(scene, deps=Shop("Ada"))


def test_without_one_a_tool_gets_none() -> None:
    async def scene(runtime: Runtime) -> None:
        assert (await runtime.run(HOST, "go")).text == "nobody's"

    played(scene)


def test_the_log_names_its_type_and_holds_nothing_of_it(tmp_path: Path) -> None:
    async def scene(runtime: Runtime) -> None:
        await runtime.run(HOST, "go", session_id="one", deps=Shop("swordfish"))

    log = tmp_path / "log.db"
    played(scene, log)
    asks = [event.body for event in Recording.open(log, "one").events if isinstance(event.body, Ask)]
    assert [ask.deps for ask in asks] == [f"{__name__}.Shop"]
    # The tool's own result repeats the name; apart from that it is nowhere.
    assert b"swordfish" not in b"".join(bytes(ask.prompt) for ask in asks)


def test_an_approver_and_a_policy_get_it_too() -> None:
    @tool(approval="before")
    async def pay(ctx: ToolContext[Shop]) -> str:
        """Pay the bill."""
        return f"paid by {ctx.deps.name}"

    asked: list[object] = []

    def approve(question: Approval) -> bool:
        asked.append(question.deps)
        return True

    def policy(request: ModelRequest) -> Reply | Call:
        asked.append(request.deps)
        return call("pay") if request.turn == 1 else say("done")

    async def main() -> Outcome:
        model = ScriptedModel(policy)
        async with Runtime(":memory:", model=model, approve=approve, deps=Shop("Ada")) as runtime:
            return await runtime.run(Agent("host", tools=[pay]), "go")

    assert asyncio.run(main()).is_ok
    assert asked == [Shop("Ada")] * 3


async def _left_in_the_middle(runtime: Runtime) -> None:
    """Leave a session whose ask waits for its model."""
    session = await runtime.open(HOST, session_id="one")
    asking = asyncio.ensure_future(session.ask("go", deps=Shop("Bob")))
    await asyncio.sleep(0.05)
    await session.detach(0)
    with pytest.raises(Exception, match="resume"):
        await asking


def unfinished(log: Path) -> None:
    async def slow(request: ModelRequest) -> Reply:
        await asyncio.sleep(60)
        return say("never")

    async def main() -> None:
        model = ScriptedModel(slow)
        async with Runtime(log, model=model) as runtime:
            await _left_in_the_middle(runtime)

    asyncio.run(main())


def test_an_unfinished_ask_is_not_resumed_without_its_object(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    unfinished(log)

    async def scene(runtime: Runtime) -> None:
        with pytest.raises(MissingDeps, match=r"type .*Shop.*Runtime\(deps="):
            await runtime.resume("one", HOST)
        session = await runtime.resume("one", HOST, deps=Shop("Bob again"))
        assert (await session.outcome).text == "Bob again"

    played(scene, log)


def test_the_object_of_the_runtime_serves_a_resumed_ask_as_well(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    unfinished(log)

    async def scene(runtime: Runtime) -> None:
        session = await runtime.resume("one", HOST)
        assert (await session.outcome).text == "Ada"

    played(scene, log, deps=Shop("Ada"))


def test_a_tool_sees_the_context_variables_of_the_place_that_opened_its_session() -> None:
    async def scene(runtime: Runtime) -> None:
        USER.set("Ada")
        told: list[bytes] = []
        host = Agent("host", tools=[user], model=ScriptedModel([call("user"), say("x")]))
        async with runtime.open(host) as session:
            USER.set("Bob")
            await session.ask("go")
        async for event in session.events():
            if isinstance(event.body, ToolReturned):
                told.append(bytes(event.body.output))
        assert told == [b'"Ada"']

    played(scene)


def test_the_files_of_a_session_are_named_in_its_first_event(tmp_path: Path) -> None:
    opened = SessionOpened(1, "host", (), ModelSpec("m"))
    assert SessionDeps("own").added_to(opened) is opened
    files = Files(tmp_path, files_label="files")
    assert SessionDeps("own", files).added_to(opened).files == files.area
    deps = SessionDeps("own")
    assert (deps.now(), deps.current) == ("own", "own")
    assert deps.take("mine") == "builtins.str"
    assert deps.now() == "mine"
    assert deps.take(None) == "builtins.str"
    assert deps.now() == "own"
    assert SessionDeps(None).take(None) == ""


def test_a_function_is_asked_for_the_files_of_each_session(tmp_path: Path) -> None:
    files = Files(tmp_path)
    asked: list[object] = []

    def files_for(*about: object) -> Files:
        asked.append(about)
        return files

    assert files_of(files_for, "s", ["tag"], {"a": 1}) is files
    assert asked == [("s", ("tag",), {"a": 1})]
    assert files_of(lambda *_: None, "s", [], None) is None
    with pytest.raises(MisuseError, match="the function files= returned 3 for session s"):
        files_of(lambda *_: 3, "s", [], None)  # type: ignore[arg-type]  # what it refuses


def test_files_are_given_as_they_are_or_as_a_folder(tmp_path: Path) -> None:
    files = Files(tmp_path)
    assert files_of(files, "s", [], None) is files
    assert files_of(None, "s", [], None) is None
    for folder in (tmp_path, str(tmp_path)):
        made = files_of(folder, "s", [], None)
        assert made is not None
        assert made.area.name == files.area.name
    with pytest.raises(MisuseError, match="files=3: use Files"):
        files_of(3, "s", [], None)  # type: ignore[arg-type]  # what it refuses


def test_a_session_goes_on_only_with_files_of_its_name_and_a_fork_only_in_its_copy(tmp_path: Path) -> None:
    files, named = Files(tmp_path, name="one"), Files(tmp_path, name="two")
    recorded, mark = files.area, mark_of("s", files)
    for now, copy in ((files, None), (files, ""), (files, mark)):
        refuse_other_files("s", recorded, now, copy)
    refuse_other_files("s", None, None, None)
    refuse_other_files("s", None, named, None)
    for had, given, mark_now, said in (
        (recorded, None, None, "files named 'one', and no files are given"),
        (recorded, named, None, "files named 'one', and the files given are named 'two'"),
        (recorded, files, "of another folder", "works in a copy of the files, and another folder"),
        (None, None, mark, "works in a copy"),
        (None, None, "", "works in a copy"),
    ):
        with pytest.raises(MissingFiles, match=said):
            refuse_other_files("s", had, given, mark_now)
