"""The choice of a session's memory."""

import asyncio
from pathlib import Path

import pytest

from callboard import Agent, ModelRequest, Runtime, ScriptedModel, call, say
from callboard.errors import MisuseError
from callboard.log import MemoryLog
from callboard.memory import SQLiteMemory
from callboard.runtime.models.scripted import Call, Reply
from callboard.runtime.sessions.session_deps import checked_memory, memory_of
from callboard.tools.memory import MEMORY_TOOLS
from tests.runtime.memory.plain import PlainMemory


def test_a_path_is_an_embedded_memory_and_a_memory_stays_itself(tmp_path: Path) -> None:
    made = checked_memory(tmp_path / "m.db")
    assert isinstance(made, SQLiteMemory)
    assert made.path == tmp_path / "m.db"
    own = PlainMemory()
    assert checked_memory(own) is own
    assert checked_memory(None) is None
    assert memory_of(own, "s1", (), None) is own
    assert isinstance(memory_of(tmp_path / "memory.db", "s1", (), None), SQLiteMemory)


@pytest.mark.parametrize("given", [7, ["memory.db"], object()])
def test_anything_else_is_refused_when_the_runtime_is_made(given: object) -> None:
    with pytest.raises(MisuseError, match="use a path, an object with remember, recall and forget"):
        Runtime(":memory:", memory=given)  # type: ignore[arg-type]  # what it refuses


def test_a_function_chooses_by_the_tags_of_a_session() -> None:
    stores: dict[str, PlainMemory] = {}

    def of_user(session_id: str, tags: tuple[str, ...], metadata: object) -> PlainMemory:
        return stores.setdefault(tags[0], PlainMemory())

    host = Agent("host", tools=MEMORY_TOOLS)
    for user in ("ann", "bob"):
        model = ScriptedModel([call("remember", text=f"for {user}"), say("Done.")])
        Runtime(":memory:", model=model, memory=of_user).run_sync(host, "go", tags=[user])
    kept = {user: [one.text for one in store.entries["shared"]] for user, store in stores.items()}
    assert kept == {"ann": ["for ann"], "bob": ["for bob"]}


def test_a_function_that_returns_no_memory_is_refused() -> None:
    with pytest.raises(MisuseError, match="for session s1, which is not a memory"):
        memory_of(lambda *_: "memory.db", "s1", (), None)  # type: ignore[arg-type]  # what it refuses
    assert memory_of(lambda *_: None, "s1", (), None) is None


def recalls(text: str) -> ScriptedModel:
    """Return a model that recalls the memory, keeps a text, and repeats the recalled one."""

    def policy(request: ModelRequest) -> Reply | Call:
        said = request.conversation[-1]["content"]
        if isinstance(said, str) or said[0]["type"] == "text":
            return call("recall")
        if "Remembered" in str(said) or "remembered as" in str(said):
            return say("Done.")
        return call("remember", text=text)

    return ScriptedModel(policy)


def texts(store: PlainMemory) -> list[str]:
    return [one.text for one in store.entries.get("shared", [])]


def test_each_way_to_a_session_takes_a_memory_of_its_own() -> None:
    shared, own = PlainMemory(), [PlainMemory() for _ in range(5)]
    host = Agent("host", tools=MEMORY_TOOLS)

    async def inside() -> None:
        async with Runtime(MemoryLog(), model=recalls("noted"), memory=shared) as runtime:
            await runtime.run(host, "go", memory=own[0])
            async with runtime.open(host, session_id="one", memory=own[1]) as session:
                await session.ask("go")
                await session.detach()
            async with await runtime.resume("one", host, memory=own[2]) as session:
                await session.ask("go on")
            async with await runtime.reopen("one", host, memory=own[3]) as session:
                await session.ask("again")
            async with await runtime.fork("one", host, effects="live", memory=own[4]) as session:
                await session.ask("and again")
            assert [texts(store) for store in (shared, *own)] == [[], *[["noted"]] * 5]
            async with await runtime.reopen("one", host) as session:
                await session.ask("last")
            assert texts(shared) == ["noted"]  # without it, that of the runtime
            async with runtime.open(host, session_id="two", memory=own[0]) as session:
                await session.detach()
            async with runtime.open(host, session_id="two", resume=True, memory=own[1]) as session:
                await session.ask("go")
            assert [len(texts(store)) for store in own] == [1, 2, 1, 1, 1]  # not that of `own[0]`

    asyncio.run(asyncio.wait_for(inside(), 20))


@pytest.mark.parametrize("way", ["open", "resume"])
def test_a_wrong_memory_is_refused_and_leaves_no_session(way: str) -> None:
    host = Agent("host", tools=MEMORY_TOOLS)

    async def inside() -> None:
        async with Runtime(MemoryLog(), model=recalls("noted")) as runtime:
            if way == "resume":
                async with runtime.open(host, session_id="one") as session:
                    await session.detach()
            with pytest.raises(MisuseError, match="use a path, an object with remember"):
                await getattr(runtime, way)(*["one"][: way == "resume"], host, memory=7)
            assert len([one async for one in runtime.sessions()]) == (way == "resume")
            if way == "resume":
                await (await runtime.resume("one", host)).close()

    asyncio.run(asyncio.wait_for(inside(), 20))
