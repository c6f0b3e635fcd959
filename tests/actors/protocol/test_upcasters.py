"""Old formats: upcasters, and newer formats that are refused where they cannot be read.

No format is frozen, so these tests make up two older versions of a kind:

    ToolReturned/0    `text` in place of `output`; `failed`, true or false, in place of `status`
    ToolReturned/1    `text` in place of `output`
"""

import asyncio
from typing import Any

import msgspec
import pytest

from callboard.actors.protocol import upcasters
from callboard.actors.protocol.codec import UnreadableBody, canonical, decode, encode
from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.upcasters import FORMAT, Fields, tag, upcast, why_unreadable
from callboard.replay.diff import diff
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log import hash_chain
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import check_format
from callboard.runtime.models.scripted import call, say
from callboard.runtime.runtime import Runtime
from tests.runtime.forks.kit import Counted, measure, rows_of
from tests.tables import table

OUTPUT = b'{"b": 1,\\n "a":  2.0}'


def from_0(fields: Fields) -> Fields:
    failed = fields.pop("failed", Json(b"false"))
    more = {"status": Json(b'"error"')} if bytes(failed) == b"true" else {}
    return {**fields, **more, "type": tag("ToolReturned/1")}


def from_1(fields: Fields) -> Fields:
    text = fields.pop("text", None)
    more = {} if text is None else {"output": text}
    return {**fields, **more, "type": tag("ToolReturned")}


def as_0(body: bytes) -> bytes:
    """Return a body as version 0 has written it."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if bytes(fields["type"]) != b'"ToolReturned"':
        return body
    status = fields.pop("status", None)
    old: dict[str, Any] = {"type": "ToolReturned/0", **{k: v for k, v in fields.items() if k != "type"}}
    if "output" in old:
        old["text"] = old.pop("output")
    if status is not None:
        old["failed"] = True
    return msgspec.json.encode(old)


@pytest.fixture
def old_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"ToolReturned/0": from_0, "ToolReturned/1": from_1}
    monkeypatch.setattr(upcasters, "UPCASTERS", known)


@pytest.mark.usefixtures("old_kinds")
def test_a_chain_of_upcasters_reads_each_older_version() -> None:
    now = ToolReturned(1, 0, "error", Json(b'"gone"'))
    for old in (
        b'{"type":"ToolReturned/0","turn":1,"call":0,"failed":true,"text":"gone"}',
        b'{"type":"ToolReturned/1","turn":1,"call":0,"status":"error","text":"gone"}',
        encode(now),
    ):
        assert decode(old) == now
        assert canonical(old) == encode(now)


@pytest.mark.usefixtures("old_kinds")
def test_foreign_json_keeps_its_bytes_and_todays_bodies_are_the_same_object() -> None:
    old = b'{"type":"ToolReturned/0","turn":1,"call":0,"text":{"b": 1, "a":  2.0}}'
    found = decode(old)
    assert isinstance(found, ToolReturned)
    assert bytes(found.output) == b'{"b": 1, "a":  2.0}'
    body = encode(found)
    assert upcast(body) is body
    assert canonical(body) is body


def test_upcasters_that_go_round_in_a_circle_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upcasters, "UPCASTERS", {"One": lambda fields: fields})
    with pytest.raises(UnreadableBody, match="go round in a circle"):
        decode(b'{"type":"One"}')


@pytest.mark.parametrize("body", [b'{"type":"New","x":1}', encode(ToolReturned(1, 0))[:-1] + b',"new":1}'])
def test_a_new_kind_and_a_new_field_are_refused_where_they_occur(body: bytes) -> None:
    with pytest.raises(UnreadableBody, match=f"reads format {FORMAT}, and a newer one may read it"):
        decode(body)
    with pytest.raises(UnreadableBody) as damaged:
        decode(b'{"type":"ToolReturned"')
    assert "newer" not in str(damaged.value)


@table(
    ("written", "why"),
    [
        ("1.0", ""),
        ("1.99", ""),
        ("0.4", ""),
        ("2.0", "has format 2.0; this callboard reads up to 1.x: use one that reads 2.x"),
        ("", "has the format '', which is none"),
        ("1", "which is none"),
        ("1.x", "which is none"),
    ],
)
def test_a_session_of_a_newer_major_format_is_refused(written: str, why: str) -> None:
    assert why in why_unreadable(written)
    assert bool(why) == bool(why_unreadable(written))
    if why:
        with pytest.raises(CorruptLog, match="session s"):
            check_format("s", 1, written)


# --- a session that a newer version has recorded ------------------------------------------------


def as_newer(body: bytes) -> bytes:
    """Return a body as a later minor version may write it."""
    return body[:-1] + b',"new":1}' if body.startswith(b'{"type":"ToolReturned"') else body


def test_after_a_rollback_a_session_in_a_newer_format_is_refused_unchanged_and_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    with monkeypatch.context() as patched:
        patched.setattr(hash_chain, "encode", lambda body: as_newer(encode(body)))
        asyncio.run(ask(log, closes=False))
    newer = rows_of(log, "s")

    async def roll_back() -> None:
        async with Runtime(log, model=Counted(answer)) as runtime:
            with pytest.raises(CorruptLog, match=r"session s.*a newer one may read it"):
                await runtime.resume("s", HOST)
            assert (await runtime.run(HOST, "How warm?", session_id="other")).is_ok

    asyncio.run(roll_back())
    assert rows_of(log, "s") == newer


# --- a session that an older version has recorded ------------------------------------------------


def answer(request: Any) -> Any:
    return call("measure", place=3) if request.turn % 2 == 1 else say("Done.")


HOST = Agent("host", tools=[measure])


async def ask(log: MemoryLog, *, resumes: bool = False, closes: bool = True) -> None:
    async with Runtime(log, model=Counted(answer)) as runtime:
        session = await (runtime.resume("s", HOST) if resumes else runtime.open(HOST, session_id="s"))
        assert (await session.ask("How warm?")).text == "Done."
        if closes:
            await session.close()


@pytest.fixture
def old_log(old_kinds: None, monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """Record a session as version 0 has written it: its digests are those of the old bytes."""
    log = MemoryLog()
    with monkeypatch.context() as patched:
        patched.setattr(hash_chain, "encode", lambda body: as_0(encode(body)))
        asyncio.run(ask(log, closes=False))
    assert sum(b"ToolReturned/0" in row.body for row in rows_of(log, "s")) == 1
    return log


def test_an_old_session_verifies_by_its_stored_bytes_and_goes_on(old_log: MemoryLog) -> None:
    recording = Recording.open(MemoryReader(old_log), "s")
    assert recording.verify().divergence is None
    old = [row.body for row in rows_of(old_log, "s")]
    asyncio.run(ask(old_log, resumes=True))
    assert [row.body for row in rows_of(old_log, "s")][: len(old)] == old
    recording = Recording.open(MemoryReader(old_log), "s")
    recording.verify().check()
    kinds = [row.body[:22] for row in rows_of(old_log, "s") if b"ToolReturned" in row.body[:30]]
    assert kinds == [b'{"type":"ToolReturned/', b'{"type":"ToolReturned"']
    fresh = MemoryLog()
    asyncio.run(ask(fresh))
    assert diff(rows_of(old_log, "s")[: len(old)], rows_of(fresh, "s")[: len(old)]).is_same


def test_an_old_session_whose_decisions_differ_diverges_there(old_log: MemoryLog) -> None:
    def other(fields: Fields) -> Fields:
        return {**from_1(fields), "output": Json(b'"other"')}

    upcasters.UPCASTERS["ToolReturned/1"] = other
    found = Recording.open(MemoryReader(old_log), "s").verify().divergence
    assert found is not None
    assert found.expected is not None


def decision_as_0(body: bytes) -> bytes:
    """Return a body as a version has written it in which `CallTool` named its tool in `name`."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if bytes(fields["type"]) != b'"CallTool"':
        return body
    old = {**fields, "type": Json(b'"CallTool/0"'), "name": fields["tool"]}
    del old["tool"]
    return msgspec.json.encode(old)


