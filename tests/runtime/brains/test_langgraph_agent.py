"""A graph of LangGraph as a brain: granted, recorded, resumed, and its refusals."""

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime as FrameworkRuntime
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy, interrupt
from pydantic import BaseModel

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import (
    CallTool,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.outputs import ToolOutput
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.testing import explore, simulate
from tests.runtime.brains.graphs import Found, OwnChat, agent, expert, one_node, policy
from tests.runtime.brains.kit import results, run, saying, turns_in

READS = {"add": "read"}
CHAT = SessionChatModel()


def test_a_run_is_questions_calls_and_a_report(tmp_path: Path) -> None:
    ran: list[str] = []
    seen: list[ModelRequest] = []

    def answers(request: ModelRequest) -> Any:
        seen.append(request)
        return policy(request)

    outcome = run(langgraph_agent(expert(ran), effects={"add": "read"}), answers, log=tmp_path / "log.db")
    assert (outcome.kind, outcome.text, outcome.usage.calls) == ("answered", "5", 3)
    assert sorted(ran) == sorted(["add 2", "save k", "add 8", "check", "check"])
    told = results(seen[1])
    assert told[:2] == [("5", False), ("saved k", False)]
    assert told[2][1]
    assert "valid integer" in told[2][0]
    assert told[3] == ("ValueError: eight", True)
    assert [msgspec.json.decode(one)["name"] for one in seen[0].tools] == ["add", "save"]
    with Recording.open(tmp_path / "log.db", "s") as recording:
        assert recording.verify().is_ok
        bodies = [event.body for event in recording.events]
        effects = {body.tool: body.effect for body in bodies if isinstance(body, CallTool)}
        assert effects == {"add": "read", "save": "write"}


def test_a_refused_budget_ends_the_brain_whatever_its_middleware_makes_of_it() -> None:
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0.0)
    brain = langgraph_agent(agent(middleware=[retry], system_prompt="x" * 40_000))
    outcome = run(brain, saying("never"), limits=Limits(tokens=9_000))
    assert (outcome.kind, outcome.usage.calls) == ("budget", 0)

    async def forever(state: MessagesState) -> Any:
        for _ in range(20):
            try:
                await CHAT.ainvoke(state["messages"])
            except Exception:
                continue
        return {"messages": [AIMessage("fine")]}

    few = run(langgraph_agent(one_node(forever)), saying("x"), limits=Limits(max_iterations=3))
    assert (few.kind, few.usage.calls) == ("iteration_cap", 3)


def sub_graph() -> Any:
    """Make a graph with a sub-graph, and nodes of both kinds."""

    async def inner(state: MessagesState) -> Any:
        return {"messages": [await CHAT.ainvoke(state["messages"])]}

    def outer(state: MessagesState) -> Any:
        first = CHAT.invoke(state["messages"])  # synchronous: the node waits, the program goes on
        return {"messages": [first, CHAT.invoke([*state["messages"], first, HumanMessage("more")])]}

    graph = StateGraph(MessagesState)
    graph.add_node("inner", one_node(inner))
    graph.add_node("outer", outer)
    graph.add_node("other", outer)
    for name in ("outer", "other"):
        graph.add_edge("inner", name)
        graph.add_edge(name, END)
    graph.add_edge(START, "inner")
    return graph.compile(name="sub")


def test_sub_graphs_synchronous_nodes_and_parallel_equal_questions_are_led() -> None:
    brain = langgraph_agent(sub_graph())
    outcome = run(brain, lambda request: say(f"answer {turns_in(request)}"))
    assert (outcome.text, outcome.usage.calls) == ("answer 1", 5)
    ends = {simulate(brain, lambda request: say("a"), "go", seed=seed).outcome.text for seed in range(4)}
    assert ends == {"a"}
    explore(brain, lambda request: say("a"), "go", runs=10, faults="all")  # raises BrokenRules


