"""The rules of a resume without a runtime: the parts of a log that it reads, and the refused sessions."""

import asyncio
from contextlib import nullcontext
from typing import Any, cast

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.client_messages import (
    RULES,
    Ask,
    AskEnded,
    Cancel,
    Close,
    Forked,
    Resumed,
    SessionClosed,
    SessionOpened,
    Tell,
    TellEnded,
)
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import (
    AgentsChanged,
    CallboardError,
    CorruptLog,
    Fenced,
    MissingDeps,
    MissingFiles,
    MissingType,
    MisuseError,
    SessionEnded,
    SessionImported,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Finished
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.shared_state import StateKey
from callboard.actors.protocol.upcasters import FORMAT
from callboard.runtime.agent import Agent
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import GENESIS, Append, Head, Stored
from callboard.runtime.schemas.output_types import OutputType
from callboard.runtime.sessions import resuming, session_pages
from callboard.runtime.sessions.resuming import (
    Continuing,
    RecordedSession,
    ResumeRules,
    changes,
    check,
    continuation,
    downtime_ms,
    read_session,
    recorded_of,
    refuse_unfit,
    take_over,
)
from callboard.runtime.sessions.session_types import SessionTypes

NAME = "one"


async def log_of(events: list[Event]) -> MemoryLog:
    """Make an open log with these events."""
    log = MemoryLog()
    await log.open()
    await log.create(NAME, 0, "")
    await log.append([Append(NAME, 0, 1, events)])
    return log


OPENED = SessionOpened(
    RULES,
    "host",
    (Json(encode(Agent("host").profile())),),
    ModelSpec("m"),
    state=(StateKey("k", "replace"),),
    files=FileArea("f", (".",), ()),
)
OTHER = FileArea("g", (".",), ())
APPENDED = (StateKey("k", "append"), StateKey("new", "append"))
KEY = "state key k: its reducer was replace, is append"
HOST = "the host was host, is boss"
TYPES = SessionTypes({}, "host", ())


def posted(*bodies: Any) -> list[Event]:
    return [Event(seq, seq, "client", SUPERVISOR, 0, body) for seq, body in enumerate(bodies, 1)]


def read_back(*bodies: Any) -> RecordedSession:
    """Read these messages from a log."""
    events = posted(*bodies)
    sealing = HashChain().seal_all(NAME, GENESIS, events)
    rows = [
        Stored(one.seq, one.at, one.sender, one.recipient, one.cause, body, digest)
        for one, body, digest in zip(events, sealing.bodies, sealing.digests, strict=True)
    ]
    return recorded_of(NAME, rows)


def test_a_log_of_many_pages_is_read_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_pages, "PAGE", 2)

    async def work() -> None:
        for count in range(7):
            log = await log_of(posted(OPENED, *[Cancel(f"{at}") for at in range(count)]))
            assert [event.seq for event in (await read_session(log, NAME)).events] == [*range(1, count + 2)]

    asyncio.run(work())


def test_later_events_change_what_was_said_before() -> None:
    recorded = read_back(
        OPENED,
        Tell("t", "host", "x"),
        Tell("u", "host", "y"),
        TellEnded("u", "heard"),
        Resumed(
            RULES,
            state=(StateKey("k", "append"), StateKey("l", "append")),
            capacity=("m",),
            files=FileArea("g", (".",), ()),
            model=ModelSpec("n"),
        ),
    )
    assert recorded.tells == {"t": None, "u": TellEnded("u", "heard")}
    assert recorded.state == {"k": StateKey("k", "replace"), "l": StateKey("l", "append")}
    assert (recorded.capacity, recorded.files) == (("m",), OTHER)
    assert recorded.models == (ModelSpec("m"), ModelSpec("n"))
    assert recorded.in_force == recorded.profiles == OPENED.profiles
    waits = read_back(OPENED, Resumed(RULES, model=ModelSpec("n"), from_next_ask=True))
    assert (waits.model, waits.models) == (ModelSpec("n"), (ModelSpec("m"),))
    asked = read_back(OPENED, Resumed(RULES, model=ModelSpec("n")), Ask("r", text_json("go")))
    assert (asked.models, asked.in_force) == ((ModelSpec("n"),), OPENED.profiles)
    with pytest.raises(CorruptLog, match="99"):
        read_back(OPENED, Resumed(RULES, format="99.0"))
    with pytest.raises(CorruptLog):
        read_back(replace(OPENED, rules=99))


