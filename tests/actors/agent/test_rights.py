"""The gate: a call that permissions forbid is answered with the reason, whenever it comes to run."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.rights import labelled, labels_of_result
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.bundles import Allowed, Denied, LabelRule, Rights
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.layers import Layer, Layers
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate, ToolsGiven, TurnRequested
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolReturned
from callboard.actors.protocol.profiles import Profile, ToolSpec
from callboard.replay.testing.sessions.scenario import profile, program_profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Step, calls, reply_of, tool
from tests.actors.agent.test_program import heard
from tests.actors.harness import ARGUMENTS, AgentHarness, kinds
from tests.tables import table

NET = replace(tool_spec("fetch"), capabilities=("network",))
PAGE = replace(tool_spec("browse"), labels=("untrusted",))
PAY = replace(tool_spec("pay", "write", "always"), capabilities=("network",))
WHO = replace(
    profile("worker", ["helper"]), tools=(tool_spec("look"), tool_spec("save", "write"), NET, PAGE, PAY)
)
RULE: Layers = (Layer("the session", Rights(rules=(LabelRule("untrusted", "network"),))),)
ARGUMENTS.update(fetch={}, browse={})


def begun(
    layers: Layers, limits: Limits | None = None, labels: tuple[str, ...] = (), who: Profile = WHO
) -> AgentHarness:
    agent = AgentHarness()
    begin = agent.begin(who=who, limits=limits or Limits())
    agent.hears(replace(begin, permissions=layers, labels=labels))
    return agent


def last_results(agent: AgentHarness) -> list[str]:
    content = msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    return [str(block["content"]) for block in content]


def layer(by: str = "the session", allowed: Allowed | None = None, denied: Denied | None = None) -> Layers:
    return (Layer(by, Rights(allowed or Allowed(), denied or Denied())),)


def test_a_denied_tool_is_answered_with_the_holder_that_denies_it() -> None:
    agent = begun((*layer(), *layer("agent host", Allowed(tools=("look",)))))
    posted = agent.calls("look", "save")
    assert [body.tool for body in posted if isinstance(body, CallTool)] == ["look"]
    agent.hears(agent.returned(0))
    assert "tool 'save' is denied by agent host" in last_results(agent)[1]


def test_an_effect_and_a_capability_are_denied() -> None:
    agent = begun(
        (*layer(denied=Denied(capabilities=("network",))), *layer("agent a", Allowed(effects=("read",))))
    )
    agent.calls("look", "save", "fetch")
    agent.hears(agent.returned(0))
    _, save, fetch = last_results(agent)
    assert "effect 'write' is denied by agent a" in save
    assert "capability 'network' is denied by the session" in fetch


def test_no_person_is_asked_about_a_denied_call() -> None:
    posted = begun(layer(denied=Denied(tools=("pay",)))).calls("pay")
    assert kinds(posted) == ["TurnRequested"]


def test_calls_that_deny_everything_leave_an_agent_with_its_words() -> None:
    nothing = Allowed(
        tools=(), effects=(), capabilities=(), agents=(), models=(), read=(), write=(), hosts=()
    )
    agent = begun(layer(allowed=nothing))
    assert kinds(agent.calls("look", "save")) == ["TurnRequested"]
    posted = agent.calls("task")
    assert kinds(posted) == ["Delegate"]  # the supervisor denies it


def test_a_label_denies_a_capability_from_then_on() -> None:
    agent = begun(RULE)
    assert kinds(agent.calls("fetch", "browse")) == ["CallTool", "CallTool", "TurnSettled"]
    agent.hears(agent.returned(0))
    posted = agent.hears(agent.returned(1))
    assert [body.labels for body in posted if isinstance(body, TurnRequested)] == [("untrusted",)]
    posted = agent.calls("fetch", "look")
    assert [(body.tool, body.labels) for body in posted if isinstance(body, CallTool)] == [
        ("look", ("untrusted",))
    ]
    agent.hears(agent.returned(1))
    assert "denied by the session once the label 'untrusted' was read" in last_results(agent)[0]
    (post,) = agent.last
    assert isinstance(post.body, TurnRequested)
    assert post.body.labels == ()


def test_a_call_that_waits_for_a_place_is_checked_when_it_runs() -> None:
    agent = begun(RULE, Limits(max_parallel_tools=1))
    assert kinds(agent.calls("browse", "fetch", "look")) == ["CallTool", "TurnSettled"]
    posted = agent.hears(agent.returned(0))
    assert [body.tool for body in posted if isinstance(body, CallTool)] == ["look"]
    assert kinds(agent.hears(agent.returned(2))) == ["TurnRequested"]


def test_the_last_waiting_calls_are_all_refused_and_the_turn_goes_on() -> None:
    agent = begun(RULE, Limits(max_parallel_tools=1))
    agent.calls("browse", "fetch", "fetch")
    assert kinds(agent.hears(agent.returned(0))) == ["TurnRequested"]
    assert [("denied" in one) for one in last_results(agent)] == [False, True, True]


def test_an_approved_call_is_checked_when_it_runs() -> None:
    agent = begun(RULE)
    posted = agent.calls("browse", "pay")
    assert [type(body) for body in posted[:2]] == [CallTool, RequestApproval]
    agent.hears(agent.returned(0))
    assert kinds(agent.hears(ApprovalGiven(1, 1, "approved"))) == ["TurnRequested"]
    assert "untrusted" in last_results(agent)[1]


def test_the_labels_of_a_person_and_of_a_result_count() -> None:
    agent = begun(RULE)
    agent.calls("pay", "fetch", "look")
    posted = agent.hears(ApprovalGiven(1, 0, "approved", labels=("untrusted",)))
    assert posted == []  # the call that brought the label may not run either
    agent = begun(RULE)
    agent.calls("look")
    agent.hears(replace(agent.returned(0), labels=("untrusted",)))
    assert kinds(agent.calls("fetch")) == ["TurnRequested"]


def test_labels_come_with_begin_and_go_with_delegate() -> None:
    agent = begun(RULE, labels=("untrusted",))
    posted = agent.calls("fetch", "task")
    (delegate,) = [body for body in posted if isinstance(body, Delegate)]
    assert delegate.labels == ("untrusted",)


def test_changed_tools_have_no_more_rights() -> None:
    agent = begun(layer(denied=Denied(capabilities=("network",))))
    other = ToolSpec("look", "look", text_json(""), "read", capabilities=("network",))
    agent.hears(ToolsGiven((other,)))
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert kinds(agent.reads(calls(("look", {})))) == ["TurnRequested"]


def test_a_program_hears_a_refusal_at_once_and_after_a_wait() -> None:
    who = replace(program_profile("p"), tools=(tool_spec("look"), NET, PAGE))
    agent = begun(RULE, Limits(max_parallel_tools=1), who=who)
    asks = (tool("a", "browse"), tool("b", "fetch"), tool("c", "fetch"))
    assert kinds(agent.reads(reply_of(Step(asks), 1))) == ["CallTool"]
    assert kinds(agent.hears(agent.returned(0))) == ["TurnRequested"]
    assert heard(agent) == [("a", "ok"), ("b", "error"), ("c", "error")]
    assert kinds(agent.reads(reply_of(Step((tool("d", "fetch"),)), 2))) == ["RunStep"]
    assert heard(agent) == [("d", "error")]


def test_a_program_that_has_given_up_a_call_is_not_labelled_by_it() -> None:
    who = replace(program_profile("p"), tools=(tool_spec("look"), NET, PAGE))
    agent = begun(RULE, who=who)
    agent.reads(reply_of(Step((tool("a", "browse"), tool("b", "look"))), 1))
    agent.hears(agent.returned(1))
    agent.reads(reply_of(Step((tool("c", "look"),), None, ("a",)), 2))
    agent.hears(ToolReturned(1, 0, "ok", text_json("page")))
    assert agent.state.labels == ()


(LOOK,) = profile("kid", [], ["look"]).tools
SECRET = replace(LOOK, labels=("secret",))


@pytest.mark.parametrize(
    ("read", "labels", "new"),
    [
        ((), ("b", "d"), ("d",)),
        (("b",), ("b", "d"), ("d",)),
        (("a",), ("a", "b", "d"), ("a", "d")),
        (("e", "b", "c"), ("b", "c", "d", "e"), ("c", "d", "e")),
    ],
)
def test_what_an_agent_reads_labels_it_and_only_new_labels_are_to_be_told(
    read: Labels, labels: Labels, new: Labels
) -> None:
    state = AgentState("host", labels=("b", "d"), new_labels=("d",))
    after = labelled(state, read)
    assert (after.labels, after.new_labels) == (labels, new)
    assert (after is state) == (labels == state.labels)


@table(
    ("spec", "stated", "labels"),
    [
        (None, (), ()),
        (None, ("b",), ("b",)),
        (LOOK, ("b",), ("b",)),
        (SECRET, (), ("secret",)),
        (SECRET, ("b",), ("b", "secret")),
    ],
)
def test_a_result_has_the_labels_of_its_tool_and_its_own(
    spec: ToolSpec | None, stated: Labels, labels: Labels
) -> None:
    use = ToolUse("t1", "look", NULL, spec=spec)
    assert labels_of_result(use, ToolReturned(1, 0, "ok", NULL, labels=stated)) == labels
