"""The view of a parent: its conversation up to the reply that delegates, however late one looks."""

from msgspec.structs import replace

from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.makers import NO_ORIGINS
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.port_messages import MakeContext
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.session.contexts import ContextRequest, delegate_of, view_of
from tests.actors.harness import AgentHarness
from tests.actors.supervisor.test_contexts import knowing, made
from tests.actors.supervisor.test_delegating import delegate

WANTED = MakeContext("host.1", 1, "kid", 9)


def seen(state: AgentState, request: Delegate | None) -> ContextRequest:
    view = view_of(state, request, WANTED)
    assert view is not None
    return view


def test_the_view_is_the_conversation_up_to_the_call_and_stays_so_when_it_grows() -> None:
    agent = AgentHarness()
    agent.begins(prompt="do it")
    (request,) = [one for one in agent.calls("task", "look") if isinstance(one, Delegate)]
    assert request.messages == 2
    view = seen(agent.state, request)
    assert (view.parent, view.parent_profile, view.profile) == ("host.1", "worker", "kid")
    assert view.prompt == "help"
    assert [one["role"] for one in view.conversation] == ["user", "assistant"]
    agent.hears(agent.returned(1))
    assert seen(agent.state, request).messages == view.messages
    longer = agent.state.history.append(text_json("a later message"))
    later = AgentState("host.1", prefix=agent.state.prefix, history=longer)
    assert seen(later, request).messages == view.messages


def test_a_view_has_all_that_a_context_may_depend_on() -> None:
    agent = AgentHarness()
    rights = (Layer("the session", Rights(Allowed(tools=("look",)))),)
    agent.hears(replace(agent.begin(), permissions=rights))
    (request, *_) = agent.calls("task")
    assert isinstance(request, Delegate)
    state = replace(agent.state, origins=NO_ORIGINS.put(1, ModelSpec("m").made_by))
    prefix = prefix_of(state)
    for turns in ("all", "any"):
        whose = replace(state, prefix=replace(prefix, profile=replace(prefix.profile, turns=turns)))
        view = seen(whose, replace(request, labels=("web",)))
        assert (view.labels, view.rights, view.origins) == (("web",), rights, state.origins)
        assert (view.system, view.is_program) == (prefix.system, turns == "any")


def test_there_is_no_view_of_an_agent_that_is_gone_or_has_forgotten_or_whose_delegation_has_ended() -> None:
    agent = AgentHarness()
    agent.begins()
    (request,) = [one for one in agent.calls("task") if isinstance(one, Delegate)]
    assert view_of(None, request, WANTED) is None
    assert view_of(AgentState("host.1", phase="idle"), request, WANTED) is None
    assert view_of(agent.state, None, WANTED) is None
    forgetful = AgentState("host.1", prefix=agent.state.prefix)
    assert view_of(forgetful, request, WANTED) is None


def test_the_delegate_is_found_until_the_delegation_begins() -> None:
    head = knowing()
    delegate(head, messages=4)
    wanted = MakeContext("host", 1, "kid", head.seq)
    found = delegate_of(head.state, wanted)
    assert found is not None
    assert found.messages == 4
    made(head)
    assert delegate_of(head.state, wanted) is None


def test_the_plain_view_is_the_view_itself() -> None:
    agent = AgentHarness()
    agent.begins(prompt="do it")
    (request,) = [one for one in agent.calls("task") if isinstance(one, Delegate)]
    view = seen(agent.state, request)
    assert view.plain is view
