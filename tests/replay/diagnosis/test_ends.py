import msgspec

from callboard.actors.protocol.limits import Limits
from callboard.replay.diagnosis.finding import Finding
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Step, call, calls, say
from tests.replay.diagnosis.user_stories import told


class _Lookup(msgspec.Struct):
    query: str


_finder = Agent("finder", description="Finds.", input=_Lookup)


def _found(host: Agent, *replies: Step, **below: list[Step]) -> list[Finding]:
    script = {"host": list(replies)} | {name.replace("_", "."): steps for name, steps in below.items()}
    return told(host, "Find it.", script).diagnose()


def test_a_denied_delegation_that_was_put_right_in_a_later_turn_is_no_finding() -> None:
    host = Agent("host", agents=[_finder])
    replies = (call("finder", query=5), call("finder", query="invoices"), say("Two."))
    assert _found(host, *replies, host_2=[say("Two.")]) == []


def test_a_denied_delegation_is_found_with_its_problems_and_is_no_limit() -> None:
    host = Agent("host", agents=[_finder])
    (found,) = _found(host, call("finder", query=5), say("None."))
    assert found.says.startswith("the ask ended well, but host.1 failed below it (denied): ")
    assert found.says.endswith("(/query: must be string, got 5)")


_OK: dict[str, object] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"ok": {"const": True}},
}


def test_a_sibling_of_a_denied_delegation_has_not_done_its_work() -> None:
    host = Agent("host", agents=[Agent("clerk")], limits=Limits(max_agents=2))
    both = calls(*(call("task", agent="clerk", prompt=f"Sort shelf {n}.") for n in (1, 2)))
    (found,) = _found(host, both, say("Sorted."), host_1=[say("Sorted.")])
    assert (found.agent, "at most 2 agents" in found.says) == ("host.2", True)


def test_of_an_ask_that_fails_the_denied_delegation_is_named_and_no_agent_that_ended() -> None:
    host = Agent("host", agents=[_finder], limits=Limits(max_iterations=1))
    says = [one.says for one in _found(host, call("finder", query=5))]
    assert any(
        one.startswith("a delegation of host to finder was denied: the input does not") for one in says
    )
    assert not any("ended at a limit (denied)" in one for one in says)


def test_a_refused_report_is_told_where_no_other_followed() -> None:
    task = call("task", agent="finder", prompt="Find it.", output_schema=_OK)
    for given, why in (
        ([call("report_back", ok=True, more=1)], "stopped after a report that was refused: /: "),
        ([], "stopped without giving the report it was asked for"),
    ):
        below: list[Step] = [*given, say("Stopped."), say("Stopped.")]
        (found,) = _found(Agent("host", agents=[Agent("finder")]), task, say("None."), host_1=below)
        assert found.says.startswith(f"the ask ended well, but host.1 failed below it (no_report): {why}")
