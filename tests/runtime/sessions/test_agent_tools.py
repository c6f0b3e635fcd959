"""Agents as tools, live: inputs, presets, instances, folded failures, and the same after a resume."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard import (
    Agent,
    Brief,
    Limits,
    ProgramContext,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    calls,
    program,
    say,
    tool,
)
from callboard.actors.protocol.errors import (
    DelegationFailed,
    InvalidAgent,
    InvalidPrompt,
    MisuseError,
    SessionNotFound,
)
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.models import ModelFailure
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryLog


class Lookup(msgspec.Struct):
    tenant: str
    query: str
    depth: int = 3


class Number(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        if self.n == 13:
            raise ValueError("13 brings bad luck")


def results(request: Any) -> list[Any]:
    """Return the results of tools in the last message of a request."""
    message = msgspec.json.decode(request.messages[-1])
    return [block["content"] for block in message["content"] if block["type"] == "tool_result"]


def run(host: Agent, policy: Any, **options: Any) -> Any:
    """Run a host on a new log with this policy for all agents."""
    return Runtime(MemoryLog(), model=ScriptedModel(policy)).run_sync(host, "go", **options)


FINDER = Agent("finder", description="Finds.", input=Lookup).preset(tenant="acme")


def test_right_and_wrong_inputs_of_one_turn() -> None:
    heard: list[Any] = []
    prompts: list[str] = []

    def policy(request: Any) -> Any:
        if request.profile == "finder":
            prompts.append(msgspec.json.decode(request.messages[0])["content"])
            return say("found")
        if request.turn == 1:
            wrong = call("finder", query=1), call("finder", query="q", tenant="other"), call("finder")
            return calls(call("finder", query="q"), *wrong)
        heard.extend(results(request))
        return say("done")

    outcome = run(Agent("host", agents=[FINDER]), policy)
    assert [msgspec.json.decode(text) for text in prompts] == [{"tenant": "acme", "query": "q", "depth": 3}]
    assert heard[0] == "found"
    wrong = [msgspec.json.decode(text) for text in heard[1:]]
    assert [(one["status"], one["reason"]) for one in wrong] == [("invalid_input", "denied")] * 3
    assert ["query" in one["problems"][0] or "tenant" in one["problems"][0] for one in wrong] == [True] * 3
    assert [one.kind for one in outcome.delegations].count("denied") == 3
    assert outcome.delegations[0].metadata is not None
    assert {one.metadata["response"] for one in outcome.delegations} == {"ok", "invalid_input"}


def test_a_failure_is_folded_for_the_model_and_true_elsewhere() -> None:
    heard: list[Any] = []

    def policy(request: Any) -> Any:
        if request.profile == "finder":
            return call("nothing")
        if request.turn == 1:
            return call("finder", query="q")
        heard.extend(results(request))
        return say("done")

    finder = Agent("finder", input=Lookup, limits=Limits(max_iterations=1)).preset(tenant="acme")
    outcome = run(Agent("host", agents=[finder]), policy)
    said = msgspec.json.decode(heard[0])
    assert (said["status"], said["reason"]) == ("unavailable", "iteration_cap")
    (end,) = outcome.delegations
    assert end.kind == "iteration_cap"
    assert end.metadata == {
        "subagent": "finder",
        "supervisor": "host",
        "response": "unavailable",
        "delegation_context": "",
    }
    assert "supervisor" not in heard[0], "no model reads the metadata"


@pytest.mark.parametrize("is_capped", [False, True])
def test_a_task_call_ends_with_metadata_that_no_model_reads(is_capped: bool) -> None:
    seen: list[str] = []

    def policy(request: Any) -> Any:
        seen.append(repr((request.system, *request.messages)))
        if request.profile == "kid":
            return call("nothing") if is_capped else say("found")
        return call("task", agent="kid", prompt="p") if request.turn == 1 else say(results(request)[0])

    kid = Agent("kid", limits=Limits(max_iterations=1), context=Brief())
    outcome = run(Agent("host", agents=[kid]), policy)
    assert outcome.delegations[0].metadata == {
        "subagent": "kid",
        "supervisor": "host",
        "response": "error" if is_capped else "ok",
        "delegation_context": repr(Brief()),
    }
    assert outcome.text == "found" or "status" not in outcome.text, "a failure by `task` stays a text"
    assert not any("supervisor" in request or "Brief(" in request for request in seen)


def test_a_validator_refuses_an_input_with_its_own_words() -> None:
    heard: list[Any] = []

    def policy(request: Any) -> Any:
        if request.profile == "worker":
            return say("ok")
        if request.turn == 1:
            return calls(call("worker", n=13), call("worker", n=1))
        heard.extend(results(request))
        return say("done")

    run(Agent("host", agents=[Agent("worker", input=Number)]), policy)
    assert "13 brings bad luck" in heard[0]
    assert heard[1] == "ok"


def test_a_field_of_the_contract_may_hold_the_schema_of_the_report() -> None:
    class Ask(msgspec.Struct):
        query: str
        form: dict[str, Any] | None = None

    def policy(request: Any) -> Any:
        if request.profile == "typed":
            return call("report_back", value=5) if request.turn == 1 else say("?")
        if request.turn == 1:
            return call("typed", query="q", form={"type": "integer"})
        return say(results(request)[0])

    typed = Agent("typed", input=Ask, output_schema_arg="form")
    assert run(Agent("host", agents=[typed]), policy).text == "5"


# --- programs -----------------------------------------------------------------------


@program(input=Number)
async def double(ctx: ProgramContext, number: Number) -> int:
    """Double a number."""
    return number.n * 2


def test_a_program_reads_the_typed_value_and_gives_one() -> None:
    @program(agents=[double])
    async def host(ctx: ProgramContext, prompt: str) -> list[Any]:
        found: list[Any] = [await ctx.delegate(double, Number(4)), await ctx.delegate(double, {"n": 5})]
        for wrong in ({"n": "x"}, {"n": 13}):
            try:
                await ctx.delegate(double, wrong)
            except DelegationFailed as error:
                found.append(error.kind)
        return found

    assert run(host, []).structured_output == ["8", "10", "denied", "denied"]


def test_a_contract_agent_runs_as_a_host_by_a_value_of_its_contract() -> None:
    assert run(double, []).kind == "crashed", "a text is not a number"
    runtime = Runtime(MemoryLog())
    assert runtime.run_sync(double, Number(3)).structured_output == 6
    with pytest.raises(InvalidPrompt, match="13 brings bad luck"):
        Runtime(MemoryLog()).run_sync(double, {"n": 13})


def test_a_renamed_preset_of_a_program_runs() -> None:
    one = double.preset("six", n=3)
    assert Runtime(MemoryLog()).run_sync(one, {}).structured_output == 6


# --- instances ----------------------------------------------------------------------


MADE: list[str] = []


def make_counter() -> Agent:
    """Make an agent whose tool counts the calls of its own instance."""
    seen: list[str] = []
    MADE.append("one")

    @tool(effect="read")
    def count(ctx: ToolContext) -> int:
        """Count."""
        seen.append(ctx.address)
        return len(seen)

    return Agent("counter", input=Number, tools=[count])


def counting(request: Any) -> Any:
    """Let the host call two counters, of which each counts twice."""
    if request.profile == "counter":
        return call("count") if request.turn < 3 else say(results(request)[0])
    if request.turn == 1:
        return calls(call("counter", n=1), call("counter", n=2))
    return say(" ".join(results(request)))


def test_each_call_gets_an_instance_of_its_own() -> None:
    MADE.clear()
    host = Agent("host", agents=[make_counter])
    assert len(MADE) == 1, "the probe"
    assert run(host, counting).text == "2 2"
    assert len(MADE) == 3


def test_instances_are_forgotten_with_their_agents() -> None:
    async def main() -> int:
        async with (
            Runtime(MemoryLog(), model=ScriptedModel(counting)) as runtime,
            runtime.open(Agent("host", agents=[make_counter])) as session,
        ):
            await session.ask("go")
            return session.tools.instances.count

    assert asyncio.run(main()) == 0


def failing_later(fails_at: int, made: Any = None) -> Any:
    """Return a factory that raises, or gives another thing, at this call."""
    count = 0

    def make() -> Agent:
        nonlocal count
        count += 1
        if count == fails_at:
            if made is None:
                raise OSError("no disk")
            return made  # type: ignore[no-any-return]  # perhaps no agent, on purpose
        return Agent("counter", input=Number)

    return make


@pytest.mark.parametrize(
    ("made", "why"),
    [(None, "no disk"), (5, "which is not an Agent"), (Agent("other"), "with another name or other tools")],
)
def test_a_factory_that_fails_at_a_call_is_unavailable_and_the_parent_goes_on(made: Any, why: str) -> None:
    outcome = run(Agent("host", agents=[failing_later(2, made)]), counting)
    assert outcome.is_ok
    assert [one.kind for one in outcome.delegations].count("unavailable") == 1
    assert why in next(one.detail for one in outcome.delegations if one.kind == "unavailable")


# --- probes -------------------------------------------------------------------------


def test_a_factory_that_raises_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidAgent, match=r"the factory .* failed: OSError: no disk"):
        Agent("host", agents=[failing_later(1)])


def test_an_unavailable_agent_lets_the_session_begin_and_its_calls_fail_at_once() -> None:
    heard: list[Any] = []

    def policy(request: Any) -> Any:
        if request.turn == 1:
            return call("task", agent="broken", prompt="p")
        heard.extend(results(request))
        return say("done")

    broken = Agent.made_by(failing_later(1), name="broken", on_broken="unavailable")
    outcome = run(Agent("host", agents=[broken]), policy)
    said = msgspec.json.decode(heard[0])
    assert (said["status"], said["reason"]) == ("unavailable", "unavailable")
    assert "no disk" in said["detail"]
    assert outcome.delegations[0].kind == "unavailable"
    with pytest.raises(InvalidAgent, match="cannot be the host"):
        run(broken, policy)


def test_an_agent_without_any_model_is_refused_when_the_session_opens(tmp_path: Path) -> None:
    @program(agents=[Agent("mute")])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return "done"

    path = tmp_path / "log.db"
    with pytest.raises(MisuseError, match="no model for 'mute', which inherits none"):
        Runtime(path).run_sync(host, "go", session_id="s")
    with pytest.raises(SessionNotFound):  # nothing was recorded
        Recording.open(path, "s")


def test_an_agent_without_any_model_may_be_unavailable() -> None:
    mute = Agent("mute", on_broken="unavailable")

    @program(agents=[mute])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        try:
            return await ctx.delegate(mute, "say a word")
        except DelegationFailed as error:
            return error.kind

    assert Runtime(MemoryLog()).run_sync(host, "go").text == "unavailable"


def test_two_agents_of_one_name_in_a_tree_are_refused() -> None:
    twins = [Agent("left", agents=[Agent("kid")]), Agent("right", agents=[Agent("kid")])]
    with pytest.raises(InvalidAgent, match="two agents named 'kid' can be reached from 'host'"):
        run(Agent("host", agents=twins), [say("hi")])


# --- models -------------------------------------------------------------------------


def test_parallel_children_share_the_one_model_of_their_parent_unless_they_name_another(
    tmp_path: Path,
) -> None:
    class Told(ScriptedModel):
        """A model that notes for whom it is called."""

        def __init__(self, name: str, policy: Any) -> None:
            super().__init__(policy, name=name)
            self.callers: list[str] = []

        def call(self, request: Any, on_text: Any) -> Any:
            self.callers.append(request.address)
            return super().call(request, on_text)

    def policy(request: Any) -> Any:
        if request.address == "host" and request.turn == 1:
            return calls(*(call("task", agent=name, prompt="p") for name in ("kid", "kid", "own")))
        return say("done")

    shared, own = Told("shared", policy), Told("cheap", policy)
    people = [Agent("kid"), Agent("own", model=own, model_reason="it is cheap")]
    path = tmp_path / "log.db"
    Runtime(path, model=shared).run_sync(Agent("host", agents=people), "go", session_id="s")
    assert sorted(shared.callers) == ["host", "host", "host.1", "host.2"]
    assert own.callers == ["host.3"]
    events = Recording.open(path, "s").events
    begun = {event.recipient: event.body for event in events if isinstance(event.body, Begin)}
    assert {who: one.model.name for who, one in begun.items()} == {
        "host": "shared",
        "host.1": "shared",
        "host.2": "shared",
        "host.3": "cheap",
    }
    assert b'"model_reason":"it is cheap"' in bytes(begun["host.3"].profile)


# --- the log ------------------------------------------------------------------------


def test_a_recorded_session_is_verified_without_the_types(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    runtime = Runtime(path, model=ScriptedModel(counting))
    runtime.run_sync(Agent("host", agents=[make_counter]), "go", session_id="s")
    recording = Recording.open(path, "s")
    assert recording.verify().divergence is None
    ends = [event.body for event in recording.events if isinstance(event.body, DelegationEnded)]
    assert {end.metadata.subagent for end in ends if end.metadata} == {"counter"}


def test_a_resume_makes_a_new_instance_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    waits = asyncio.Event

    async def main() -> str:
        stopped, waiting = waits(), []

        async def slow(request: Any) -> Any:
            if request.profile == "counter" and request.turn == 2:
                waiting.append(request.address)
                if len(waiting) == 2:  # each has counted once
                    stopped.set()
                await asyncio.Event().wait()
            return counting(request)

        host = Agent("host", agents=[make_counter])
        async with Runtime(path, model=ScriptedModel(slow)) as runtime:
            session = await runtime.open(host, session_id="s")
            asking = asyncio.create_task(session.ask("go", on_cancel="detach"))
            await stopped.wait()
            asking.cancel()
        async with Runtime(path, model=ScriptedModel(counting)) as runtime:
            again = await runtime.resume("s", Agent("host", agents=[make_counter]))
            return (await again.outcome).text

    assert asyncio.run(main()) == "1 1", "the second count of each is the first of its new instance"
    assert Recording.open(path, "s").verify().divergence is None


def test_hundreds_of_delegations_with_schemas_of_their_own() -> None:
    count = 300

    def policy(request: Any) -> Any:
        if request.address == "host":
            if request.turn == 1:
                wish = [
                    call("task", agent="kid", prompt=str(n), output_schema={"const": n}) for n in range(count)
                ]
                return calls(*wish)
            return say(",".join(results(request)))
        n = int(msgspec.json.decode(request.messages[0])["content"])
        return call("report_back", value=n)

    limits = Limits(max_children=count, max_tool_calls=count)
    outcome = run(Agent("host", agents=[Agent("kid")]), policy, limits=limits)
    assert outcome.text == ",".join(map(str, range(count)))
    assert len(outcome.delegations) == count


def test_a_model_failure_of_an_agent_tool_is_unavailable() -> None:
    def policy(request: Any) -> Any:
        if request.profile == "finder":
            return ModelFailure("invalid_request")
        return call("finder", query="q") if request.turn == 1 else say(results(request)[0])

    said = msgspec.json.decode(run(Agent("host", agents=[FINDER]), policy).text)
    assert (said["status"], said["reason"]) == ("unavailable", "model_error")
