import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import InvalidState, MisuseError, ToolError, UnknownName
from callboard.actors.protocol.profiles import ToolsChange
from callboard.actors.protocol.uses import Use
from callboard.runtime.files.files import Files
from callboard.runtime.secrets.refs import SecretRef
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.tools.context import (
    MAX_PROGRESS_CHARS,
    ToolContext,
)
from tests.tables import table


def test_a_test_may_give_a_context_what_a_call_has_and_not_what_it_leaves() -> None:
    assert [*inspect.signature(ToolContext).parameters] == [
        *("address", "session_id", "tool", "call_id", "idempotency_key", "deps", "files", "http_settings"),
        *("on_progress", "secrets", "shared", "memories", "profile", "toolbox", "given", "rights"),
        *("labels", "tool_labels", "file_labels", "versions"),
    ]


def test_a_cancelled_context_says_so_and_raises() -> None:
    ctx = ToolContext()
    ctx.raise_if_cancelled()
    ctx.cancel()
    assert ctx.is_cancelled
    with pytest.raises(asyncio.CancelledError):
        ctx.raise_if_cancelled()


def test_the_deadline_is_set_when_the_call_begins() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ctx = ToolContext()
        assert (ctx.timeout_s, ctx.deadline) == (None, None)
        before = loop.time()
        ctx.begin(loop, 3.0)
        assert ctx.timeout_s == 3.0
        assert ctx.deadline is not None
        assert before + 3.0 <= ctx.deadline <= loop.time() + 3.0

    asyncio.run(main())


def test_progress_is_cleaned_cut_and_told_at_once_on_the_loop() -> None:
    told: list[str] = []
    ctx = ToolContext(on_progress=told.append)
    ctx.progress("a\0\ud800")
    ctx.progress("x" * (MAX_PROGRESS_CHARS + 1))
    assert told == ["a␀\ufffd", "x" * MAX_PROGRESS_CHARS]


def test_progress_from_a_thread_is_told_on_the_loop() -> None:
    async def main() -> None:
        told: list[tuple[str, int]] = []
        ctx = ToolContext(on_progress=lambda text: told.append((text, threading.get_ident())))
        ctx.begin(asyncio.get_running_loop(), 1.0)
        await asyncio.to_thread(ctx.progress, "half")
        await asyncio.sleep(0)
        assert told == [("half", threading.get_ident())]

    asyncio.run(main())


def test_progress_after_the_end_or_a_cancel_is_dropped() -> None:
    told: list[str] = []
    ended, cancelled = ToolContext(on_progress=told.append), ToolContext(on_progress=told.append)
    ended.end()
    cancelled.cancel()
    ended.progress("late")
    cancelled.progress("late")
    ToolContext().progress("nobody watches")
    ended._tell("was on its way when the call ended")
    assert told == []


def test_progress_after_the_loop_was_closed_is_dropped() -> None:
    told: list[str] = []
    ctx = ToolContext(on_progress=told.append)

    async def main() -> None:
        ctx.begin(asyncio.get_running_loop(), 1.0)

    asyncio.run(main())
    thread = threading.Thread(target=ctx.progress, args=("late",))
    thread.start()
    thread.join()
    assert told == []


def test_a_watcher_that_fails_does_not_hurt_the_tool() -> None:
    told: list[str] = []

    def watcher(text: str) -> None:
        told.append(text)
        raise ValueError(text)

    ToolContext(on_progress=watcher).progress("x")
    assert told == ["x"]


def test_a_secret_is_got_by_its_name_from_the_runtime_or_from_a_test() -> None:
    secrets = Secrets([SecretRef("DOOR", get=lambda: "open-sesame")])
    assert ToolContext(secrets=secrets).secret("DOOR") == "open-sesame"
    assert ToolContext(secrets={"DOOR": "open-sesame"}).secret("DOOR") == "open-sesame"
    with pytest.raises(UnknownName, match="no secret 'GATE'"):
        ToolContext(secrets=secrets).secret("GATE")
    with pytest.raises(UnknownName, match="there is: none"):
        ToolContext().secret("DOOR")


def test_a_context_shows_no_secret() -> None:
    ctx = ToolContext(secrets={"DOOR": "open-sesame"})
    ctx.secret("DOOR")
    assert "open-sesame" not in repr(ctx) + str(ctx._secrets) + repr(ctx._secrets.redactor)


def test_progress_is_searched_before_it_is_cut() -> None:
    told: list[str] = []
    ctx = ToolContext(on_progress=told.append, secrets={"DOOR": "open-sesame"})
    ctx.secret("DOOR")
    for inside in range(1, 11):
        ctx.progress("." * (MAX_PROGRESS_CHARS - inside) + "open-sesame")
    assert not any("o" in text.partition("[")[0] for text in told)
    assert all(len(text) <= MAX_PROGRESS_CHARS for text in told)


def test_the_network_of_a_call_has_the_time_that_the_call_has_left() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ctx = ToolContext()
        assert ctx.http._deadline_s is None
        for limit_s, most in ((30.0, 30.0), (-5.0, 0.01)):
            ctx = ToolContext()
            ctx.begin(loop, limit_s)
            left = ctx.http._deadline_s
            assert left is not None
            assert 0.01 <= left <= most

    asyncio.run(main())


# --- the uses of a call -----------------------------------------------------------


def in_a_session() -> ToolContext:
    """Make the context of an agent and a tool with labels, in a session with a state and tools."""
    return ToolContext(
        secrets={"KEY": "a-secret-value"},
        shared={"stage": "start", "count": 1},
        toolbox=lambda tools, agent: ToolsChange((), f"for {agent or 'me'}", ",".join(map(str, tools))),
        labels=("agent",),
        tool_labels=("tool",),
    )


