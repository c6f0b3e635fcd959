"""SessionCore: numbers, mailboxes, decisions, and the actions of the gate."""

from collections import deque
from collections.abc import Sequence

import pytest

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import CLIENT, HOST, MODEL, SUPERVISOR
from callboard.actors.protocol.client_messages import Ask, Cancel, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage, Begin, DeciderFailed, Stop
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.session.core import Mailbox, SessionCore, recorded_failure
from callboard.actors.session.port_actions import Abort, Arm, Disarm, GiveBack, Refuse, Start
from tests.poison import poison_supervisor

OPENED = SessionOpened(1, "host", (Json(encode(Profile("host"))),), ModelSpec("m"))


class Driver:
    """Mailboxes and ports that keep their events."""

    def __init__(self) -> None:
        self.inboxes: dict[str, deque[Event]] = {}
        self.core = SessionCore(self.open)
        self.log: list[Event] = []
        self.did: list[str] = []

    def open(self, address: str) -> Mailbox:
        inbox: deque[Event] = deque()
        self.inboxes[address] = inbox
        return inbox.append

    def post(self, sender: str, cause: int, posts: Sequence[Post]) -> None:
        events = self.core.post(0, ((sender, cause, posts),))
        self.log += events
        self.core.perform(self.core.gate.on_events(events), self)

    def start(self, start: Start) -> None:
        until = self.core.announce(start, self) if start.waits else 0
        self.did.append(f"start {start.request.seq} at {until}")

    def abort(self, request: Event) -> None:
        self.did.append(f"abort {request.seq}")

    def arm(self, arm: Arm) -> None:
        self.did.append(f"arm {arm.timer}")

    def disarm(self, timer: int) -> None:
        self.did.append(f"disarm {timer}")

    def give_back(self, agent: str, usage: Usage | None) -> None:
        self.did.append(f"give back {agent}")

    def settle(self) -> "Driver":
        """Let deciders handle everything, actor by actor."""
        while full := next((inbox for inbox in self.inboxes.values() if inbox), None):
            event = full.popleft()
            self.post(event.recipient, event.seq, self.core.decide_safely(event))
        return self


def asked() -> Driver:
    driver = Driver()
    driver.post(CLIENT, 0, (Post(SUPERVISOR, OPENED), Post(SUPERVISOR, Ask("r", text_json("go")))))
    return driver.settle()


def test_a_session_runs_until_a_port_must_answer() -> None:
    driver = asked()
    assert [type(event.body).__name__ for event in driver.log] == [
        "SessionOpened",
        "Ask",
        "Begin",
        "TurnRequested",
        "CallModel",
    ]
    assert [event.seq for event in driver.log] == [1, 2, 3, 4, 5]
    assert driver.did == ["start 5 at 0"], "a model call does not wait for the disk"


def test_a_mailbox_opens_with_begin_and_an_event_without_one_is_still_posted() -> None:
    driver = Driver()
    driver.post(SUPERVISOR, 0, (Post("host.1", Stop("cancelled")),))
    assert set(driver.inboxes) == {SUPERVISOR}
    begin = Begin(Json(encode(Profile("kid"))), text_json("go"), ModelSpec("m"), OPENED.limits)
    driver.post(SUPERVISOR, 0, (Post("host.1", begin),))
    assert [event.seq for event in driver.inboxes["host.1"]] == [2]


def test_the_mailbox_of_a_sub_agent_at_rest_is_gone_and_the_hosts_stays() -> None:
    core = SessionCore()
    core.open("host.1")
    core.open(HOST)
    for address in ("host.1", HOST):
        core.keep(address, AgentState(address, phase="idle", turn=3))
    assert set(core.mailboxes) == {SUPERVISOR, HOST}
    assert core.states["host.1"] == AgentState("host.1", phase="idle"), "nothing else of it is kept"
    assert core.state_of(HOST) == AgentState(HOST, phase="idle", turn=3)


def test_a_decision_that_raises_changes_nothing_and_its_failure_stands_in_its_place() -> None:
    driver = asked()
    reply = Event(6, 0, "model", HOST, 5, ModelReplied(1, 1, "ok", text_json("x")))
    before = driver.core.states[HOST]

    def falls(state, event):  # type: ignore[no-untyped-def]  # the types are those of the real one
        raise RecursionError

    driver.core.step = falls
    with pytest.raises(RecursionError):
        driver.core.decide(reply)
    assert driver.core.states[HOST] is before
    posts = driver.core.decide_safely(reply)
    assert posts[0] == Post(SUPERVISOR, DeciderFailed(6, "RecursionError"))
    again = asked()
    assert again.core.decide(reply, "RecursionError") == posts, "a recorded failure is not tried again"