def test_an_ask_that_ended_has_the_head_of_its_end() -> None:
    posts = (OPENED, Ask("r", text_json("go")), Finished("answered"), AskEnded("r", "answered"), Cancel("x"))
    events = posted(*posts)
    digests = HashChain().seal_all(NAME, GENESIS, events).digests
    ends = {name: head for name, (_, head) in read_back(*posts).ended.items()}
    assert ends == {"r": (4, digests[3].hex())}


def test_a_wish_to_continue_gives_its_objects_to_the_tools() -> None:
    deps, files, memory = object(), cast("Any", object()), cast("Any", object())
    given = Continuing(deps=deps, files=files, memory=memory).given
    assert (given.deps, given.files, given.memory) == (deps, files, memory)


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (OPENED, []),
        (replace(OPENED, host="boss"), [HOST]),
        (replace(OPENED, state=APPENDED), [KEY]),
        (replace(OPENED, host="boss", state=APPENDED), [HOST, KEY]),
    ],
)
def test_changes_are_told_in_words(now: SessionOpened, found: list[str]) -> None:
    recorded = read_back(OPENED)
    assert [*changes(recorded, now)] == found
    assert changes(RecordedSession(()), now) == ()
    for policy in ("refuse", "accept"):
        rules = ResumeRules(policy, TYPES, files=None)
        if found and policy == "refuse":
            with pytest.raises(AgentsChanged, match=found[0]):
                check(NAME, recorded._replace(files=None), now, rules)
        else:
            check(NAME, recorded._replace(files=None), now, rules)


def test_a_session_is_refused_that_went_on_elsewhere_or_needs_deps() -> None:
    asked = read_back(replace(OPENED, files=None), Ask("r", text_json("go"), deps="mine.Deps"))
    check(NAME, asked, OPENED, ResumeRules("accept", TYPES, has_deps=True, ends_at=2))
    with pytest.raises(Fenced, match="has continued elsewhere"):
        check(NAME, asked, OPENED, ResumeRules("accept", TYPES, has_deps=True, ends_at=1))
    with pytest.raises(MissingDeps, match="mine"):
        check(NAME, asked, OPENED, ResumeRules("accept", TYPES))
    ended = read_back(
        replace(OPENED, files=None), Ask("r", text_json("go"), deps="d"), AskEnded("r", "answered")
    )
    check(NAME, ended, OPENED, ResumeRules("accept", TYPES))
    with pytest.raises(MisuseError):  # its model is not there, and the ask goes on with it
        check(NAME, asked, OPENED, ResumeRules("next_ask", TYPES, has_deps=True))
    check(NAME, asked, OPENED, ResumeRules("next_ask", TYPES, models=("m",), has_deps=True))


def test_a_session_is_refused_that_was_imported_or_that_no_budget_fits() -> None:
    imported = read_back(replace(OPENED, files=None, imported="a proxy"))
    with pytest.raises(SessionImported, match=r"another program \(a proxy\)"):
        check(NAME, imported, OPENED, ResumeRules("accept", TYPES))
    asked: list[RecordedSession] = []
    recorded = read_back(replace(OPENED, files=None))
    check(NAME, recorded, OPENED, ResumeRules("accept", TYPES, budgets=asked.append))
    assert asked == [recorded]


@pytest.mark.parametrize("is_short", [False, True])
def test_events_that_an_owner_adds_before_it_is_fenced_are_read_and_checked(is_short: bool) -> None:
    class Late(MemoryLog):
        async def take_over(self, session_id: str) -> tuple[int, Head]:
            await self.append([Append(NAME, 1, 1, [replace_seq(2)])])
            epoch, head = await super().take_over(session_id)
            return epoch, Head(head.seq + 1, head.digest) if is_short else head

    def replace_seq(seq: int) -> Event:
        return Event(seq, seq, "client", SUPERVISOR, 0, Cancel("late"))

    async def work() -> None:
        log, checked = Late(), list[int]()

        async def fits(recorded: RecordedSession) -> None:
            checked.append(len(recorded.events))

        await log.open()
        await log.create(NAME, 0, "")
        opened = replace(OPENED, files=None)
        await log.append([Append(NAME, 0, 1, posted(opened))])
        rules = ResumeRules("refuse", TYPES, fits=fits)
        await refuse_unfit(log, NAME, opened, rules)
        assert checked == [1]
        if is_short:
            with pytest.raises(CorruptLog, match="ends at event 3, and 2 can be read"):
                await take_over(log, NAME, opened, rules)
        else:
            taken = await take_over(log, NAME, opened, rules)
            assert (taken.epoch, taken.head.seq, len(taken.recorded.events)) == (2, 2, 2)
        assert checked == [1, 1, 2]

    asyncio.run(work())


