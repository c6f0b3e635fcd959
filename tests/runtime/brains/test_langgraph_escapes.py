"""Ways past the gates: each is led through, refused in words of ours, or opaque by name."""

import asyncio
import socket
from collections.abc import Callable
from typing import Annotated, Any

import langsmith
import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import ShellToolMiddleware
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.runtime import get_runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, RetryPolicy

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.models.scripted import call, say
from callboard.testing import simulate
from tests.runtime.brains.graphs import Found, OwnChat, agent, expert, one_node
from tests.runtime.brains.kit import results, run, saying, turns_in

CHAT = SessionChatModel()


@tool
def look() -> str:
    """Look."""
    return "found"


class Saver(InMemorySaver):
    """A checkpointer of someone else."""


def test_code_of_the_graph_reads_a_result_without_the_note_about_changed_arguments() -> None:
    @tool(return_direct=True)
    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    async def node(state: Any) -> Any:
        return {"messages": [AIMessage(await pay.ainvoke({"euros": 1}))]}

    async def approve(question: Any) -> ApprovalAnswer:
        return ApprovalAnswer(True, arguments={"euros": 2})

    for graph in (agent(pay), one_node(node)):
        brain = langgraph_agent(graph, "payer", approvals={"pay": "before"})
        assert run(brain, lambda request: call("pay", euros=1), approve=approve).text == "paid 2"


def twin() -> BaseTool:
    """Make another tool with the name of the first."""

    @tool("look")
    def other() -> str:
        """Look elsewhere."""
        return "nothing"

    return other