def test_a_supervisor_that_raises_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = asked()
    poison_supervisor(monkeypatch, Cancel, MemoryError())
    event = Event(6, 0, CLIENT, SUPERVISOR, 0, Cancel("enough"))
    for decide in (driver.core.decide, driver.core.decide_safely):
        with pytest.raises(MemoryError):
            decide(event)


def test_decisions_together_are_those_one_after_the_other() -> None:
    bodies: tuple[AnyMessage, ...] = (OPENED, Ask("r", text_json("go")), Cancel("enough"))
    events = [Event(seq, 0, CLIENT, SUPERVISOR, 0, body) for seq, body in enumerate(bodies, 1)]
    one, other = SessionCore(), SessionCore()
    assert one.decide_together(events) == [other.decide(event) for event in events]
    assert one.states == other.states


def test_a_request_that_is_posted_with_a_later_stop_is_not_started() -> None:
    driver = asked()
    driver.did.clear()
    driver.post(HOST, 0, (Post("tools", CallTool(1, 0, "look", "read", NULL)), Post(HOST, Stop("cancelled"))))
    assert driver.did == ["abort 5", "abort 6"]


def test_the_ports_perform_each_action_of_the_gate() -> None:
    driver = asked()
    call = driver.log[-1]
    answer = Post(HOST, ModelReplied(1, 1, "cancelled"))
    driver.did.clear()
    driver.core.perform([Refuse(call, answer), GiveBack(HOST, None), Abort(call), Disarm(3)], driver)
    last = driver.log[-1]
    assert (last.sender, last.cause, Post(last.recipient, last.body)) == (MODEL, call.seq, answer)
    assert driver.did[-3:] == ["give back host", f"abort {call.seq}", "disarm 3"]


def test_a_recorded_failure_is_the_first_output_of_its_decision() -> None:
    failure = Event(9, 0, HOST, SUPERVISOR, 8, DeciderFailed(8, "KeyError"))
    other = Event(9, 0, HOST, SUPERVISOR, 8, Cancel())
    assert recorded_failure([failure, other]) == "KeyError"
    assert recorded_failure([other, failure]) == recorded_failure([]) == ""


def test_a_session_that_detaches_answers_its_model_calls_and_delivers_nothing_more() -> None:
    driver = asked()
    (call,) = [event for event in driver.log if event.recipient == MODEL]
    detached = Post(HOST, ModelReplied(1, 1, "detached", usage=ZERO))
    begin = Begin(Json(encode(Profile("kid"))), text_json("go"), ModelSpec("m"), OPENED.limits)
    assert driver.core.detached_answers() == [(call, detached)]
    driver.core.stand_still()
    driver.did.clear()
    driver.post(MODEL, call.seq, (detached,))
    driver.post(SUPERVISOR, 0, (Post("host.1", begin),))
    driver.post("host.1", 0, (Post("tools", CallTool(1, 0, "look", "read", NULL)),))
    assert not any(driver.inboxes.values())
    assert driver.did == []
    assert driver.core.detached_answers() == []


def test_a_client_hears_of_a_session_that_stands_still() -> None:
    driver, heard = asked(), deque[Event]()
    driver.core.mailboxes[CLIENT] = heard.append
    driver.core.stand_still()
    driver.post(SUPERVISOR, 0, (Post(CLIENT, Cancel()),))
    assert [event.body for event in heard] == [Cancel()]


def test_a_session_that_moves_has_empty_mailboxes_for_all_that_are_not_at_rest() -> None:
    driver = asked()
    driver.core.keep("host.1", AgentState("host.1", phase="idle"))
    opened: list[str] = []
    client: list[Event] = []

    def open_mailbox(address: str) -> Mailbox:
        opened.append(address)
        return lambda event: None

    driver.core.move_to(open_mailbox, client.append)
    assert sorted(opened) == [HOST, SUPERVISOR]
    driver.core.post(0, ((SUPERVISOR, 0, (Post(CLIENT, Cancel()),)),))
    assert [event.seq for event in client] == [6]
