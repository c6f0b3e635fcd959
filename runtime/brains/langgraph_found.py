"""The parts of a compiled graph: its tools, its models, and the graphs inside of it.

A graph keeps its nodes as functions, and those keep models, tools and other graphs in closures, globals and
attributes. They are followed as the framework itself does to find sub-graphs. What a node makes while it runs
is not found: a tool of that kind is refused when it is called, a model when it is asked.
"""

import contextlib
import sys
from collections.abc import Iterable, Mapping
from types import FunctionType, MethodType
from typing import Any, Final, Never, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain_core.decisions import BaseDecisionModel
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.branch import RunnableBranch
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.tools import BaseTool
from langgraph._internal._runnable import RunnableCallable, RunnableSeq
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.pregel._utils import get_function_nonlocals

from callboard.runtime.brains.langgraph_tools import functions_of

_LIBRARIES: Final = ("langchain_core.", "langgraph.", "langsmith.", "pydantic", "asyncio", "functools")
_DEPTH_MAX: Final = 12
_PARTS_MAX: Final = 5_000
"""Parts that are followed: a node may use a library whose functions lead anywhere."""

_HOLDERS: Final = (Mapping, list, tuple, set, frozenset)


Graph: TypeAlias = Pregel[Any, Any, Any, Any]
"""A compiled graph, with any types of its states."""


class Found:
    """The parts of a graph, each once, in the order in which they are found.

    inner: names of tools that run in the program: their contents belong to the graph, too.
    """

    def __init__(self, graph: Graph, inner: Iterable[str]) -> None:
        self.tools: list[BaseTool] = []
        self.models: list[BaseChatModel] = []
        self.deciders: list[BaseDecisionModel] = []
        self.graphs: list[Graph] = []
        self._inner = frozenset(inner)
        self._seen: dict[int, object] = {}  # kept alive, so that no other object gets the id
        self._follow(graph, 0)

    def _follow(self, part: object, depth: int) -> None:
        if id(part) in self._seen or depth > _DEPTH_MAX or len(self._seen) >= _PARTS_MAX:
            return
        self._seen[id(part)] = part
        if isinstance(part, BaseChatModel):
            self.models.append(part)
        elif isinstance(part, BaseDecisionModel):
            self.deciders.append(part)
        elif isinstance(part, BaseTool):
            self.tools.append(part)
            if part.name in self._inner:
                self._follow_all((*functions_of(part), *vars(part).values()), depth)
        elif isinstance(part, Pregel):
            self.graphs.append(part)
            self._follow_all((node.bound for node in part.nodes.values()), depth)
        else:
            self._follow_all(_inside(part), depth)

    def _follow_all(self, parts: Iterable[object], depth: int) -> None:
        for one in parts:
            self._follow(one, depth + 1)


def _inside(part: object) -> Iterable[object]:
    """Return what a part holds that is neither a model, nor a tool, nor a graph."""
    if isinstance(part, ToolNode):
        return part.tools_by_name.values()
    if isinstance(part, Runnable):
        return _inside_runnable(part)
    if isinstance(part, MethodType):
        return part.__self__, part.__func__
    if isinstance(part, FunctionType):
        # A library's function knows its globals, which are its own, and what it closes over, which is not.
        is_of_library = part.__module__.startswith((*_LIBRARIES, "langchain."))
        return _cells(part) if is_of_library else get_function_nonlocals(part)
    if isinstance(part, AgentMiddleware):
        methods = (getattr(type(part), name) for name in dir(type(part)) if not name.startswith("__"))
        return *vars(part).values(), *methods
    if isinstance(part, _HOLDERS):
        return part.values() if isinstance(part, Mapping) else part
    if _is_own(type(part)):
        return vars(part).values() if hasattr(part, "__dict__") else ()
    return ()


def _cells(function: FunctionType) -> Iterable[object]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty one
            yield cell.cell_contents


def _inside_runnable(part: Runnable[Never, object]) -> Iterable[object]:
    match part:
        case RunnableCallable():
            return part.func, part.afunc
        case RunnableSeq() | RunnableSequence():
            return part.steps
        case RunnableBindingBase():
            return (part.bound,)
        case RunnableParallel():
            return part.steps__.values()
        case RunnableLambda():
            return (*part.deps, getattr(part, "func", None), getattr(part, "afunc", None))
        case RunnableWithFallbacks():
            return part.runnable, *part.fallbacks
        case RunnableBranch():
            return *(branch for pair in part.branches for branch in pair), part.default
        case _:
            return vars(part).values() if hasattr(part, "__dict__") else ()


def _is_own(kind: type) -> bool:
    """Return whether a class is neither of Python nor of a library: an object that has nodes as methods."""
    module = kind.__module__
    is_of_python = module.partition(".")[0] in sys.stdlib_module_names
    return not is_of_python and not module.startswith((*_LIBRARIES, "langchain."))