def of_state() -> BaseTool:
    """Make a tool that takes the state of a graph."""

    @tool
    def peek(state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Peek."""
        return str(len(state))

    return peek


def odd() -> BaseTool:
    """Make a tool with a name that no model may have."""

    @tool("look at it")
    def at_it() -> str:
        """Look at it."""
        return ""

    return at_it


def nothing(state: MessagesState) -> Any:
    return {}


def with_twins() -> Any:
    inner = agent(twin())

    async def node(state: MessagesState) -> Any:
        return await inner.ainvoke(state)

    graph = StateGraph(MessagesState)
    graph.add_node("a", agent(look))
    graph.add_node("b", node)
    graph.add_edge("__start__", "a")
    graph.add_edge("a", "b")
    return graph.compile(name="twins")


@pytest.mark.parametrize(
    ("make", "more", "why"),
    [
        (object, {}, "is not a compiled graph of LangGraph$"),
        (lambda: StateGraph(MessagesState), {}, "compile it first"),
        (lambda: one_node(nothing, checkpointer=Saver()), {}, "Saver of the graph has I/O of its own"),
        (lambda: agent(store=InMemoryStore()), {}, "InMemoryStore of the graph keeps data"),
        (lambda: one_node(nothing, interrupt_before=["node"]), {}, "the graph stops at its nodes"),
        (lambda: one_node(lambda state: {}, Found), {}, "the state of the graph has no `messages`"),
        (with_twins, {}, "two tools of the graph have the name 'look'"),
        (lambda: agent(odd()), {}, "look at it"),
        (
            lambda: agent(middleware=[ShellToolMiddleware("no-such-folder")]),
            {"in_program": ["shell"]},
            "tool 'shell' runs commands in a shell of the graph's run",
        ),
        (lambda: agent(of_state()), {}, "tool 'peek' takes 'state' of the graph's run"),
        (lambda: agent(look), {"effects": {"sub": "read"}}, "effects names 'sub', .* the tools: look"),
        (lambda: agent(look), {"in_program": ["sub"]}, "in_program names 'sub'"),
        (lambda: agent(look), {"effects": {"look": "reads"}}, "tool look: effect is"),
        (lambda: create_agent(CHAT, []), {}, "name"),
    ],
)
def test_a_graph_that_cannot_be_recorded_is_refused(make: Callable[[], Any], more: Any, why: str) -> None:
    with pytest.raises(InvalidAgent, match=why):
        langgraph_agent(make(), **more)


class Past:
    """Nodes that reach for something outside of the gates."""

    @staticmethod
    async def network(state: MessagesState) -> Any:
        """Open a connection, and take any failure."""
        try:
            await asyncio.open_connection("127.0.0.1", 9)
        except Exception as error:
            return {"messages": [AIMessage(f"never mind: {error}")]}

    @staticmethod
    async def late_model(state: MessagesState) -> Any:
        """Ask a model that is made here, without a network."""
        return {"messages": [await type(OwnChat())(says="late").ainvoke("x")]}

    @staticmethod
    async def late_tool(state: MessagesState) -> Any:
        """Call a tool that is made here, and take any failure."""
        try:
            await twin().ainvoke({})
        except Exception:
            return {"messages": [AIMessage("never mind")]}

    @staticmethod
    async def sync_call(state: MessagesState) -> Any:
        """Ask synchronously in an async function."""
        return {"messages": [CHAT.invoke("x")]}

    @staticmethod
    async def completion(state: MessagesState) -> Any:
        """Ask a model that completes texts."""
        return {"messages": [AIMessage(await FakeListLLM(responses=["x"]).ainvoke("x"))]}

    @staticmethod
    async def setting(state: MessagesState) -> Any:
        """Set what services name in their own ways."""
        return {"messages": [await CHAT.bind(seed=1).ainvoke("x")]}

    @staticmethod
    async def hosted(state: MessagesState) -> Any:
        """Offer a tool of the service."""
        return {"messages": [await CHAT.bind(tools=[{"type": "web_search_2026"}]).ainvoke("x")]}

    @staticmethod
    async def odd_message(state: MessagesState) -> Any:
        """Send a message of a role that services do not have."""
        return {"messages": [await CHAT.ainvoke([ChatMessage(content="x", role="judge")])]}

    @staticmethod
    async def odd_content(state: MessagesState) -> Any:
        """Send content that services do not have."""
        return {"messages": [await CHAT.ainvoke([HumanMessage([{"type": "smell"}])])]}

    @staticmethod
    async def events(state: MessagesState) -> Any:
        """Stream the events of a model."""
        stream = await CHAT.astream_events("x", version="v3")
        return {"messages": [await stream]}


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (Past.network, "a program has no network or files"),
        (Past.late_model, "OwnChat is made while the graph runs"),
        (Past.late_tool, "tool 'look' is made while the graph runs"),
        (Past.sync_call, r"write `await ....ainvoke\(...\)`"),
        (Past.completion, "FakeListLLM completes texts"),
        (Past.setting, "the call of a chat model has 'seed'"),
        (Past.hosted, "the service itself would run the tool 'web_search_2026'"),
        (Past.odd_message, "no form for ChatMessage of LangChain"),
        (Past.odd_content, "no form for content of type 'smell'"),
        (Past.events, "a brain does not stream events of a model"),
    ],
)
def test_a_way_past_the_gates_ends_the_brain_even_if_its_code_hides_it(node: Any, why: str) -> None:
    import re

    outcome = run(langgraph_agent(one_node(node)), saying("x"))
    assert (outcome.kind, outcome.usage.calls) == ("crashed", 0)
    assert re.search(why, outcome.detail), outcome.detail


def test_a_stream_of_a_model_is_a_question_and_a_custom_stream_goes_nowhere() -> None:
    async def node(state: MessagesState) -> Any:
        get_stream_writer()({"progress": 1})
        parts = [part.text async for part in CHAT.astream(state["messages"])]
        return {"messages": [AIMessage("|".join(parts))]}

    outcome = run(langgraph_agent(one_node(node)), saying("whole"))
    assert (outcome.text, outcome.usage.calls) == ("whole", 1)


def test_a_stream_of_a_sub_graph_has_its_messages_whole() -> None:
    inner = agent(look)

    async def node(state: MessagesState) -> Any:
        kinds = [kind async for kind, _ in inner.astream(state, stream_mode=["updates", "messages"])]
        return {"messages": [AIMessage(" ".join(kinds))]}

    outcome = run(
        langgraph_agent(one_node(node)), lambda request: say("x") if turns_in(request) else call("look")
    )
    assert (outcome.text.count("messages"), outcome.text.count("updates")) == (3, 3)


def test_caches_of_answers_and_of_nodes_are_left_out() -> None:
    async def node(state: MessagesState) -> Any:
        return {"messages": [await CHAT.ainvoke("same"), await CHAT.ainvoke("same")]}

    from langgraph.cache.memory import InMemoryCache as NodeCache

    graph = StateGraph(MessagesState)
    graph.add_node("node", node, cache_policy=CachePolicy())
    graph.add_edge("__start__", "node")
    brain = langgraph_agent(graph.compile(cache=NodeCache(), name="cached"))
    set_llm_cache(InMemoryCache())
    try:
        assert [run(brain, saying("x")).usage.calls for _ in range(2)] == [2, 2]
    finally:
        set_llm_cache(None)


def test_pauses_of_retries_have_the_chance_of_the_program() -> None:
    async def node(state: MessagesState) -> Any:
        info = get_runtime().execution_info
        if info is not None and info.node_attempt == 3:
            return {"messages": [await CHAT.ainvoke("x")]}
        raise ConnectionError("not yet")

    graph = StateGraph(MessagesState)
    graph.add_node("node", node, retry_policy=RetryPolicy(initial_interval=0.01, max_attempts=3))
    graph.add_edge("__start__", "node")
    brain = langgraph_agent(graph.compile(name="again"))
    # The kit executes the program again for each step: another pause would be a divergence.
    ends = {simulate(brain, saying("at last"), "go", seed=seed).outcome.text for seed in range(6)}
    assert ends == {"at last"}


def test_a_synchronous_socket_in_a_node_is_opaque() -> None:
    def node(state: MessagesState) -> Any:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 1), 0.2)
        return {"messages": [AIMessage("reached")]}

    assert run(langgraph_agent(one_node(node)), saying("x")).text == "reached"


def test_a_tool_that_changes_the_graph_runs_in_the_program() -> None:
    class Stage(AgentState[Any]):
        stage: str

    @tool
    async def move(to: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Move on."""
        from langchain_core.messages import ToolMessage

        return Command(update={"stage": to, "messages": [ToolMessage("moved", tool_call_id=tool_call_id)]})

    graph = create_agent(CHAT, [move], state_schema=Stage, name="stages")
    brain = langgraph_agent(graph, in_program=["move"], output=lambda state: state["stage"])
    outcome = run(brain, lambda request: say("done") if turns_in(request) else call("move", to="end"))
    assert outcome.text == "end"
    with pytest.raises(InvalidAgent, match="'tool_call_id' of the graph's run"):
        langgraph_agent(graph)


def test_a_command_from_a_tool_outside_of_the_program_is_told_as_a_failure() -> None:
    @tool
    def move() -> Any:
        """Move on."""
        return Command(goto="end")

    told: list[Any] = []

    def answers(request: ModelRequest) -> Any:
        if not turns_in(request):
            return call("move")
        told.extend(results(request))
        return say("done")

    assert run(langgraph_agent(agent(move)), answers).text == "done"
    assert told[0][1]
    assert "name it in `in_program`" in told[0][0]


def test_no_trace_goes_to_the_vendor_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    class Client(langsmith.Client):
        def create_run(self, *args: Any, **more: Any) -> None:
            sent.append((args, more))

        def update_run(self, *args: Any, **more: Any) -> None:
            sent.append((args, more))

    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("LANGSMITH_API_KEY", "key")
    forget: Any = langsmith.utils.get_env_var
    forget.cache_clear()
    monkeypatch.setattr(
        "langchain_core.tracers.langchain.get_client", lambda: Client(api_key="key", auto_batch_tracing=False)
    )
    own = OwnChat(says="own")

    @tool
    def nested() -> str:
        """Ask a model in a tool of the session."""
        return OwnChat(says="inner").invoke("x").text

    async def node(state: MessagesState) -> Any:
        return {"messages": [await own.ainvoke("x"), AIMessage(await nested.ainvoke({}))]}

    try:
        graph = one_node(node)
        outcome = run(langgraph_agent(graph))
        assert outcome.text == "inner 1"
        assert not sent
        OwnChat().invoke("x")  # without a brain it would go
        assert sent
    finally:
        forget.cache_clear()


def test_contents_of_many_forms_are_those_of_a_request() -> None:
    seen: list[Any] = []
    data = {"type": "base64", "media_type": "image/png", "data": "aGk="}

    async def node(state: MessagesState) -> Any:
        content: list[Any] = [
            "plain",
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
            {"type": "image", "url": "https://example.org/a.png"},
            {"type": "image", "source": data},
        ]
        foreign = AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}])
        said = [SystemMessage("first"), HumanMessage(content), foreign, SystemMessage("later")]
        return {"messages": [await CHAT.ainvoke(said)]}

    def answers(request: ModelRequest) -> Any:
        seen.append(request)
        return say("x")

    assert run(langgraph_agent(one_node(node)), answers).text == "x"
    user, reply, later = (said["content"] for said in seen[0].conversation)
    assert [one.get("source") for one in user] == [
        None,
        data,
        data,
        {"type": "url", "url": "https://example.org/a.png"},
        data,
    ]
    assert reply == [{"type": "text", "text": "so"}]
    assert later == [{"type": "text", "text": "later"}]
    assert bytes(seen[0].system) == b'"first"'


def test_names_and_effects_are_those_of_the_graph() -> None:
    brain = langgraph_agent(expert(), effects={"add": "read"}, in_program=["save"], description="Knows.")
    assert (brain.name, brain.description, repr(brain)) == ("expert", "Knows.", "LangGraphBrain('expert')")
    profile = brain.profile()
    assert (profile.turns, [(one.name, one.effect) for one in profile.tools]) == ("any", [("add", "read")])