def test_synchronous_tools_in_nodes_are_calls_and_their_failures_are_exceptions() -> None:
    @tool
    def look(at: str) -> str:
        """Look."""
        if at == "dark":
            raise ValueError("too dark")
        return f"saw {at}"

    def node(state: MessagesState) -> Any:
        try:
            return {"messages": [AIMessage(look.invoke("a tree") + look.invoke({"at": "dark"}))]}
        except Exception as error:
            return {"messages": [AIMessage(f"{type(error).__name__}: {error}")]}

    outcome = run(langgraph_agent(one_node(node), effects={"look": "read"}))
    assert outcome.text == "ToolException: ValueError: too dark"


def test_agents_inside_tools_run_in_the_program_and_are_led_without_a_change() -> None:
    inner = create_agent(SessionChatModel(), [], name="inner")

    @tool
    async def ask(what: str) -> str:
        """Ask another agent."""
        found = await inner.ainvoke({"messages": [HumanMessage(what)]})
        return str(found["messages"][-1].text)

    def answers(request: ModelRequest) -> Any:
        if request.conversation[0]["content"][0]["text"] == "go":
            return say("both") if turns_in(request) else calls(call("ask", what="a"), call("ask", what="b"))
        return say("heard")

    outcome = run(langgraph_agent(agent(ask), in_program=["ask"]), answers, "go")
    assert (outcome.text, outcome.usage.calls) == ("both", 4)


def test_synchronous_agents_inside_tools_batches_and_retries_are_led_without_threads() -> None:
    @tool
    def look(at: str) -> str:
        """Look."""
        return f"saw {at} on {threading.current_thread() is threading.main_thread()}"

    inner = agent(look)

    @tool
    def ask(what: str) -> str:
        """Ask another agent, synchronously."""
        both = CHAT.batch(["first", "second"])
        found = inner.invoke({"messages": [HumanMessage(f"{what} {both[0].text} {both[1].text}")]})
        return str(found["messages"][-1].text)

    def answers(request: ModelRequest) -> Any:
        text = request.conversation[0]["content"][0]["text"]
        if text == "go":
            return say(results(request)[0][0]) if turns_in(request) else call("ask", what="a")
        if turns_in(request):
            return say("; ".join(content for content, _ in results(request)))
        return say("x") if text in ("first", "second") else calls(call("look", at="b"), call("look", at="c"))

    brain = langgraph_agent(agent(ask), effects={"look": "read"}, in_program=["ask"])
    outcome = run(brain, answers, "go")
    assert (outcome.text, outcome.usage.calls) == ("saw b on False; saw c on False", 6)


def test_synchronous_pauses_of_retries_are_pauses_of_the_program() -> None:
    def node(state: MessagesState) -> Any:
        info = get_runtime().execution_info
        if info is not None and info.node_attempt < 3:
            raise ConnectionError("not yet")
        return {"messages": [(CHAT | broken).with_retry(stop_after_attempt=3).invoke("x")]}

    def broken(message: AIMessage) -> AIMessage:
        if message.text != "good":
            raise ValueError("bad")
        return message

    graph = StateGraph(MessagesState)
    graph.add_node("node", node, retry_policy=RetryPolicy(initial_interval=3_600, max_attempts=3))
    graph.add_edge(START, "node")
    brain = langgraph_agent(graph.compile(name="patient"))
    for seed in range(5):
        answers = iter(["bad", "good"]).__next__
        # The kit has no time: a pause of an hour takes none, and another one would be a divergence.
        assert simulate(brain, partial(said_next, answers), "go", seed=seed).outcome.text == "good"


def said_next(answers: Callable[[], str], request: ModelRequest) -> Any:
    return say(answers())


def decided(brain: Any, answers: Any, *decisions: Any) -> Any:
    """Run a brain, and answer its approvals in turn."""
    left = list(decisions)

    def approve(question: Any) -> Any:
        return left.pop(0)(question)

    async def decide() -> Any:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(brain)
            ask = asyncio.ensure_future(session.ask("go"))
            async for question in session.approvals():
                approve(question)
                if not left:
                    break
            return await ask

    return asyncio.run(decide())


def approved(question: Any) -> None:
    question.approve()


