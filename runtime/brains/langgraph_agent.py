"""A graph of LangGraph as a program: its model calls are questions, its tool calls are calls of ours.

The graph runs inside the program's loop, and is executed again after a restart like any program. So it needs
no checkpoints of its own. Where it has a checkpointer for `interrupt()`, each run gets a new one in memory.

Rules
  - An interrupt is a call of the tool `answer_interrupt`, which waits for a person.
  - What the framework keeps outside of the run is refused or left out: checkpoints, stores, caches.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec
from langchain_core.decisions import BaseDecisionModel
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.errors import InvalidAgent, NotApproved
from callboard.runtime.brains.common import EARLIER_MAX, Brain, Latch, latching, result_of
from callboard.runtime.brains.langgraph_chat import LangChainModel, SessionChatModel, name_of
from callboard.runtime.brains.langgraph_decisions import LangChainDecisionModel, name_of_decider
from callboard.runtime.brains.langgraph_doors import inside
from callboard.runtime.brains.langgraph_found import Found, Graph
from callboard.runtime.brains.langgraph_messages import earlier_messages, prompt_message
from callboard.runtime.brains.langgraph_run import GraphRun
from callboard.runtime.brains.langgraph_tools import answer_interrupt, tools_by_name, tools_of
from callboard.runtime.brains.langgraph_waiting import Waiting
from callboard.runtime.brains.tool_terms import ToolTerms
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.loop import ProgramLoop
from callboard.runtime.programs.program import BrainBounds, BrainOptions

if TYPE_CHECKING:
    from callboard.runtime.agent_types import OutputSchema

ToState = Callable[[Any], Any]
FromState = Callable[[Any], object]

_MESSAGES: Final = "messages"
_STRUCTURED: Final = "structured_response"


class _GraphOptions(BrainBounds, total=False):
    schema: "OutputSchema[object]"
    state: Mapping[str, object] | None


class LangGraphBrain(Brain):
    """A graph of LangGraph as a program; `langgraph_agent` makes one."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        found: Found,
        in_program: frozenset[str],
        to_state: ToState | None,
        output: FromState | None,
        context: object,
        names: Mapping[int, str],
        *,
        asks_all: bool,
        **options: Unpack[BrainOptions],
    ) -> None:
        self._graph = graph
        self._known = tools_by_name(found.tools)
        self._in_program = in_program
        self._to_state = to_state
        self._output = output or _output_of
        self._context = context
        self._names = names
        self._asks_all = asks_all
        super().__init__(self._run, name, **options)
        self._keys = [key for key in self.state or () if key in graph.channels]

    async def _run(self, ctx: ProgramContext, prompt: object) -> object:
        latch, loop = Latch(), asyncio.get_running_loop()
        waiting = Waiting(loop, latch)
        assert isinstance(loop, ProgramLoop)
        loop.runs_function = waiting.runs_function
        run = GraphRun(
            ctx,
            self._known,
            self._in_program,
            self._names,
            self._keys,
            asks_all=self._asks_all,
            remembers=bool(self._graph.checkpointer),
            waiting=waiting,
            latch=latch,
        )
        with latching(ctx, latch), inside(run):
            state = await self._executed(ctx, run, self._state_of(ctx, prompt))
            found = self._output(state)
        return result_of(found)

    def _state_of(self, ctx: ProgramContext, prompt: object) -> object:
        """Return the state that the graph starts with."""
        if self._to_state is not None:
            return self._to_state(prompt)
        if not isinstance(prompt, str):  # the value of a contract
            return to_jsonable_python(prompt)
        earlier = [(one.prompt, one.text) for one in ctx.earlier(EARLIER_MAX)]
        return {_MESSAGES: [*earlier_messages(earlier), prompt_message(msgspec.json.decode(ctx.prompt_json))]}

    async def _executed(self, ctx: ProgramContext, run: GraphRun, state: object) -> Any:
        """Run the graph to its end, and let a person answer its interrupts."""
        saver = None if self._graph.checkpointer in (None, False) else InMemorySaver()
        graph = self._graph.copy({"checkpointer": saver, "cache": None})
        config: Any = {"configurable": {"thread_id": ctx.run_name}}
        while True:
            found = await graph.ainvoke(state, config, context=self._context)
            asked = found.get("__interrupt__", ()) if isinstance(found, dict) else ()
            if not asked:
                return found
            answers = await asyncio.gather(*[_answer(ctx, one) for one in asked])
            run.run_again()
            state = Command(resume={one.id: given for one, given in zip(asked, answers, strict=True)})


async def _answer(ctx: ProgramContext, asked: Interrupt[Any]) -> object:
    """Ask a person what an interrupt asks. Refused, a boolean is False, and a tool call is rejected."""
    value = to_jsonable_python(asked.value, fallback=str)
    proposed = _decisions(value, {"type": "approve"}, plain=True)
    try:
        given = await ctx.call(answer_interrupt, asked=value, answer=proposed)
    except NotApproved as error:
        return _decisions(value, {"type": "reject", "message": error.text}, plain=False)
    return given["answer"]


