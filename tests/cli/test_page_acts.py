"""Acts of a page beside the owner of a log, without one, and in the process that owns it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callboard import Runtime, ScriptedModel
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.cli.page_acts import ACT_BYTES_MAX, Owned
from callboard.replay.recording import Recording
from callboard.runtime.sessions.session import Session
from tests.cli.page_kit import ACT_TOKEN, Site
from tests.runtime.control.test_forking import HOST, policy
from tests.runtime.control.test_offline import waiting
from tests.runtime.ports.test_approval_port import NAME, PAY, Till, plan
from tests.waiting import until


def beside(log: Path, talk: Callable[[Site, Session], Awaitable[None]]) -> Till:
    """Let a session wait for an approval, and act on it by a page of another process's kind."""
    till = Till()

    async def scene() -> None:
        async with Runtime(log, model=ScriptedModel(plan(PAY))) as runtime:
            session = await runtime.open(till.host, session_id=NAME)
            asking = asyncio.create_task(session.ask("go"))
            await anext(session.approvals())
            await talk(Site(log), session)
            for question in session.open_approvals:
                question.deny()
            await asking

    asyncio.run(scene())
    return till


def given_in(log: Path, session: str = NAME) -> ApprovalGiven:
    """Return the only answer of a person in a session."""
    with Recording.open(log, session) as recording:
        (found,) = [event.body for event in recording.events if isinstance(event.body, ApprovalGiven)]
    return found


def test_the_first_of_two_browsers_answers_and_a_repeat_gets_its_first_answer(tmp_path: Path) -> None:
    log = tmp_path / "a.db"

    async def talk(site: Site, session: Session) -> None:
        (question,) = json.loads((await site.get("waiting", f"session={NAME}")).body)
        yes: dict[str, Any] = {"session": NAME, "seq": question["seq"], "is_approved": True, "by": "ann"}
        assert (await site.act("answer", id="first-one", **yes)).value is True
        no = {**yes, "is_approved": False, "by": "bob"}
        assert (await site.act("answer", id="other-one", **no)).value is False
        assert (await site.act("answer", id="first-one", **yes)).value is True
        other = await site.act("answer", id="first-one", **no)
        assert (other.status, "names another act" in other.error) == (409, True)
        assert (await site.get("waiting", f"session={NAME}")).body == b"[]"

    assert beside(log, talk).paid == [5]
    assert given_in(log).by == "ann"
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert ACT_TOKEN.encode() not in everything


def test_words_and_a_cancel_reach_the_owner_and_carry_what_was_seen(tmp_path: Path) -> None:
    async def talk(site: Site, session: Session) -> None:
        unseen = await site.act("answer", session=NAME, seq=7, is_approved=True, seen=6)
        assert "not on your page yet" in unseen.error
        nobody = await site.act("tell", session=NAME, address="host.9", text="Stop.")
        assert "was not read" in nobody.error
        stale = await site.act("cancel", session=NAME, seen=1)
        assert "another prompt began at event 2" in stale.error
        assert (await site.act("cancel", session=NAME, reason="enough")).value == "cancelled"

    assert beside(tmp_path / "a.db", talk).paid == []


def test_a_call_runs_with_the_arguments_that_a_person_put_in_their_place(tmp_path: Path) -> None:
    async def talk(site: Site, session: Session) -> None:
        (question,) = json.loads((await site.get("waiting", f"session={NAME}")).body)
        yes: dict[str, Any] = {"session": NAME, "seq": question["seq"], "is_approved": True}
        refused = await site.act("answer", arguments={"euros": "five"}, **yes)
        assert (refused.status, "euros" in refused.error) == (409, True)
        assert (await site.act("answer", arguments={"euros": 10**20}, **yes)).value is True

    assert beside(tmp_path / "a.db", talk).paid == [10**20]
    assert bytes(given_in(tmp_path / "a.db").arguments) == b'{"euros":100000000000000000000}'


