"""Tools that change: kept for later agents, passed to living ones, in one order for all."""

import msgspec

from callboard.actors.protocol.client_messages import Cancel, Resumed, ToolsChanged
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, ToolsGiven
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolsChange
from callboard.replay.testing.sessions.scenario import profile, tool_spec
from tests.actors.harness import SessionHarness, said
from tests.actors.supervisor.test_delegating import delegate, session

TOOLS = (tool_spec("find"), tool_spec("save", "write", "before"))


def sets(head: SessionHarness, sender: str = "client", **target: str) -> list[Post]:
    return head.hears(sender, ToolsChanged(ToolsChange(TOOLS, **target)))


def tools_of(post: Post) -> list[str]:
    assert isinstance(post.body, Begin)
    return [tool.name for tool in msgspec.json.decode(post.body.profile, type=Profile).tools]


def two() -> SessionHarness:
    return session(profile("kid", [], ["look"]), profile("other", [], ["look"]))


def test_a_change_of_a_profile_goes_to_its_running_agents_and_into_later_begins() -> None:
    head = two()
    for call, name in enumerate(("kid", "other", "kid")):
        delegate(head, name, call=call)
    head.ends("host.3")
    (given,) = sets(head, profile="kid")
    assert (given.recipient, given.body) == ("host.1", ToolsGiven(TOOLS))
    (begin,) = delegate(head, call=3)
    assert tools_of(begin) == ["find", "save"]
    (begin,) = delegate(head, "other", call=4)
    assert tools_of(begin) == ["look"]


def test_a_change_for_one_agent_leaves_its_profile_alone() -> None:
    head = two()
    delegate(head)
    delegate(head, call=1)
    assert [post.recipient for post in sets(head, address="host.2")] == ["host.2"]
    (begin,) = delegate(head, call=2)
    assert tools_of(begin) == ["look"]


def test_a_change_for_the_host_holds_in_later_asks_until_its_profile_changes() -> None:
    head = two()
    assert said(sets(head, address="host")) == ["host:ToolsGiven"]
    head.ends("host")
    (begin,) = head.asks(name="r2")
    assert tools_of(begin) == ["find", "save"]
    head.ends("host")
    head.hears("client", ToolsChanged(ToolsChange((), profile="host")))
    (begin,) = head.asks(name="r3")
    assert tools_of(begin) == []


def test_a_change_for_an_idle_host_is_kept() -> None:
    head = SessionHarness().opens()
    assert sets(head, address="host") == []
    (begin,) = head.asks()
    assert tools_of(begin) == ["find", "save"]


def test_a_change_for_what_is_not_there_changes_nothing() -> None:
    head = two()
    delegate(head)
    head.ends("host.1")
    before = head.state
    assert sets(head, address="host.1") == sets(head, address="host.9") == sets(head, profile="gone") == []
    assert head.state == before


def test_an_agent_may_set_tools_while_it_runs_and_hears_of_it_in_the_common_order() -> None:
    head = two()
    delegate(head)
    assert [post.recipient for post in sets(head, "host.1", profile="kid")] == ["host.1"]
    head.hears("client", Cancel())
    stopped = head.record("host.1")
    assert stopped is not None, "it has not drained"
    assert not stopped.is_running
    before, other = head.state, ToolsChanged(ToolsChange((), profile="kid"))
    assert head.hears("host.1", other) == head.hears("host.7", other) == []
    assert head.state == before


def test_a_resume_with_other_agents_ends_the_changes() -> None:
    head = two()
    sets(head, address="host")
    sets(head, profile="kid")
    raws = tuple(raw for _, raw in session(profile("kid", [], ["look"])).state.profiles.values())
    head.hears("client", Resumed(1, "host", raws, limits=Limits()))
    (begin,) = delegate(head)
    assert tools_of(begin) == ["look"]
    assert head.state.host_tools is None


def test_a_resume_without_agents_or_with_damaged_ones_keeps_the_changes() -> None:
    head = two()
    sets(head, address="host")
    sets(head, profile="kid")
    before = head.state
    for resumed in (Resumed(1), Resumed(1, "other", (Json(b"{"),), ModelSpec("new"))):
        head.hears("client", resumed)
        assert (head.state.host_tools, head.state.profiles) == (before.host_tools, before.profiles)
        assert (head.state.host_name, head.state.model) == (before.host_name, before.model)