@table(
    ("act", "is_used"),
    [
        (lambda ctx: None, False),
        (lambda ctx: len(ctx.state), False),
        (lambda ctx: ctx.progress("half"), False),
        (lambda ctx: ctx.label(), False),
        (lambda ctx: ctx.state["stage"], True),
        (lambda ctx: ctx.update_state("stage", "end"), True),
        (lambda ctx: ctx.secret("KEY"), True),
        (lambda ctx: ctx.label("mail"), True),
        (lambda ctx: ctx.checkpoint("here"), True),
        (lambda ctx: ctx.set_tools([]), True),
    ],
)
def test_a_context_is_used_once_anything_was_read_changed_or_stated(
    act: Callable[[ToolContext], object], is_used: bool
) -> None:
    ctx = in_a_session()
    act(ctx)
    assert ctx.is_used is is_used


def test_a_call_states_its_updates_with_the_labels_of_its_agent_its_tool_and_its_reads() -> None:
    ctx, plain = in_a_session(), ToolContext(shared={"stage": "start", "count": 1})
    for one in (ctx, plain):
        assert one.state["stage"] == "start"
        one.update_state("count", 2)
        one.update_state("stage", "end")
        assert one.state["count"] == 1, "an update is for later calls"
    ctx.label("mail", "web")
    updates, read = ctx.state_used
    assert [(one.key, bytes(one.value)) for one in updates] == [("count", b"2"), ("stage", b'"end"')]
    assert {one.labels for one in updates} == {("agent", "mail", "tool", "web")} == {ctx.labels_written}
    assert read == ("count", "stage")
    assert ctx.labels_stated == ("mail", "web")
    assert [one.labels for one in plain.state_used[0]] == [(), ()]
    assert (plain.labels_written, plain.labels_stated) == ((), ())


def test_the_last_change_of_tools_counts_and_each_checkpoint_once() -> None:
    ctx = in_a_session()
    ctx.set_tools(["a"])
    ctx.set_tools(["b", "c"], agent="kid")
    assert ctx.tools_change == ToolsChange((), "for kid", "b,c")
    for name in ("one", "x" * 80, "one"):
        ctx.checkpoint(name)
    assert ctx.checkpoints == ("one", "x" * 80)


@table(
    ("act", "words"),
    [
        (
            lambda ctx: ctx.checkpoint("a b"),
            "'a b': a checkpoint has 1 to 80 characters without spaces, # and @",
        ),
        (lambda ctx: ctx.checkpoint("x" * 81), "a checkpoint has 1 to 80"),
        (lambda ctx: ctx.set_tools([]), "this context belongs to no session"),
        (lambda ctx: ctx.label("good", "a\nb"), r"label='a\\nb': "),
        (lambda ctx: ctx.label(7), "label=7: "),
        (lambda ctx: ctx.memory.remember("a"), "memory"),
    ],
)
def test_a_use_that_cannot_work_is_refused_in_words(act: Callable[[ToolContext], object], words: str) -> None:
    ctx = ToolContext()
    with pytest.raises(MisuseError, match=words):
        act(ctx)
    assert (ctx.checkpoints, ctx.tools_change) == ((), None)


def test_an_unknown_key_of_the_state_is_refused_and_not_updated() -> None:
    ctx = in_a_session()
    with pytest.raises(InvalidState):
        ctx.update_state("gone", 1)
    assert not ctx.is_used


def test_after_its_end_a_call_uses_nothing_and_keeps_its_uses(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("words")
    ctx = ToolContext(secrets={"KEY": "a-secret-value"}, files=Files(tmp_path))
    assert ctx.files.read_text("note") == "words"
    ctx.secret("KEY")
    assert ctx.access.uses == (Use("secrets", "KEY"),)
    ctx.end()
    with pytest.raises(ToolError, match="the call has its answer already"):
        ctx.secret("KEY")
    with pytest.raises(ToolError, match="the call has its answer already"):
        ctx.files.read_text("note")
    assert ctx.access.uses == (Use("secrets", "KEY"),)


def test_progress_on_its_way_when_the_call_ends_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    async def main() -> None:
        ctx = ToolContext(on_progress=told.append)
        ctx.begin(asyncio.get_running_loop(), 1.0)
        ctx.progress("one")
        ctx.progress("two")
        ctx.end()
        assert told == ["two"], "of texts that come faster the newest is shown"
        await asyncio.sleep(0)
        assert told == ["two"]

    asyncio.run(main())
    fault = ValueError("a watcher failed")

    def fails(_: str) -> None:
        raise fault

    with caplog.at_level(logging.DEBUG):
        ToolContext(on_progress=fails).progress("half")
    assert [one.exc_info and one.exc_info[1] for one in caplog.records] == [fault]


@table(
    "name",
    ["timeout_s", "deadline", "access", "tools_change", "checkpoints", "_is_cancelled", "_is_over", "_loop"],
)
def test_what_the_runtime_keeps_in_a_context_is_not_given_to_it(name: str) -> None:
    wrong: Any = {name: None}
    with pytest.raises(TypeError, match=name):
        ToolContext(**wrong)
    assert hasattr(ToolContext(), name)


def test_a_context_without_a_watcher_takes_progress_and_a_long_text_is_cut() -> None:
    ToolContext().progress("nobody looks")
    seen: list[str] = []
    ctx: ToolContext = ToolContext(on_progress=seen.append)
    ctx.progress("x" * MAX_PROGRESS_CHARS)
    ctx.progress("x" * (MAX_PROGRESS_CHARS + 1))
    assert [len(text) for text in seen] == [2_000, 2_000]
    ctx.end()
    ctx.progress("late")
    assert len(seen) == 2