def test_the_time_since_the_last_event_is_never_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "now_ms", lambda: 10)
    assert downtime_ms(RecordedSession(())) == 0
    for at, left in ((4, 6), (10, 0), (15, 0)):
        events = (
            Event(1, 0, "client", SUPERVISOR, 0, OPENED),
            Event(2, at, "client", SUPERVISOR, 0, Cancel("")),
        )
        assert downtime_ms(RecordedSession(events)) == left


def test_a_continuation_says_what_is_new_and_nothing_else() -> None:
    recorded = read_back(OPENED)
    assert continuation(RecordedSession(()), OPENED) is OPENED
    assert continuation(recorded, OPENED) == Resumed(RULES, format=FORMAT)
    layer = Layer("runtime")
    more = replace(
        OPENED,
        limits=Limits(max_iterations=3),
        capacity=("m",),
        state=APPENDED,
        files=OTHER,
        permissions=(layer,),
    )
    expected = Resumed(
        RULES, capacity=("m",), state=(APPENDED[1],), files=OTHER, permissions=(layer,), format=FORMAT,
        extend_ms=12, left_out_ms=5, host=OPENED.host, profiles=OPENED.profiles, model=OPENED.model,
    )  # fmt: skip
    assert continuation(recorded, more, extend_ms=7, left_out_ms=5) == expected
    whole = continuation(recorded, more, has_limits=True, extend_ms=7, left_out_ms=5)
    assert whole == replace(expected, limits=more.limits)
    old = continuation(read_back(replace(OPENED, rules=1)), OPENED, left_out_ms=5)
    assert old == Resumed(1, extend_ms=5, format=FORMAT)


def test_limits_that_the_session_has_already_are_no_change() -> None:
    three, four = (Limits(max_iterations=number) for number in (3, 4))
    asked_twice = read_back(replace(OPENED, limits=three), Resumed(RULES, limits=four))
    for recorded, limits, told in (
        (read_back(OPENED), Limits(), None),
        (read_back(OPENED), three, three),
        (asked_twice, four, None),
        (asked_twice, three, three),
    ):
        found = continuation(recorded, replace(OPENED, limits=limits), has_limits=True)
        assert isinstance(found, Resumed)
        assert found.limits == told


@pytest.mark.parametrize("policy", ["accept", "next_ask"])
@pytest.mark.parametrize("is_running", [False, True])
def test_changed_agents_wait_for_the_end_of_a_running_ask_where_that_is_the_policy(
    policy: Any, is_running: bool
) -> None:
    recorded = read_back(OPENED, *([Ask("r", text_json("go"))] if is_running else []))
    boss = replace(OPENED, host="boss")
    found = continuation(recorded, boss, policy=policy)
    assert isinstance(found, Resumed)
    assert found.host == "boss"
    assert found.from_next_ask == (is_running and policy == "next_ask")


def test_of_several_reasons_the_one_is_told_that_the_caller_must_mend_first() -> None:
    def over_budget(recorded: RecordedSession) -> None:
        raise MisuseError("budgets")

    profile = Profile("host", "", schema=Json(b'{"type":"object"}'), output_type="mine.Report")
    opened = replace(OPENED, imported="another", profiles=(Json(encode(profile)),))
    ask = Ask("r", text_json("go"), profile.schema, deps="mine.Deps", output_type="mine.R")
    rules = ResumeRules("refuse", TYPES, ends_at=9, budgets=over_budget)
    boss = replace(opened, host="boss")

    def told(recorded: RecordedSession, rules: ResumeRules) -> type[Exception]:
        with pytest.raises(CallboardError) as caught:
            check(NAME, recorded, boss, rules)
        return caught.type

    assert told(read_back(opened, ask)._replace(is_closed=True), rules) is SessionImported
    own = read_back(replace(opened, imported=""), ask)._replace(is_closed=True)
    assert told(own, rules) is SessionEnded
    rules = rules._replace(reopens=True)
    assert told(own, rules) is Fenced
    rules = rules._replace(ends_at=None)
    assert told(own, rules) is MisuseError
    rules = rules._replace(budgets=lambda recorded: None)
    assert told(own, rules) is AgentsChanged
    rules = rules._replace(policy="next_ask")
    assert told(own, rules) is MissingFiles
    own = own._replace(files=None)
    assert told(own, rules) is MissingDeps
    rules = rules._replace(has_deps=True)
    assert told(own, rules) is MissingType
    rules = rules._replace(types=SessionTypes({}, "host", (OutputType(profile.schema, "mine.R"),)))
    assert told(own, rules) is MissingType, "of the agents that run"
    types = (OutputType(profile.schema, "mine.R"), OutputType(profile.schema, "mine.Report"))
    assert told(own, rules._replace(types=SessionTypes({}, "host", types))) is AgentsChanged


