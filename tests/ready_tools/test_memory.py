"""The ready memory tools, as models call them, live and from the log."""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard import (
    Agent,
    Call,
    ModelRequest,
    Outcome,
    Reply,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.errors import SessionDetached
from callboard.memory import MemoryEntry, SQLiteMemory
from callboard.permissions import Allowed, Bundle, LabelRule
from callboard.replay import Recording
from callboard.runtime.sessions.session_deps import MemoryChoice
from callboard.tools.memory import MEMORY_TOOLS, RECALL_ONLY, forget, recall, remember
from tests.runtime.memory.plain import PlainMemory


def test_each_tool_says_what_it_does_and_needs_the_capability_of_memory() -> None:
    assert {one.name: one.effect for one in MEMORY_TOOLS} == {
        "remember": "idempotent", "recall": "read", "forget": "idempotent",
    }  # fmt: skip
    assert [one.name for one in RECALL_ONLY] == ["recall"]
    for one in MEMORY_TOOLS:
        schema = msgspec.json.decode(one.input_schema)
        assert "ctx" not in schema["properties"]
        assert all("description" in each for each in schema["properties"].values()), one.name
        assert one.spec().capabilities == ("memory",)


def test_texts_are_listed_behind_their_ids(tmp_path: Path) -> None:
    ctx = ToolContext(memories=SQLiteMemory(tmp_path / "m.db"), idempotency_key="k")
    said = remember(ctx, "The tea is hot.")
    entry_id = said.removeprefix("remembered as ")
    assert recall(ctx, "tea") == f"[{entry_id}] The tea is hot."
    assert recall(ctx, "coffee") == "(nothing found)"
    assert forget(ctx, entry_id) == f"forgot {entry_id}"
    assert forget(ctx, entry_id) == f"there is no text '{entry_id}'"


def test_many_long_texts_are_cut_and_the_last_line_says_so(tmp_path: Path) -> None:
    ctx = ToolContext(memories=SQLiteMemory(tmp_path / "m.db"), idempotency_key="k")
    for number in range(14):
        remember(ctx, f"{number} {'tea ' * 980}")
    lines = recall(ctx, "tea", limit=50).splitlines()
    assert lines[-1] == f"[these are the first {len(lines) - 1}, ask for fewer with limit]"
    assert len(lines) == 12


def ran(
    memory: MemoryChoice, play: list[Reply | Call], log: str | Path = ":memory:", **agent: Any
) -> Outcome:
    """Let a host play these replies, then say its last tool results."""

    def policy(request: ModelRequest) -> Reply | Call:
        if request.turn <= len(play):
            return play[request.turn - 1]
        return say(str(request.conversation[-1]["content"]))

    host = Agent("host", **{"tools": MEMORY_TOOLS, **agent})
    return Runtime(log, model=ScriptedModel(policy), memory=memory).run_sync(host, "go")


def test_a_later_session_finds_what_an_earlier_one_remembered(tmp_path: Path) -> None:
    memory = tmp_path / "memory.db"
    ran(memory, [call("remember", text="我们去了北京大学")], tmp_path / "log.db")
    assert "我们去了北京大学" in ran(str(memory), [call("recall", query="北京")], tmp_path / "log.db").text
    assert not (tmp_path / "callboard.db").exists()


def test_a_replay_does_not_read_the_file(tmp_path: Path) -> None:
    memory, log = tmp_path / "memory.db", tmp_path / "log.db"
    ran(memory, [call("remember", text="The tea is hot."), call("recall", query="tea")], log)
    memory.unlink()
    Recording.open(log).verify().check()
    assert not memory.exists()


@pytest.mark.parametrize("contents", [b"no database" * 500, b"\0" * 5_000])
def test_a_damaged_file_is_an_error_for_the_model_and_the_session_goes_on(
    tmp_path: Path, contents: bytes
) -> None:
    memory = tmp_path / "memory.db"
    memory.write_bytes(contents)
    text = ran(memory, [calls(call("remember", text="x"), call("recall"), call("forget", id="x"))]).text
    assert text.count("is damaged") == 3
    assert str(tmp_path) not in text


def test_a_session_without_a_memory_is_told_so() -> None:
    assert "this session has no memory" in ran(None, [call("recall", query="tea")]).text


def test_a_store_of_the_user_that_fails_is_an_error_for_the_model() -> None:
    class Broken:
        def remember(self, memory: str, entry: object) -> None:
            raise TimeoutError("the service is away")

        recall = forget = remember

    assert "the service is away" in ran(Broken(), [call("remember", text="x")]).text  # type: ignore[arg-type]  # broken


@tool(effect="read", untrusted=True)
def read_mail() -> str:
    """Read the newest mail."""
    return "The code is 7."


@tool(capabilities=("network",))
def send(text: str) -> str:
    """Send a text."""
    return "sent"


def test_a_rule_for_labels_holds_over_sessions(tmp_path: Path) -> None:
    bundle = Bundle(when=(LabelRule("untrusted", "network"),))
    has: dict[str, Any] = {"tools": [*MEMORY_TOOLS, read_mail, send], "permissions": bundle}
    ran(tmp_path / "m.db", [call("read_mail"), call("remember", text="The code is 7.")], **has)
    free = ran(tmp_path / "m.db", [call("recall", query="tea"), call("send", text="x")], **has)
    assert "sent" in free.text
    bound = ran(tmp_path / "m.db", [call("recall", query="code"), call("send", text="x")], **has)
    assert "denied" in bound.text
    assert "untrusted" in bound.text


def test_the_memories_of_an_agent_narrow_on_the_way_down(tmp_path: Path) -> None:
    seen: list[str] = []

    def policy(request: ModelRequest) -> Reply | Call:
        if request.profile == "host":
            return call("task", prompt="Look.") if request.turn == 1 else say("Done.")
        if request.turn == 1:
            return calls(*(call("recall", memory=name) for name in ("shared", "own", "team")))
        seen.append(str(request.conversation[-1]["content"]))
        return say("Looked.")

    child = Agent(
        "child", tools=RECALL_ONLY, permissions=Bundle(do=Allowed(memory=("shared", "agent:child")))
    )
    host = Agent("host", agents=[child], permissions=Bundle(do=Allowed(memory=("shared", "team"))))
    Runtime(":memory:", model=ScriptedModel(policy), memory=tmp_path / "m.db").run_sync(host, "go")
    assert seen[0].count("nothing found") == 1
    assert "memory 'agent:child' is denied by agent host" in seen[0]
    assert "memory 'team' is denied by agent child" in seen[0]


def test_a_read_states_the_labels_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    ran(tmp_path / "m.db", [call("read_mail"), call("remember", text="code 7")], tools=[read_mail, remember])
    ran(tmp_path / "m.db", [call("recall", query="code")], log)
    returned = [event.body for event in Recording.open(log).events if isinstance(event.body, ToolReturned)]
    assert [one.labels for one in returned] == [("untrusted",)]


def test_a_call_that_runs_again_after_its_process_left_remembers_once(tmp_path: Path) -> None:
    embedded, log = SQLiteMemory(tmp_path / "m.db"), str(tmp_path / "log.db")
    stored, released = threading.Event(), threading.Event()

    class Slow(PlainMemory):
        """A memory that has stored a text, and then does not return."""

        def remember(self, memory: str, entry: MemoryEntry) -> None:
            embedded.remember(memory, entry)
            stored.set()
            released.wait(30)

    host = Agent("host", tools=MEMORY_TOOLS)
    model = ScriptedModel(
        lambda request: call("remember", text="once") if request.turn == 1 else say("Done.")
    )

    async def leave() -> None:
        async with Runtime(log, model=model, memory=Slow()) as runtime:
            session = await runtime.open(host, session_id="s")
            asking = asyncio.ensure_future(session.ask("go"))
            await asyncio.to_thread(stored.wait, 30)
            await session.detach(grace_s=0)
            with contextlib.suppress(SessionDetached):
                await asking
            released.set()

    async def go_on() -> Outcome:
        async with Runtime(log, model=model, memory=embedded) as runtime:
            session = await runtime.resume("s", host)
            return await session.outcome

    asyncio.run(leave())
    assert asyncio.run(go_on()).text == "Done."
    assert embedded.sizes() == {"shared": 1}
    returned = [one.body for one in Recording.open(log).events if isinstance(one.body, ToolReturned)]
    assert [one.status for one in returned] == ["ok"]