@pytest.mark.parametrize(
    ("decide", "text"),
    [
        (approved, "person said True"),
        (lambda question: question.deny("no"), "person said False"),
        (
            lambda question: question.approve(arguments={**question.arguments, "answer": "maybe"}),
            "person said maybe",
        ),
    ],
)
def test_an_interrupt_waits_for_a_person(decide: Any, text: str) -> None:
    def node(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"person said {interrupt({'pay': 5})}")]}

    brain = langgraph_agent(one_node(node, checkpointer=InMemorySaver()))
    assert decided(brain, saying("x"), decide).text == text


def test_what_a_node_did_before_an_interrupt_is_not_done_again_after_it() -> None:
    done: list[str] = []

    @tool
    def book(what: str) -> str:
        """Book."""
        done.append(what)
        return f"booked {what}"

    async def node(state: MessagesState) -> Any:
        heard = (await CHAT.ainvoke("which?")).text
        first = await book.ainvoke({"what": heard})
        if not interrupt(f"{first}, go on?"):
            return {"messages": [AIMessage("stopped")]}
        second = await book.ainvoke({"what": heard})  # the same again, after the interrupt: a new call
        return {"messages": [AIMessage(f"{first}, {second}, {interrupt('sure?')}")]}

    brain = langgraph_agent(one_node(node, checkpointer=InMemorySaver()))
    outcome = decided(brain, saying("a room"), approved, approved)
    assert (outcome.text, outcome.usage.calls) == ("booked a room, booked a room, True", 1)
    assert done == ["a room", "a room"]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_the_approvals_of_middleware_are_approvals_of_ours(mode: str) -> None:
    paid: list[int] = []

    @tool
    def pay(euros: int) -> str:
        """Pay."""
        paid.append(euros)
        return f"paid {euros}"

    told: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if not turns_in(request):
            return call("pay", euros=1)
        told.extend(results(request))
        return say("done") if turns_in(request) > 1 else call("pay", euros=2)

    middleware: Any = HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)  # type: ignore[arg-type]  # one of its words
    brain = langgraph_agent(agent(pay, middleware=[middleware], checkpointer=InMemorySaver()))
    outcome = decided(brain, answers, approved, lambda one: one.deny("too much"))
    assert (outcome.text, paid) == ("done", [1])
    assert told[0] == ("paid 1", False)
    assert told[1][1]
    assert "too much" in told[1][0]


def test_a_state_without_messages_gets_its_fields_from_the_contract_or_a_function() -> None:
    class Topic(BaseModel):
        topic: str

    async def node(state: Found) -> Any:
        heard = (await CHAT.ainvoke(f"About {state['topic']}")).text
        return {"notes": [heard], "verdict": "good"}

    graph = one_node(node, Found)
    made = langgraph_agent(
        graph, to_state=lambda prompt: {"topic": prompt}, output=lambda state: state["notes"]
    )
    assert run(made, saying("hm"), "cats").text == '["hm"]'
    typed = langgraph_agent(graph, input=Topic, schema=Found)
    heard: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        heard.append(request.conversation[0])
        return say("so")

    outcome = run(typed, answers, Topic(topic="dogs"))
    assert outcome.unwrap() == {"topic": "dogs", "notes": ["so"], "verdict": "good"}
    assert "About dogs" in str(heard)


class Verdict(BaseModel):
    """A verdict."""

    good: bool


async def structured(state: MessagesState) -> Any:
    found: Any = await CHAT.with_structured_output(Verdict).ainvoke(state["messages"])
    return {"messages": [AIMessage(found.model_dump_json())]}


async def in_format(state: MessagesState) -> Any:
    reply = await CHAT.bind(response_format=Verdict).ainvoke(state["messages"])
    assert reply.additional_kwargs["parsed"] == {"good": True}
    return {"messages": [reply, await CHAT.ainvoke([*state["messages"], reply, HumanMessage("sure?")])]}


@pytest.mark.parametrize(
    "graph",
    [
        agent(response_format=Verdict),
        agent(response_format=ProviderStrategy(Verdict)),
        one_node(structured),
        one_node(in_format),
    ],
    ids=["tool", "format", "model", "class"],
)
def test_structured_output_is_the_typed_result(graph: Any) -> None:
    def answers(request: ModelRequest) -> Any:
        if turns_in(request):  # an answer in a format is no open call of a tool
            return say(request.conversation[1]["content"][0]["text"])
        return call("Verdict", good=True)

    output = (lambda state: json.loads(state["messages"][-1].text)) if graph.name == "one" else None
    outcome = run(langgraph_agent(graph, schema=Verdict, output=output), answers)
    assert outcome.unwrap() == Verdict(good=True)


