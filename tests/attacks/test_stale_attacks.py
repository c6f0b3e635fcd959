"""Attack cases G10 and G11: a process that ends in the middle, and old messages that come again."""

import asyncio
from pathlib import Path

import pytest

from callboard import Agent, Runtime, ScriptedModel, call
from callboard.actors.protocol.client_messages import Ask, AskEnded, SessionOpened
from callboard.actors.protocol.errors import CorruptLog, Fenced, SessionFailed
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import CallModel, CallTool, SchemaChecked
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append, Head, Sealed
from tests import golden
from tests.attacks.orders import (
    SCHEMA,
    every_moment,
    faults,
    finished,
    played,
    results,
    scenario,
)
from tests.poison import poison_supervisor


def _accepted(request: ModelRequest) -> Reply:
    if request.address == "host":
        return calls(task("kid", output_schema=SCHEMA)) if request.turn == 1 else Reply("done")
    return report({"n": 1})


# --- G10: the supervisor's process ends between accepting and dispatching --------------------------------


@pytest.mark.slow
def test_g10_a_crash_at_every_moment_loses_no_delegation_and_begins_none_twice() -> None:
    # This includes the moments between the acceptance of the schema and the start of the child.
    crashes = 0
    for world in every_moment(scenario(_accepted, may_fail=faults("crash"))):
        crashes += 1
        assert [event.recipient for event in world.events(Begin)] == ["host", "host.1"]
        assert results(world) == [("reported", b'{"n":1}')]
        assert world.ended.kind == "answered"
    assert crashes > 20


def test_g10_a_supervisor_that_fails_on_the_accepted_schema_goes_on_in_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runtime() -> Runtime:
        return Runtime(
            tmp_path / "log.db",
            model=ScriptedModel(
                {
                    "host": [call("task", agent="kid", prompt="x", output_schema=SCHEMA), "done"],
                    "kid": [call("report_back", n=1)],
                }
            ),
        )

    host = Agent("host", agents=[Agent("kid")])

    async def main() -> None:
        with monkeypatch.context() as patch:
            poison_supervisor(patch, SchemaChecked, RuntimeError("the supervisor falls"))
            async with runtime() as first:
                with pytest.raises(SessionFailed, match="the supervisor falls"):
                    await first.run(host, "go", session_id="one")
        before = list(Recording.open(tmp_path / "log.db", "one").events)
        assert isinstance(before[-1].body, SchemaChecked)
        async with runtime() as second:
            session = await second.resume("one", host)
            outcome = await session.outcome
            await session.close()
        assert outcome is not None
        assert outcome.text == "done"
        recording = Recording.open(tmp_path / "log.db", "one")
        assert recording.events[: len(before)] == before
        assert recording.verify().is_ok
        assert [event.recipient for event in recording.events if event.kind == "Begin"] == ["host", "host.1"]

    asyncio.run(main())


# --- G11: an old message comes again, in a fork or after another took over -------------------------------


def test_g11_the_store_refuses_an_event_of_an_owner_that_was_replaced() -> None:
    async def main() -> None:
        log, events = MemoryLog(), golden.golden("report")
        await log.open()
        old = await log.create("one", 0, "")
        await log.append([Append("one", 0, old, events[:1])])
        new, head = await log.take_over("one")
        (refused,) = await log.append([Append("one", 1, old, events[1:2])])
        assert isinstance(refused, Fenced)
        assert await log.head("one") == head
        (taken,) = await log.append([Append("one", 1, new, events[1:2])])
        assert taken == await log.head("one")

    asyncio.run(main())


def test_g11_an_event_of_the_origin_does_not_pass_for_one_of_the_fork() -> None:
    # A fork continues the digest of its origin, but later events of the origin do not belong to the fork.
    events = golden.golden("report")

    async def main() -> MemoryLog:
        log = MemoryLog()
        await log.open()
        await log.create("origin", 0, "")
        (head,) = await log.append([Append("origin", 0, 1, events[:5])])
        assert isinstance(head, Head)
        await log.fork("fork", 0, "", "origin", 5)
        await log.append([Append("fork", 5, 1, events[5:10]), Append("origin", 5, 1, events[5:])])
        return log

    class Spliced(MemoryReader):
        """A reader that shows one event of the origin in the fork, with its digest."""

        place = 0

        def _own_rows(self, session_id: str, start: int, limit: int) -> list[Sealed]:
            others = {row.seq: row for row in super()._own_rows("origin", 1, 10_000)}
            rows = super()._own_rows(session_id, start, limit)
            return [others[row.seq] if row.seq == self.place else row for row in rows]

    reader = Spliced(asyncio.run(main()))
    assert reader.verify_chain("fork").seq == 10
    for reader.place in range(6, 11):
        with pytest.raises(CorruptLog) as caught:
            reader.verify_chain("fork")
        assert caught.value.seq == reader.place


def test_g11_old_messages_that_come_again_start_nothing() -> None:
    # Every earlier message is posted again after the end: no call, no child, no second outcome may follow.
    world = played(scenario(_accepted))
    before, count = world.supervisor, len(world.log)
    for event in list(world.log):
        if event.recipient in world.inboxes and not isinstance(event.body, Ask | SessionOpened):
            world.post(event.sender, event.cause, (Post(event.recipient, event.body),))
            finished(world)
    again = [event for event in world.log[count:] if event.cause > count]
    assert not [event for event in again if isinstance(event.body, CallModel | Begin | CallTool | AskEnded)]
    assert world.supervisor == before