def test_a_closed_session_is_ended_unless_it_is_reopened() -> None:
    closed = read_back(replace(OPENED, files=None), Close(), SessionClosed())
    assert closed.is_closed
    with pytest.raises(SessionEnded, match=f"session {NAME} is closed"):
        check(NAME, closed, OPENED, ResumeRules("accept", TYPES))
    check(NAME, closed, OPENED, ResumeRules("accept", TYPES, reopens=True))
    found = continuation(closed, OPENED)
    assert isinstance(found, Resumed)
    assert found.reopens


def test_the_agents_of_a_fork_are_those_of_its_first_event() -> None:
    fork = Forked("origin", 1, "digest", Resumed(RULES, model=ModelSpec("n"), capacity=("m",)))
    recorded = read_back(OPENED, fork)
    assert (recorded.model, recorded.capacity) == (ModelSpec("n"), ("m",))


def test_the_latest_ask_is_the_one_that_runs_or_the_last_that_ended() -> None:
    assert read_back(OPENED).last == ""
    ended = read_back(OPENED, Ask("a", text_json("go")), AskEnded("a", "answered"))
    assert (ended.running, ended.last, [*ended.ended]) == ("", "a", ["a"])
    running = read_back(
        OPENED, Ask("a", text_json("go")), AskEnded("a", "answered"), Ask("b", text_json("go"))
    )
    assert (running.running, running.last) == ("b", "b")


def test_the_time_of_a_recovery_is_now_and_of_a_fork_that_of_its_last_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(resuming, "recover", lambda *given, **more: asked.append((given[2:], more)))
    monkeypatch.setattr(resuming, "now_ms", lambda: 77)
    recorded = read_back(OPENED, Ask("a", text_json("go")))
    gate: Any = "gate"
    resuming.recover_session(NAME, recorded, OPENED, gate)
    resuming.recover_session(NAME, recorded, OPENED, gate, {5}, has_run=False)
    assert asked == [((77, "gate", None), {"has_run": True}), ((2, "gate", {5}), {"has_run": False})]
    assert resuming.extension_ms(1.5) == 1_500


def test_the_rights_of_a_session_are_those_of_all_its_processes() -> None:
    rights = Rights(Allowed(secrets=("KEY",)))
    layers = [Layer(by, rights) for by in ("runtime", "session", "agent host")]
    opened = replace(OPENED, permissions=(layers[0],))
    more = Resumed(RULES, permissions=(layers[1], layers[2]))
    recorded = read_back(opened, more)
    assert recorded.permissions == tuple(layers)
    found = continuation(recorded, replace(opened, permissions=(*layers, Layer("new", rights))))
    assert isinstance(found, Resumed)
    assert found.permissions == (Layer("new", rights),)


def test_a_session_with_files_needs_them_again() -> None:
    with pytest.raises(MissingFiles):
        check(NAME, read_back(OPENED), OPENED, ResumeRules("accept", TYPES))


def test_an_ask_that_ends_with_its_recorded_agents_needs_their_types_as_they_were() -> None:
    changed = Json(b'{"type":"string"}')
    profile = Profile("host", "", schema=Json(b'{"type":"object"}'), output_type="mine.Report")
    opened = replace(OPENED, files=None, profiles=(Json(encode(profile)),))
    asked = read_back(opened, Ask("r", text_json("go")))
    for known, is_refused in ((profile.schema, False), (changed, True)):
        types = SessionTypes({}, "host", (OutputType(known, "mine.Report"),))
        rules = ResumeRules("next_ask", types, models=("m",), has_deps=True)
        with pytest.raises(MissingType, match=r"mine\.Report") if is_refused else nullcontext():
            check(NAME, asked, opened, rules)


def test_the_scopes_of_a_resume_replace_those_before_and_none_of_them_is_forgotten() -> None:
    opened = SessionOpened(2, "host", (), ModelSpec("m"), scopes=("a",))
    read = [read_back(opened, *more) for more in ((), (Resumed(2, scopes=("b",)),), (Resumed(2, scopes=()),))]
    assert [(one.scopes, one.is_bound) for one in read] == [(("a",), True), (("b",), True), ((), True)]