def test_a_log_without_an_owner_takes_answers_only(tmp_path: Path) -> None:
    log = tmp_path / "a.db"
    seq = waiting(log)

    async def scene() -> None:
        site = Site(log)
        for act in ("cancel", "fork"):
            got = await site.act(act, session=NAME)
            assert (got.status, "ui --act --with MODULE:AGENT" in got.error) == (409, True)
        (question,) = json.loads((await site.get("waiting", f"session={NAME}")).body)
        assert question["seq"] == seq
        given: dict[str, Any] = {"session": NAME, "seq": seq, "is_approved": False, "note": "too much"}
        assert "not on your page" in (await site.act("answer", seen=1, **given)).error
        changed = {**given, "is_approved": True, "arguments": {"euros": 4}}
        assert "can check changed arguments" in (await site.act("answer", **changed)).error
        assert (await site.act("answer", **given)).value is True
        assert (await site.act("answer", **given)).value is False
        assert (await site.get("waiting", f"session={NAME}")).body == b"[]"

    asyncio.run(scene())
    assert (given_in(log).verdict, given_in(log).note, bool(given_in(log).by)) == ("denied", "too much", True)


def test_the_process_that_owns_the_log_resumes_what_was_left_and_answers_there(tmp_path: Path) -> None:
    log, till = tmp_path / "a.db", Till()
    seq = waiting(log)

    async def scene() -> None:
        async with Runtime(log, model=ScriptedModel(plan(PAY))) as runtime:
            site = Site(log, owned=Owned(runtime, till.host))
            (question,) = json.loads((await site.get("waiting", f"session={NAME}")).body)
            assert question["seq"] == seq
            acts = (site.act("answer", session=NAME, seq=seq, is_approved=True) for _ in range(3))
            assert [one.value for one in await asyncio.gather(*acts)] == [True, False, False]
            await until(lambda: NAME not in runtime.live_sessions)  # it is closed at its end

    asyncio.run(scene())
    assert till.paid == [5]


def test_a_fork_runs_where_the_log_is_owned_and_once_for_a_request_id(tmp_path: Path) -> None:
    log = tmp_path / "a.db"

    async def scene() -> None:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            async with runtime.open(HOST, session_id="one") as session:
                await session.ask("How warm?")
            runtime._started().hosts.default = HOST
            site = Site(log, owned=Owned(runtime, HOST))
            with Recording.open(log, "one") as recording:
                seq = next(event.seq for event in recording.events if event.kind == "ToolReturned")
            wish: dict[str, Any] = {"session": "one", "changes": {str(seq): "99"}}
            assert "needs a limit" in (await site.act("fork", **wish)).error
            wish["limits"] = {"tokens": 100_000}
            begun = await site.act("fork", id="fork-once", **wish)
            again = await site.act("fork", id="fork-once", **wish)
            assert begun.value == again.value
            await until(lambda: not runtime.live_sessions)
            table = json.loads((await site.get("variants", "session=one")).body)
            assert [one["text"] for one in table["forks"]] == ["It is hot."]
            assert table["origin"]["text"] == "It is mild."

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        ({"does": {"command": "cancel", "session": "s", "seen": 1}}, 400),
        ({"id": "short", "does": {"command": "cancel", "session": "s", "seen": 1}}, 400),
        ({"id": "request-1", "does": {"command": "delete", "session": "s", "seen": 1}}, 400),
        ({"id": "request-1", "does": {"command": "prune", "older_than_s": 0}}, 400),
        ({"id": "request-1", "does": {"command": "cancel", "session": "s"}}, 400),
        ({"id": "request-1", "does": {"command": "cancel", "session": "s", "seen": 0}}, 400),
        ({"id": "request-1", "log": 7, "does": {"command": "cancel", "session": "s", "seen": 1}}, 400),
        ({"id": "request-1", "does": {"command": "fork", "session": "s", "seen": 1, "code": "x"}}, 400),
        (b"x" * (ACT_BYTES_MAX + 1), 413),
    ],
)
def test_an_act_that_makes_no_sense_is_refused(tmp_path: Path, body: object, status: int) -> None:
    waiting(tmp_path / "a.db")

    async def scene() -> None:
        got = await Site(tmp_path / "a.db").post(body)
        assert got.status == status
        assert status == 413 or "this is not an act" in got.error

    asyncio.run(scene())
