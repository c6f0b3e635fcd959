import pytest
from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, CLOCK, SUPERVISOR, is_decider
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import (
    CancelTimer,
    ModelReplied,
    SetTimer,
    TimerFired,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.uses import Use
from callboard.replay.open_requests import ANSWERS, OpenRequests
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.verify import Verifier
from tests import golden
from tests.mutants.scenarios_rights import used_rights
from tests.tables import table


def opened(*events: Event) -> OpenRequests:
    requests = OpenRequests()
    for event in events:
        requests.take(event)
    return requests


@table("name", golden.SESSIONS)
def test_inputs_of_the_golden_logs_break_no_rule_and_all_requests_are_answered(name: str) -> None:
    requests = OpenRequests()
    for event in golden.golden(name):
        if not is_decider(event.sender):
            assert requests.broken_rule(event) == ""
        requests.take(event)
    assert requests._open == {}
    assert requests._timers == {}


def test_a_second_answer_has_no_request() -> None:
    events = golden.golden("everything")
    for place, event in enumerate(events):
        if type(event.body) in ANSWERS:
            requests = opened(*events[: place + 1])
            is_repeatable = type(event.body) is ToolStarted
            assert bool(requests.broken_rule(event)) is not is_repeatable


def test_an_answer_repeats_its_request_and_goes_to_the_actor_that_asked() -> None:
    events = golden.golden("everything")
    place = next(place for place, event in enumerate(events) if isinstance(event.body, ModelReplied))
    requests, reply = opened(*events[:place]), events[place]
    other = replace(reply, body=replace(reply.body, turn=9))
    for event, rule in (
        (reply, ""),
        (other, "an answer repeats turn and attempt of its request"),
        (replace(reply, recipient="host.9"), f"this answer is for {reply.recipient}"),
        (replace(reply, sender=CLOCK), "clock does not post ModelReplied"),
        (replace(reply, cause=1), "an answer needs a request that has no answer yet"),
        (replace(reply, sender=CLIENT), "the client speaks to the supervisor"),
    ):
        assert requests.broken_rule(event) == rule


def test_a_cancelled_timer_costs_no_memory_and_does_not_fire() -> None:
    armed = Event(1, 0, SUPERVISOR, CLOCK, 0, SetTimer(7, 1_000))
    fired = Event(3, 0, CLOCK, SUPERVISOR, 1, TimerFired(7))
    assert opened(armed).broken_rule(fired) == ""
    requests = opened(armed, Event(2, 0, SUPERVISOR, CLOCK, 0, CancelTimer(7)))
    assert requests.broken_rule(fired) == "an answer needs a request that has no answer yet"
    assert requests._open == {}
    assert opened(armed, fired)._open == {}


USED = list(SessionWorld(used_rights()).run().log)
"""A session whose tools use files, hosts, secrets and memories within their bundles."""


def test_uses_within_the_bundles_break_no_rule() -> None:
    assert sum(bool(one.body.uses) for one in USED if isinstance(one.body, ToolReturned)) > 5
    assert Verifier(USED).run() is None


@pytest.mark.parametrize(
    ("use", "refusal"),
    [
        (Use("hosts", "https://evil.test:443"), "host 'https://evil.test:443' is denied"),
        (Use("write", "etc/passwd"), "writing 'etc/passwd' is denied"),
        (Use("secrets", "OTHER"), "secret 'OTHER' is denied"),
        (Use("memory", "shared"), "is denied"),
    ],
)
def test_verify_finds_a_use_that_the_bundles_do_not_cover(use: Use, refusal: str) -> None:
    at = next(place for place, one in enumerate(USED) if isinstance(one.body, ToolReturned))
    log = [*USED]
    log[at] = replace(log[at], body=replace(log[at].body, uses=(use,)))
    found = Verifier(log).run()
    assert found is not None
    assert (found.seq, found.kind) == (at + 1, "unexpected")
    assert refusal in str(found.expected)
