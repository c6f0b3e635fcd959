"""The calls that agents refuse by themselves are derived from the log: each once, and no other call."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from callboard.actors.agent import calls as calls_module
from callboard.actors.agent import decider, latched, waiting
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.tasks import Unheard
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session import step as step_module
from callboard.replay.page.changes import Changes
from callboard.replay.refused_calls import RefusedCall, Suspects, refused_by
from callboard.replay.search import Query
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, report, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.runtime.log.protocol import Stored
from tests.effort import effort
from tests.mutants import scenarios_background as background
from tests.mutants import scenarios_contracts as contracts
from tests.mutants import scenarios_endings as endings
from tests.mutants import scenarios_programs as programs
from tests.mutants import scenarios_rich as rich
from tests.mutants import scenarios_rights as rights
from tests.mutants import scenarios_state as state
from tests.mutants import scenarios_waits as waits
from tests.replay.logs import history_in, states_after
from tests.replay.testing.scenarios import closed as rich_session

Told = Counter[tuple[str, int, str]]
"""(agent, seq of the event that was decided on, the text of the refusal), counted."""


def refused_in(log: Sequence[Event]) -> Told:
    """Return the refusals that the deciders make in a log: each where the code of an agent writes it."""
    found: Told = Counter()
    deciding: list[tuple[str, int]] = []

    def note(block: bytes) -> None:
        result = msgspec.json.decode(block)
        if result.get("is_error"):
            text = result["content"]
            found[(*deciding[-1], text if isinstance(text, str) else str(text))] += 1

    with pytest.MonkeyPatch.context() as patch:
        _watch(patch, note, deciding)
        states_after(log)
    return found


def _watch(patch: pytest.MonkeyPatch, note: Callable[[bytes], None], deciding: list[tuple[str, int]]) -> None:
    """Note each answer where an agent writes it, and the agent with the event that it decides on."""
    decide, answer, with_answers = decider.decide_agent, Unheard, latched.with_answers

    def watched_decide(agent: AgentState, seq: int, body: Any) -> object:
        deciding.append((agent.address, seq))
        return decide(agent, seq, body)

    def watched_answer(block: Json, seq: int = 0) -> Unheard:
        if not seq:
            note(block)
        return answer(block, seq)

    def watched_answers(state: AgentState, uses: Sequence[ToolUse]) -> AgentState:
        made = with_answers(state, uses)
        heard = [one.block for one in made.calls.answers.values()]
        # The answers to open calls, which were posted, are no refusals.
        for block in heard[len(heard) - len(uses) :]:
            note(block)
        return made

    patch.setattr(step_module, "decide_agent", watched_decide)
    patch.setattr(calls_module, "Unheard", watched_answer)
    patch.setattr(waiting, "Unheard", watched_answer)
    patch.setattr(latched, "with_answers", watched_answers)


def told(found: Sequence[RefusedCall]) -> Told:
    return Counter((one.agent, one.seq, one.reason) for one in found)


NONSENSE: Sequence[Use] = (
    ("nonsense", {}),
    ("task", {"agent": "kid"}),
    ("task", {"agent": "kid", "prompt": "go", "what": 1}),
    ("task_cancel", {"task": "host.9"}),
    ("task_wait", {"tasks": 5}),
    ("look", "not an object"),
    ("report_back", {"values": 1}),
)


def careless(seed: int) -> Scenario:
    """Make agents that mix usable calls with every kind of refused one, with few places and calls a turn."""

    def says(request: ModelRequest) -> Reply:
        dice = Random(f"{seed} {request.address} {request.turn}")
        if request.turn > dice.choice([1, 2, 3]):
            return report({"n": 1}) if dice.random() < 0.5 else Reply("done")
        usable: list[Use] = [("look", {}), ("save", {}), ("pay", {}), ("report_back", {"value": 3})]
        if request.profile == "host":
            usable += [task("kid"), task("kid", background=True), task("kid", copies=2)]
        made = [dice.choice([*usable, *NONSENSE]) for _ in range(dice.randint(1, 5))]
        stop = "max_tokens" if dice.random() < 0.2 else "tool_use"
        return Reply("I act", tuple(made), stop)

    people = (
        profile("host", ["kid"], ["look"], writes=["save"], asks=["pay"], background=True),
        profile("kid", tools=["look"], asks=["pay"], schema={"type": "integer"}),
    )
    return Scenario(people, says, [ask(limits=Limits(max_tool_calls=3, max_parallel_tools=1))])


RIGHTS: Sequence[Callable[[], Scenario]] = (
    rights.narrowed_trees,
    rights.changed_tools,
    rights.labels_in_line,
    rights.labels_of_delegations,
    rights.labels_of_words,
    rights.used_rights,
    rights.labels_of_programs,
)
SUBJECTS: Sequence[Callable[[], Scenario]] = (
    *RIGHTS,
    programs.gather,
    endings.curious,
    contracts.inputs,
    background.rough_tasks,
    waits.names_of_others,
    state.changing_tools,
    rich.caps,
    rich.reports,
    rich.races,
)


def stopped(scenario: Scenario, steps: int) -> SessionWorld:
    """Run a scenario for so many steps, and cancel it: calls in line never start."""
    world, choose = SessionWorld(scenario), in_random_order(f"stopped {steps}")
    for _ in range(steps):
        if moves := world.moves():
            world.make(moves[choose(len(moves))])
    return world.cancel().run() if world.running else world.run()


def logs() -> Iterator[tuple[str, list[Event]]]:
    subjects = {one.__name__: one for one in SUBJECTS}
    for name, make in subjects.items():
        for order in range(effort(4 if make in RIGHTS else 1, 20)):
            yield name, list(SessionWorld(make()).run(in_random_order(f"{name} {order}")).log)
    for seed in range(effort(8, 400)):
        world = SessionWorld(careless(seed)).run(in_random_order(f"careless {seed}"))
        yield f"careless {seed}", list(world.log)
        for steps in range(11, 44, 8):
            yield f"stopped {seed} {steps}", list(stopped(careless(seed), steps).log)


def test_every_call_that_an_agent_refuses_is_derived_once_and_no_other() -> None:
    said: Counter[str] = Counter()
    for name, log in logs():
        made = refused_in(log)
        assert told(recording_of(log, "one").refused_calls()) == made, name
        said.update(" ".join(text.split()[:3]) for _, _, text in made)
    assert len(said) >= 12, said  # kinds of refusals


def replies(log: Sequence[Event]) -> dict[tuple[str, int], Event]:
    bodies = ((event, event.body) for event in log)
    return {(event.recipient, body.turn): event for event, body in bodies if isinstance(body, ModelReplied)}


def test_a_refused_call_names_its_place_in_the_reply_of_the_model() -> None:
    log = list(SessionWorld(careless(1)).run().log)
    found = recording_of(log, "one").refused_calls()
    assert found
    for one in found:
        reply = replies(log)[one.agent, one.turn]
        assert isinstance(reply.body, ModelReplied)
        assert (reply.seq, reply.at) == (one.reply, one.replied_at)
        uses = [block for block in msgspec.json.decode(reply.body.content) if block["type"] == "tool_use"]
        assert (uses[one.call]["name"], uses[one.call]["input"]) == (
            one.tool,
            msgspec.json.decode(one.arguments),
        )


def test_a_session_without_refusals_has_no_suspects() -> None:
    assert Suspects.among([recording_of(list(rich_session().log), "one").rows]).agents == []


def test_the_refusals_of_an_agent_end_where_this_code_decides_otherwise() -> None:
    log = list(SessionWorld(careless(1)).run().log)
    begin = next(event for event in log if isinstance(event.body, Begin))
    broken = [
        msgspec.structs.replace(event, body=msgspec.structs.replace(begin.body, profile=Json(b"5")))
        if event is begin
        else event
        for event in log
    ]
    assert refused_by([begin.recipient], history_in(broken), len(broken)) == []


def test_a_search_finds_the_reason_of_a_refusal_only_where_it_may_match() -> None:
    recording = recording_of(list(SessionWorld(careless(1)).run().log), "one")
    (first, *_) = recording.refused_calls()
    everywhere = [
        match for match in recording.search(Query(first.reason)) if match.path.startswith("refused.")
    ]
    assert first.reply in [match.row.seq for match in everywhere]
    assert {match.kind for match in everywhere} == {"ModelReplied"}
    for query in (
        Query(first.reason, kinds=frozenset({"ToolReturned"})),
        Query(first.reason, agent="host.99"),
        Query(first.reason, tool="another"),
        Query(path="body.content"),
    ):
        assert not [match for match in recording.search(query) if match.path.startswith("refused.")]


def test_the_page_has_the_refused_calls_of_a_recording() -> None:
    log = list(SessionWorld(careless(1)).run().log)
    changes = Changes()
    for event in log:
        changes.take(event)
    changes.finish()
    assert sorted(changes.refused) == recording_of(log, "one").refused_calls()


def test_a_refused_call_is_a_span_at_its_reply() -> None:
    recording = recording_of(list(SessionWorld(careless(1)).run().log), "one")
    found = [span for span in recording.spans() if span.kind == "refused"]
    assert [(one.first.seq, one.name, one.outcome, one.reason) for one in found] == [
        (one.reply, one.tool, "refused", one.reason) for one in recording.refused_calls()
    ]
    assert [span.first.seq for span in recording.spans()] == sorted(s.first.seq for s in recording.spans())


@pytest.mark.parametrize("content", [b"null", b'"words"', b'[{"name":"look"}]', b"[" * 5_000 + b"]" * 5_000])
def test_no_agent_is_suspected_for_a_reply_that_it_cannot_read(content: bytes) -> None:
    body = b'{"type":"ModelReplied","turn":1,"attempt":1,"content":' + content + b"}"
    assert Suspects.among([[Stored(1, 0, "model", "host", 0, body, b"")]]).agents == []
