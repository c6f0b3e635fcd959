"""The public face of the testing kit: agents, policies and tools as users write them."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Limits, ScriptedModel, Tool, ToolContext, call, calls, fail, say, tool
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.port_messages import RequestApproval, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.simulated_ports import Approver
from callboard.replay.testing.schedule import BadSchedule
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.models.protocol import ModelAnswer
from callboard.runtime.models.scripted import Policy as ScriptedPolicy
from callboard.runtime.models.scripted import Step
from callboard.runtime.tools.sources import LiveSource, ToolSource
from callboard.testing import (
    BrokenRules,
    Faults,
    Scenario,
    SessionWorld,
    Simulation,
    always,
    at_rest,
    check_log,
    explore,
    simulate,
    sometimes,
)
from tests.tables import table

SCHEMA: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
RAN: list[str] = []


@tool(effect="read")
def look(path: str) -> str:
    """Read the contents of a path."""
    return f"contents of {path}"


@tool(effect="read")
async def peek(path: str, ctx: ToolContext) -> str:
    """Read the contents of a path as a coroutine."""
    return f"{ctx.address} sees {path}"


@tool
def save(text: str) -> str:
    """Keep a text: never run in a simulation, unless a fake stands in."""
    RAN.append(text)
    return "saved"


HOST = Agent(
    "host", tools=[save], agents=[Agent("counter", tools=[look, peek]), Agent("talker", description="Talks.")]
)


def policy(request: ModelRequest) -> Step:
    """Delegate to two children, one of which reports wrongly first; call a tool that acts on the world."""
    turn = request.turn
    if request.profile == "host":
        asked = call("task", agent="counter", prompt="count", output_schema=SCHEMA)
        both = calls(asked, call("task", agent="talker", prompt="talk"), call("save", text="x"))
        return both if turn == 1 else say("Both have answered.")
    if request.profile == "counter":
        if turn == 1:
            return calls(call("look", path="a"), call("peek", path="b"), call("look", wrong=1))
        return call("report_back", n="one") if turn == 2 else call("report_back", n=1)
    return "I talk."


def outputs(found: Any) -> list[str]:
    return [bytes(one.output).decode() for one in found.world.of(ToolReturned)]


def test_a_simulation_runs_agents_with_real_schemas_and_real_read_tools() -> None:
    found = simulate(HOST, policy, "What is here?")
    assert (found.outcome.kind, found.outcome.text) == ("answered", "Both have answered.")
    assert found.breaches == []
    found.verify().check()
    assert {'"contents of a"', '"host.1 sees b"'} <= set(outputs(found))
    assert any("Expected" in text or "missing" in text or "wrong" in text for text in outputs(found))
    assert any("was not run: this is a simulation" in text for text in outputs(found))
    assert RAN == []


def test_a_fake_stands_in_for_a_tool_and_may_raise() -> None:
    kept: list[str] = []

    def fake(text: str) -> str:
        kept.append(text)
        return "kept"

    assert '"kept"' in outputs(simulate(HOST, policy, tools={"save": fake}))
    assert kept == ["x"]

    def broken(text: str) -> str:
        raise OSError("disk full")

    assert any("disk full" in text for text in outputs(simulate(HOST, policy, tools={"save": broken})))
    with pytest.raises(MisuseError, match="no agent has a tool 'nonsense'; tools: look, peek, save"):
        simulate(HOST, policy, tools={"nonsense": fake})


def test_tools_of_a_server_are_given_and_never_left_out_in_silence() -> None:
    class Rates(ToolSource):
        label = "rates"

        def live(self) -> LiveSource:
            raise AssertionError("no server is asked")

        def secrets(self) -> Mapping[str, str]:
            return {}

    @tool
    def rate(pair: str, ctx: ToolContext) -> str:
        """Tell a rate."""
        return f"{ctx.address}: {pair} at 1.08"

    clerk = Agent("clerk", tools=[Rates()])
    host = Agent("host", agents=[clerk, Agent("other")])
    tasks = [call("task", agent=name, prompt="Find it.") for name in ("clerk", "other")]
    script: dict[str, list[Step]] = {
        "host": [calls(*tasks), say("x")],
        "clerk": [call("rate", pair="EURUSD"), say("done")],
        "other": [call("rate", pair="EURUSD"), say("done")],
    }
    with pytest.raises(MisuseError, match=r"agent 'clerk' has the tools of 'rates'.*tools=\{NAME"):
        explore(host, script, runs=1)
    plain = Tool("rate", "Tell a rate.", {"type": "object"}, lambda arguments: f"given {arguments['pair']}")
    for given, said in ((rate, '"host.1: EURUSD at 1.08"'), (plain, '"given EURUSD"')):
        run = simulate(host, script, tools={"rate": given})
        assert outputs(run) == [said]
        assert [(one.address, one.tool) for one in run.world.effects] == [("host.1", "rate")]
    assert outputs(simulate(host, script, tools={})) == []
    with pytest.raises(MisuseError, match="no agent has a tool 'rate'"):
        simulate(host, script, tools={"rate": lambda pair: 1})
    # A tool as a fake of an agent's own one is in its place: the agent's function does not run.
    found = simulate(HOST, [call("save", text="kept"), say("x")], tools={"save": tool(name="save")(_instead)})
    assert (outputs(found), "kept" in RAN) == (['"not kept"'], False)


def _instead(text: str) -> str:
    """Say what was not kept."""
    return f"not {text}"


def test_a_schedule_makes_the_same_run_again() -> None:
    scenario = Scenario(HOST, policy, "What is here?")
    first = scenario.simulate(seed=5)
    again = scenario.simulate(first.text)
    assert again.events == first.events
    assert scenario.simulate(seed=6).events != first.events
    with pytest.raises(BadSchedule, match="of scenario"):
        Scenario(HOST, policy, "Something else").simulate(first.text)


def test_a_simulation_is_saved_as_a_recording_that_every_tool_opens(tmp_path: Path) -> None:
    found = simulate(HOST, policy)
    found.save(tmp_path / "log.db", "s1")
    recording = Recording.open(tmp_path / "log.db", "s1")
    assert list(recording.events) == found.events
    assert recording.verify().is_ok
    assert check_log(recording.events, is_at_rest=True) == []


def test_a_simulation_shows_itself_as_a_chart() -> None:
    text = str(simulate(HOST, policy))
    assert "supervisor" in text
    assert "Delegate to counter: coun" in text
    assert 'tool save {"text":"x"}' in text


def test_scripts_models_and_agents_with_models_of_their_own_work_alike() -> None:
    assert simulate(Agent("a"), ["hello"]).outcome.text == "hello"
    assert simulate(Agent("a"), {"a": [fail(), "hello"]}).outcome.text == "hello"
    assert simulate(Agent("a"), ScriptedModel(["hi"])).outcome.text == "hi"
    assert simulate(Agent("a", model=ScriptedModel(["own"]))).outcome.text == "own"
    several = Agent("a", agents=[Agent("b", model=ScriptedModel(["from b"], name="other"))])
    found = simulate(several, {"a": [call("task", agent="b", prompt="x"), "done"]})
    assert b"from b" in bytes(found.world.asked[max(found.world.asked)].messages[-1])


def test_an_async_policy_that_never_waits_is_taken_and_one_that_waits_is_refused() -> None:
    async def ready(request: ModelRequest) -> Step:
        return "at once"

    assert simulate(Agent("a"), ready).outcome.text == "at once"

    @dataclass
    class Never:
        def __await__(self) -> Any:
            yield self

    async def waits(request: ModelRequest) -> Step:
        await Never()
        return "too late"

    with pytest.raises(MisuseError, match="waits for something; a simulation has no time"):
        simulate(Agent("a"), waits)

    def gives(request: ModelRequest) -> Awaitable[Step]:
        return Never()

    with pytest.raises(MisuseError, match="a simulation has no time"):
        simulate(Agent("a"), gives)


def test_a_tool_that_waits_is_refused_and_told_to_be_faked() -> None:
    @tool(effect="read")
    async def fetch(url: str) -> str:
        """Fetch a page."""
        await asyncio.sleep(0.01)
        return "page"

    @tool(effect="read")
    async def wrapped(url: str) -> str:
        """Fetch a page, and say more of what fails."""
        try:
            await asyncio.sleep(0.01)
        except RuntimeError as error:
            raise RuntimeError("not fetched") from error
        return "page"

    @tool(effect="read")
    async def broken(url: str) -> str:
        """Fail with an error of its own."""
        raise RuntimeError("no such page")

    agent = Agent("a", tools=[fetch, wrapped, broken])
    for name in ("fetch", "wrapped"):
        with pytest.raises(
            MisuseError, match=f"tool {name} waits .* give a fake, tools=.'{name}': a function"
        ):
            simulate(agent, [call(name, url="x"), "done"])
    assert outputs(simulate(agent, [call("broken", url="x"), "done"])) == ['"RuntimeError: no such page"']
    assert (
        simulate(agent, [call("fetch", url="x"), "ok"], tools={"fetch": lambda url: "p"}).outcome.text == "ok"
    )


def test_a_policy_that_waits_for_asyncio_is_refused() -> None:
    async def waits(request: ModelRequest) -> Step:
        await asyncio.sleep(0.01)
        return "too late"

    with pytest.raises(MisuseError, match=r"the model waits .* give a policy that answers at once"):
        simulate(Agent("a"), waits)


def test_a_fake_that_is_no_function_is_refused_when_the_scenario_is_made() -> None:
    with pytest.raises(MisuseError, match="the fake of tool 'save' is 3: give a fake"):
        Scenario(HOST, policy, tools={"save": 3})  # type: ignore[dict-item]  # the type error under test


def test_a_simulation_without_a_policy_is_refused() -> None:
    with pytest.raises(MisuseError, match="no policy for 'a'"):
        simulate(Agent("a"))


def test_a_person_is_asked_and_may_say_no() -> None:
    @tool(approval="before")
    def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    asked: list[str] = []

    def approve(address: str, request: RequestApproval) -> bool | str:
        asked.append(f"{address} {request.tool}")
        return "too much"

    script: list[Step | ScriptedPolicy | Sequence[Step | ScriptedPolicy]] = [call("pay", euros=5), "done"]
    found = simulate(Agent("a", tools=[pay]), script, approve=approve)
    assert asked == ["host pay"]
    assert any(
        "too much" in str(message) for one in found.world.asked.values() for message in one.conversation
    )
    paid = simulate(Agent("a", tools=[pay]), script, tools={"pay": lambda euros: f"paid {euros}"})
    assert outputs(paid) == ['"paid 5"']


def test_a_person_may_change_the_arguments() -> None:
    @tool(approval="before")
    def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    def approve(address: str, request: RequestApproval) -> ApprovalAnswer:
        return ApprovalAnswer(True, by="ann", arguments={"euros": 3}, is_always=True)

    script: list[Step | ScriptedPolicy | Sequence[Step | ScriptedPolicy]] = [
        call("pay", euros=5),
        call("pay", euros=6),
        "done",
    ]
    fakes = {"pay": lambda euros: f"paid {euros}"}
    found = simulate(Agent("a", tools=[pay]), script, tools=fakes, approve=approve)
    assert outputs(found) == ['"paid 3"', '"paid 6"'], "the second call is covered, as it was made"


def test_an_async_person_is_asked_too_and_one_who_waits_is_refused() -> None:
    @tool(approval="before")
    def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    async def kind(address: str, request: RequestApproval) -> bool:
        return True

    async def slow(address: str, request: RequestApproval) -> bool:
        await asyncio.sleep(0.01)
        return True

    def asked(approve: Approver) -> Simulation:
        script: list[Step | ScriptedPolicy | Sequence[Step | ScriptedPolicy]] = [call("pay", euros=5), "done"]
        return simulate(Agent("a", tools=[pay]), script, tools={"pay": lambda euros: "paid"}, approve=approve)

    assert outputs(asked(kind)) == ['"paid"']
    with pytest.raises(MisuseError, match=r"approve waits for something.*a function that answers at once"):
        asked(slow)


def test_several_prompts_are_asked_one_after_the_other() -> None:
    def counts(request: ModelRequest) -> Step:
        return f"answer {request.turn}"

    found = Scenario(Agent("a"), counts, ["one", "two"], closes=True).simulate()
    assert [outcome.text for outcome in found.outcomes] == ["answer 1", "answer 2"]
    assert found.outcome.request_id == "r2"


# --- campaigns ------------------------------------------------------------------------


def test_a_campaign_of_good_agents_finds_nothing_and_says_how_much_it_tried() -> None:
    found = explore(HOST, policy, runs=40)
    assert found.is_ok
    found.check()
    assert "40 runs" in str(found)
    with pytest.raises(MisuseError, match="nothing to replay"):
        found.replay()


@pytest.mark.slow
def test_a_campaign_with_all_faults_finds_nothing() -> None:
    found = explore(HOST, policy, runs=150, faults="all", limits=Limits(tokens=200_000))
    assert any(name.startswith("fault: ") for name in found.explored.figures.faults)


def test_a_run_and_an_example_name_their_fault_mix_in_words() -> None:
    scenario = Scenario(
        HOST, policy, faults="all", monitors=[always("Nobody saves.", lambda w: not w.effects)]
    )
    one = scenario.simulate(seed=5)
    assert one.world.fault_mix is not None
    assert str(one.world.fault_mix) in one.lines()
    found = scenario.explore(runs=50, check=False)
    (example,) = found.counterexamples
    (number,) = [strand.split()[-1] for strand in example.found.strands if strand.startswith("fault mix ")]
    assert example.conditions == str(scenario.pure.faults.fault_mix(int(number)))
    assert f"found in {example.conditions}" in str(found)


def test_figures_name_the_faults_without_repeating_the_word() -> None:
    told = str(explore(HOST, policy, runs=30, faults=["raises"]))
    assert "faults: raises " in told


def test_one_of_a_thing_is_told_in_the_singular() -> None:
    told = str(explore(Agent("a"), ["hello"], runs=1))
    assert told.startswith("1 run ")
    assert "1 partial order, 1 end state of 1 run at rest" in told


def test_a_rule_of_ones_own_that_does_not_hold_is_found_shrunk_and_replayed() -> None:
    def nobody_saves(world: Any) -> bool:
        return not any(effect.tool == "save" for effect in world.effects)

    rule = "Nobody saves before the counter has reported."
    with pytest.raises(BrokenRules, match="Nobody saves before") as raised:
        explore(HOST, policy, runs=50, monitors=[always(rule, nobody_saves)])
    found = raised.value.report
    assert not found.is_ok
    again = found.replay()
    assert any(effect.tool == "save" for effect in again.world.effects)
    assert len(again.schedule.strands) <= 12, "nothing that it does not need"


def test_a_run_names_the_rules_of_ones_own_that_it_breaks_with_any_monitors() -> None:
    saves = always("Nobody saves.", lambda world: not world.effects)
    begins = always("Nobody begins.", lambda world: len(world.log) < 4)
    ends = at_rest("It never ends.", lambda world: False)
    found = Scenario(HOST, policy, monitors=[saves]).explore(runs=50, check=False)
    (example,) = found.counterexamples
    more = simulate(HOST, policy, monitors=[begins, saves, ends], schedule=example.text)
    assert [one.rule for one in more.violations] == ["Nobody begins.", "Nobody saves."]
    assert example.violation in more.violations, "at the same step"
    assert more.events == found.replay().events
    assert f"broken after step {example.violation.at}: Nobody saves." in more.lines()
    assert any(line.startswith(f"{example.violation.at:>3}*") for line in more.lines())
    fewer = simulate(HOST, policy, schedule=example.text)
    assert fewer.events == more.events
    assert (fewer.violations, fewer.breaches) == ((), more.breaches)
    assert simulate(HOST, policy, monitors=[ends]).violations[0].rule == "It never ends."


@pytest.mark.slow
def test_schedules_with_faults_stay_valid_when_monitors_come_and_go() -> None:
    rules = {
        "early": always("It has not begun.", lambda world: len(world.log) < 6),
        "late": always("Nobody saves.", lambda world: not world.effects),
        "end": at_rest("It never ends.", lambda world: False),
        "goal": sometimes("A dream comes true.", lambda world: False),
    }
    scenarios = {name: Scenario(HOST, policy, faults="all", monitors=[rule]) for name, rule in rules.items()}
    scenarios["none"] = Scenario(HOST, policy, faults="all")
    scenarios["all"] = Scenario(HOST, policy, faults="all", monitors=[*rules.values()])
    for name, rule in rules.items():
        found = scenarios[name].explore(runs=20, seed=1, steps=30, check=False)
        for example in found.counterexamples:
            runs = {other: scenario.simulate(example.text) for other, scenario in scenarios.items()}
            assert all(run.events == runs[name].events for run in runs.values()), name
            assert example.violation in runs[name].violations
            assert example.violation in runs["all"].violations, rule
            assert runs["none"].violations == ()


def test_a_goal_that_no_run_reaches_fails_the_campaign() -> None:
    never = sometimes("a child is cancelled", lambda world: False)
    with pytest.raises(BrokenRules, match="never reached: a child is cancelled"):
        explore(HOST, policy, runs=20, monitors=[never])


def test_faults_may_be_named_or_given() -> None:
    for given in ("crash", ["crash", "cancel"], Faults(frozenset({"crash"}))):
        assert "crash" in Scenario(HOST, policy, faults=given).pure.faults.kinds
    assert Scenario(HOST, policy, faults=None).pure.faults.kinds == frozenset()
    with pytest.raises(MisuseError, match="there is no fault 'nonsense'"):
        Scenario(HOST, policy, faults="nonsense")


@table(
    ("given", "said"),
    [
        ({"monitors": always("x", lambda world: True)}, r"give a list, \[always"),
        ({"monitors": "x"}, r"give a list, \[always"),
        ({"monitors": ["x"]}, r"monitors has 'x': a rule is always\(sentence"),
        ({"monitors": [lambda world: True]}, "monitors has <function"),
        ({"faults": True}, 'faults=True: give "all", a list of kinds'),
        ({"faults": 3}, "faults=3: give"),
        ({"prompt": 42}, "prompt=42: give a text"),
        ({"prompt": None}, "prompt=None: give a text"),
        ({"prompt": []}, r"prompt=\[\]: give a text"),
        ({"prompt": [3]}, "a prompt is a text"),
        ({"agent": "host"}, r"agent='host': give the host, an Agent\("),
        ({"approve": 3}, "approve=3: give a function"),
    ],
)
def test_a_scenario_of_wrong_values_names_the_right_ones_where_it_is_made(
    given: dict[str, Any], said: str
) -> None:
    arguments: dict[str, Any] = {"agent": HOST, "policy": policy, **given}
    with pytest.raises(MisuseError, match=said):
        Scenario(**arguments)


@pytest.mark.parametrize("scheduler", [None, 3])
def test_an_unknown_scheduler_is_refused(scheduler: Any) -> None:
    with pytest.raises(MisuseError, match=f"scheduler={scheduler}: give a name"):
        explore(HOST, policy, runs=1, scheduler=scheduler)


class Broken:
    """A model whose code raises."""

    spec = ScriptedModel(["x"]).spec

    async def call(self, request: ModelRequest, on_text: object) -> ModelAnswer:
        raise OSError("disk full")

    async def aclose(self) -> None:
        return


def test_user_code_that_raises_is_named_with_file_and_line() -> None:
    def broken(request: ModelRequest) -> Step:
        raise LookupError("no such plan")

    line = broken.__code__.co_firstlineno + 1
    for run in (simulate, explore):
        with pytest.raises(
            MisuseError, match=rf"LookupError: no such plan \(test_testing.py:{line} in broken\)"
        ):
            run(HOST, broken)
    found = simulate(HOST, Broken())
    line = Broken.call.__code__.co_firstlineno + 1
    why = f"model_crashed: OSError: disk full (test_testing.py:{line} in call)"
    assert (found.outcome.kind, found.outcome.detail) == ("model_error", why)
    assert any(why in text for text in found.lines(200))


def test_a_fake_that_raises_leaves_its_traceback_in_the_log() -> None:
    def fake(text: str) -> str:
        raise OSError("disk full")

    (returned,) = simulate(
        Agent("a", tools=[save]), [call("save", text="x"), "done"], tools={"save": fake}
    ).world.of(ToolReturned)
    assert f", line {fake.__code__.co_firstlineno + 1}, in fake" in returned.trace
    assert "test_testing.py" in returned.trace
    assert "replay/testing" not in returned.trace


# --- the face -------------------------------------------------------------------------


@pytest.mark.slow
def test_importing_the_kit_loads_neither_hypothesis_nor_the_schema_library() -> None:
    script = "import sys, callboard.testing; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert not loaded & {"hypothesis", "jsonschema", "anthropic", "pykka"}


def test_a_goal_that_one_campaign_reached_is_open_again_in_the_next() -> None:
    scenario = Scenario(HOST, policy, monitors=[sometimes("it starts", lambda world: True)])
    assert scenario.explore(runs=2).is_ok
    goal = scenario.monitors[0]
    assert goal is not scenario()[1][-1]
    assert goal.is_met is False


def test_a_rule_that_is_broken_before_the_first_step_is_told_and_replays() -> None:
    rule = always("never", lambda world: False)
    found = explore(Agent("host"), lambda request: say("done"), monitors=[rule], runs=5, check=False)
    assert [one.violation.rule for one in found.counterexamples] == ["never"]
    assert str(found).startswith("broken before the first step: never\nNothing had happened yet")
    assert found.replay().schedule.strands == ()


@pytest.mark.parametrize("kind", [always, sometimes])
def test_a_rule_that_raises_is_no_counterexample_but_an_error(kind: Any) -> None:
    def raises(world: SessionWorld) -> bool:
        raise LookupError(f"{len(world.log)} events, and none of them")

    with pytest.raises(MisuseError, match="the rule 'raises' itself is wrong: it raised LookupError"):
        explore(Agent("host"), lambda request: say("done"), monitors=[kind("raises", raises)], runs=5)


def test_a_session_without_end_is_told_and_may_have_more_steps() -> None:
    busy = Agent("host", tools=[look])

    def long(request: ModelRequest) -> Step:
        return call("look", path="x") if request.turn < 8 else say("done")

    with pytest.raises(BrokenRules, match="no run came to rest") as raised:
        explore(busy, long, runs=3, steps=2)
    assert not raised.value.report.is_ok
    assert explore(busy, long, runs=3, steps=20).is_ok


def test_a_rule_reads_the_arguments_of_the_tools_that_have_run() -> None:
    host = Agent("host", tools=[look])
    model = ScriptedModel([calls(call("look", path="a"), call("look", path="b")), say("done")])
    effects = simulate(host, model, "go").world.effects
    assert sorted(effect.arguments["path"] for effect in effects) == ["a", "b"]
