"""A resume changes the agents of a session: now, or once the running ask has ended."""

from callboard.actors.protocol.client_messages import RULES, Resumed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin, Finished
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.sessions.scenario import profile
from tests.actors.harness import SessionHarness


def resumed(host: str, *, later: bool = True, model: str = "") -> Resumed:
    spec = ModelSpec(model) if model else None
    return Resumed(1, host, (Json(encode(profile(host))),), spec, from_next_ask=later)


def in_an_ask() -> SessionHarness:
    head = SessionHarness().opens()
    head.asks()
    return head


def next_begin(head: SessionHarness) -> tuple[str, str]:
    """Return the host and the default model of the next ask."""
    (post,) = head.asks(name="r2")
    assert isinstance(post.body, Begin)
    assert f'"{head.state.host_name}"'.encode() in bytes(post.body.profile)
    return head.state.host_name, head.state.model.name


def test_agents_for_later_wait_for_the_end_of_the_ask() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2", model="new"))
    assert (head.state.host_name, head.state.model.name) == ("host", "scripted")
    head.hears("host", Finished("answered", "done"))
    assert (head.state.host_name, head.state.later) == ("v2", None)
    assert next_begin(head) == ("v2", "new")


def test_the_last_resume_before_the_end_decides() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2"))
    head.hears("client", Resumed(1))  # no change
    head.hears("client", resumed("v3"))
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("v3", "scripted")


def test_agents_for_now_replace_those_for_later() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2"))
    head.hears("client", resumed("v3", later=False))
    assert head.state.host_name == "v3"
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("v3", "scripted")


def test_a_model_alone_waits_too() -> None:
    head = in_an_ask()
    head.hears("client", Resumed(1, model=ModelSpec("new"), from_next_ask=True))
    assert head.state.model.name == "scripted"
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("host", "new")


def test_a_later_change_of_the_model_keeps_the_agents_that_wait() -> None:
    head = in_an_ask()
    head.hears("client", resumed("v2"))
    head.hears("client", Resumed(1, model=ModelSpec("new"), from_next_ask=True))
    head.hears("host", Finished("answered", "done"))
    assert next_begin(head) == ("v2", "new")


def test_without_an_ask_there_is_nothing_to_wait_for() -> None:
    head = SessionHarness().opens()
    head.hears("client", resumed("v2"))
    assert next_begin(head) == ("v2", "scripted")


def test_a_damaged_profile_changes_nothing() -> None:
    head = in_an_ask()
    before = head.state
    head.hears("client", Resumed(1, "v2", (Json(b"{}"),)))
    assert head.state == before


def test_the_rules_of_the_first_event_hold_for_the_whole_life_of_a_session() -> None:
    head = SessionHarness().opens()
    head.hears("client", Resumed(head.state.rules + 1))
    (post,) = head.asks()
    assert isinstance(post.body, Begin)
    assert post.body.rules == head.state.rules == RULES