def _decisions(value: object, decision: dict[str, object], *, plain: bool) -> object:
    """Return an answer in the form of who asks: the framework's middleware for approvals, or a node."""
    if isinstance(value, dict) and isinstance(actions := value.get("action_requests"), list):
        return {"decisions": [decision] * len(actions)}
    if isinstance(value, dict) and value.get("type") == "tool_approval":
        return decision
    return plain


def _output_of(state: object) -> object:
    """Return what a graph has found: its structured response, the text of its last message, or its state."""
    if not isinstance(state, Mapping):
        return state
    if state.get(_STRUCTURED) is not None:
        return state[_STRUCTURED]
    if state.get(_MESSAGES):
        return state[_MESSAGES][-1].text
    return {key: value for key, value in state.items() if key != _MESSAGES}


def langgraph_brain(
    graph: object,
    name: str,
    description: str,
    terms: ToolTerms,
    to_state: ToState | None,
    output: FromState | None,
    context: object,
    model: ModelChoice | str | None,
    models: Sequence[ModelChoice | str],
    *,
    input: type | None,
    **options: Unpack[_GraphOptions],
) -> LangGraphBrain:
    """Make the brain of a graph. Raises InvalidAgent for one that cannot be recorded."""
    if not isinstance(graph, Pregel):
        hint = "; compile it first, `graph.compile()`" if hasattr(graph, "compile") else ""
        raise InvalidAgent(f"{graph!r:.80} is not a compiled graph of LangGraph{hint}")
    found = Found(graph, terms.in_program)
    for one in found.graphs:
        _check_graph(one)
    if _MESSAGES not in graph.channels and input is None and to_state is None:
        raise InvalidAgent(
            "the state of the graph has no `messages`: say what it starts with, as in "
            "`to_state=lambda prompt: {...}`, or `input=` with a type that has its fields"
        )
    default, own, names = (model, [], {}) if model is not None else _models_of(found.models)
    deciders = _deciders_of(found.deciders)
    tools = tools_of(tools_by_name(found.tools), terms)
    return LangGraphBrain(
        graph,
        name or _name_of(graph),
        found,
        frozenset(terms.in_program),
        to_state,
        output,
        context,
        names | {key: one.spec.name for key, one in deciders.items()},
        asks_all=model is not None,
        description=description,
        tools=[*tools, *([answer_interrupt] if any(one.checkpointer for one in found.graphs) else [])],
        model=default,
        models=[*own, *deciders.values(), *models],
        input=input,
        **options,
    )


def _check_graph(graph: Graph) -> None:
    saver = graph.checkpointer
    if saver not in (None, True, False) and type(saver) is not InMemorySaver:
        raise InvalidAgent(
            f"{type(saver).__name__} of the graph has I/O of its own, and the session's log has all that a "
            "restart needs: compile the graph without it, or with an InMemorySaver for `interrupt()`"
        )
    if graph.store is not None:
        raise InvalidAgent(
            f"{type(graph.store).__name__} of the graph keeps data that the session's log does not have: "
            "read and write them by tools"
        )
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        raise InvalidAgent(
            "the graph stops at its nodes (interrupt_before, interrupt_after), and asks nothing there: call "
            "`interrupt(...)` in a node instead"
        )


def _name_of(graph: Graph) -> str:
    named = getattr(graph, "name", "")
    return "" if named == "LangGraph" else str(named)


def _models_of(
    chats: Sequence[BaseChatModel],
) -> tuple[LangChainModel | None, list[LangChainModel], dict[int, str]]:
    """Return the chat models of a graph as models of the session: the default one, the others, their names.

    The names are by identity, "" for the default one, which a graph with a `SessionChatModel` inherits.
    """
    own = [chat for chat in chats if not isinstance(chat, SessionChatModel)]
    models = [
        LangChainModel(chat, name=name) for chat, name in zip(own, _apart(map(name_of, own)), strict=True)
    ]
    names = {id(chat): model.spec.name for chat, model in zip(own, models, strict=True)}
    if not own or len(own) < len(chats):
        return None, models, names
    return models[0], models[1:], {**names, id(own[0]): ""}


def _deciders_of(deciders: Sequence[BaseDecisionModel]) -> dict[int, LangChainDecisionModel]:
    """Return the decision models of a graph as models of the session, by their identity."""
    names = _apart(map(name_of_decider, deciders))
    return {id(one): LangChainDecisionModel(one, name) for one, name in zip(deciders, names, strict=True)}


def _apart(names: Iterable[str]) -> list[str]:
    """Return names with a number after each that is not the first of its kind."""
    found: list[str] = []
    for name in names:
        numbered = (name if number == 1 else f"{name}#{number}" for number in count(1))
        found.append(next(one for one in numbered if one not in found))
    return found