def test_an_image_that_a_tool_returns_is_shown_to_the_model() -> None:
    @tool
    def picture() -> list[Any]:
        """Show."""
        return [
            {"type": "text", "text": "a cat"},
            {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        ]

    told: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if not turns_in(request):
            return call("picture")
        told.extend(results(request))
        return say("nice")

    assert run(langgraph_agent(agent(picture)), answers).text == "nice"
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    shown = [{"type": "text", "text": "a cat"}, {"type": "image", "source": source}]
    assert told == [(shown, False)]


def test_a_tool_that_updates_the_shared_state_updates_the_graph() -> None:
    class Stage(MessagesState):
        stage: str

    @tool
    async def load() -> Any:
        """Load."""
        return ToolOutput("ten rows", state_update={"stage": "loaded"})

    from langgraph.prebuilt import ToolNode

    async def work(state: Stage) -> Any:
        return {"messages": [await CHAT.bind_tools([load]).ainvoke(state["messages"])]}

    graph = StateGraph(Stage)
    graph.add_node("work", work)
    graph.add_node("tools", ToolNode([load]))
    graph.add_edge(START, "work")
    graph.add_edge("work", "tools")
    graph.add_edge("tools", END)
    brain = langgraph_agent(
        graph.compile(name="loader"),
        state={"stage": "new", "other": 0},
        output=lambda state: f"{state['stage']}: {state['messages'][-1].text}",
    )
    outcome = run(brain, lambda request: call("load"))
    assert outcome.text == "loaded: ten rows"


def test_its_own_chat_models_answer_unless_another_is_given() -> None:
    first, second = OwnChat(says="first", asked=[]), OwnChat(says="second", asked=[])

    async def node(state: MessagesState) -> Any:
        return {"messages": [await first.ainvoke(state["messages"]), await second.ainvoke("again")]}

    brain = langgraph_agent(one_node(node))
    outcome = Runtime(":memory:").run_sync(brain, "go")
    assert (outcome.text, outcome.usage.tokens, len(first.asked)) == ("second 1", 30, 1)
    assert [model.spec.name for model in brain.all_models[1:]] == [
        "langchain:fake:own",
        "langchain:fake:own#2",
    ]
    other = run(langgraph_agent(one_node(node), model=ScriptedModel(saying("other"), name="other")))
    assert (other.text, len(first.asked)) == ("other", 1)


def test_earlier_asks_of_a_session_are_its_history() -> None:
    heard: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        heard.append([said["content"][0]["text"] for said in request.conversation])
        return say(f"answer {len(heard)}")

    async def talk() -> None:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(langgraph_agent(agent()))
            await session.ask("one")
            await session.ask("two")

    asyncio.run(talk())
    assert heard == [["one"], ["one", "answer 1", "two"]]


def test_the_context_of_a_graph_may_be_anything() -> None:
    def node(state: MessagesState, runtime: FrameworkRuntime[Any]) -> Any:
        return {"messages": [AIMessage(f"hello {runtime.context['who']}")]}

    brain = langgraph_agent(one_node(node), context={"who": "Ann", "lock": asyncio.Lock})
    assert run(brain).text == "hello Ann"


def test_the_models_and_tools_of_middleware_are_found() -> None:
    summary = OwnChat(says="summary")

    @tool
    def note(text: str) -> str:
        """Note."""
        return text

    class Noting(AgentMiddleware[Any, Any, Any]):
        tools = (note,)

        async def abefore_agent(self, state: Any, runtime: Any) -> Any:
            return {"messages": [await self.about.ainvoke("in short?")]}

        about = summary

    brain = langgraph_agent(agent(middleware=[Noting(), SummarizationMiddleware(OwnChat(model_name="sums"))]))
    assert list(brain.tools) == ["note"]
    assert {one.spec.name for one in brain.models} == {"langchain:fake:own", "langchain:fake:sums"}
    assert run(brain, saying("fine")).text == "fine"
    assert len(summary.asked) == 1