@pytest.mark.parametrize("tool", [b'"measure"', b'"weigh"'])
def test_a_decision_in_an_old_format_is_compared_as_this_version_writes_it(
    monkeypatch: pytest.MonkeyPatch, tool: bytes
) -> None:
    def from_name(fields: Fields) -> Fields:
        del fields["name"]
        return {**fields, "type": tag("CallTool"), "tool": Json(tool)}

    log = MemoryLog()
    with monkeypatch.context() as patched:
        patched.setattr(hash_chain, "encode", lambda body: decision_as_0(encode(body)))
        asyncio.run(ask(log))
    monkeypatch.setattr(upcasters, "UPCASTERS", {"CallTool/0": from_name})
    found = Recording.open(MemoryReader(log), "s").verify().divergence
    if tool == b'"measure"':
        assert found is None
    else:
        assert found is not None
        assert (found.field, found.expected, found.actual) == ("body.tool", '"measure"', '"weigh"')


def test_without_its_upcaster_an_old_event_is_refused_by_itself(
    old_log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upcasters, "UPCASTERS", {})
    seq = next(row.seq for row in rows_of(old_log, "s") if b"ToolReturned/0" in row.body)
    recording = Recording.open(MemoryReader(old_log), "s")
    assert recording.event(seq - 1).seq == seq - 1
    with pytest.raises(CorruptLog, match=f"event {seq}: not a message"):
        recording.event(seq)


def test_there_is_no_upcaster_until_a_format_is_frozen() -> None:
    assert not upcasters.UPCASTERS
    assert why_unreadable(FORMAT) == ""
