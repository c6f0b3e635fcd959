import asyncio
import doctest
import threading

import pytest

from callboard.actors.protocol.errors import UnknownName
from callboard.runtime.secrets.refs import SecretRef
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.tools import context
from callboard.runtime.tools.context import MAX_PROGRESS_CHARS, ToolContext


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
    ctx = ToolContext(on_progress=lambda text: None)

    async def main() -> None:
        ctx.begin(asyncio.get_running_loop(), 1.0)

    asyncio.run(main())
    thread = threading.Thread(target=ctx.progress, args=("late",))
    thread.start()
    thread.join()


def test_a_watcher_that_fails_does_not_hurt_the_tool() -> None:
    def watcher(text: str) -> None:
        raise ValueError(text)

    ToolContext(on_progress=watcher).progress("x")


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


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(context).failed == 0


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
