"""A tool: a function, and what a model and the runtime must know of it.

    @tool(effect="read")
    def read_file(path: str, ctx: ToolContext) -> str:
        '''The text of a file.'''

The schema comes from the signature, the descriptions from the docstring. A tool with a schema of its own
(from an MCP server, say) is made with `Tool(...)`; its function gets the arguments as one dict.
"""

import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Generic, ParamSpec, TypeVar, get_args, overload

import msgspec

from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import Approval, Effect, ToolSpec
from callboard.actors.protocol.prompts import RESERVED
from callboard.runtime.sanitize import check_json, clean_text, to_json
from callboard.runtime.tools.arguments import Bound, DictSignature, Function, Signature
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.docstrings import described
from callboard.runtime.tools.signature import context_parameter, typed_signature, undecorated

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OWN_KEYS = frozenset({"name", "description", "input_schema"})

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Tool:
    """A tool with a ready JSON schema, or, made by `@tool`, with one from a signature.

    name: 1 to 64 letters, digits, `_` and `-`. input_schema: of an object, sent as it is. function: sync
    (runs on a thread) or async (runs on the loop); gets the arguments as one dict and, if a parameter is
    annotated `ToolContext`, the context. Arguments are checked only for missing and, where
    `additionalProperties` is false, unknown names: the rest is the function's own business.
    effect: what a call does to the world; decides what happens to it after a crash.
    timeout_s: seconds a call may take, where that is less than the agent's `tool_timeout_s`.
    approval: when a person is asked: `before` each call, before an `interrupted` one runs again (a crash left
    its effect unknown), `always` (both), or `never`.
    extra: further keys of the tool's definition, sent as they are (`{"strict": True}`).

    signature: how arguments are checked and passed instead; `@tool` makes one from the annotations.

    Raises InvalidAgent for a tool that cannot work.
    """

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: Mapping[str, object] | Json,
        function: Function,
        effect: Effect = "write",
        timeout_s: float | None = None,
        extra: Mapping[str, object] | Json | None = None,
        *,
        approval: Approval = "never",
        signature: Signature | None = None,
    ) -> None:
        _check_name(name)
        _check_function(name, function)
        if effect not in get_args(Effect):
            raise InvalidAgent(f"tool {name}: effect is read, idempotent or write, not {effect!r}")
        if approval not in get_args(Approval):
            raise InvalidAgent(
                f"tool {name}: approval is never, before, interrupted or always, not {approval!r}"
            )
        if timeout_s is not None and not 0 < timeout_s < math.inf:
            raise InvalidAgent(f"tool {name}: timeout_s is a positive number of seconds, not {timeout_s!r}")
        if not isinstance(description, str):
            raise InvalidAgent(f"tool {name}: description is text, not {description!r:.100}")
        schema = _object_of(name, "input_schema", input_schema)
        self.name = name
        self.effect: Effect = effect
        self.timeout_s = timeout_s
        self.function = function
        self.is_async = is_async(function)
        self._signature = signature or DictSignature(
            name, _checked_schema(name, schema), context_parameter(function)
        )
        self._spec = ToolSpec(name, clean_text(description), schema, effect, _extra(name, extra), approval)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, effect={self.effect!r})"

    @property
    def description(self) -> str:
        """What the model is told of it."""
        return self._spec.description

    @property
    def input_schema(self) -> Json:
        """The JSON schema of its arguments."""
        return self._spec.input_schema

    def spec(self) -> ToolSpec:
        """What goes into the log and to the model."""
        return self._spec

    def bind(self, arguments: Json, ctx: ToolContext) -> Bound:
        """A call of the function with these arguments. Raises InvalidPrompt with a text for the model."""
        return self._signature.bind(self.function, arguments, ctx)


class FunctionTool(Tool, Generic[P, R_co]):
    """A tool made of a typed function by `@tool`; calling it calls the function."""

    function: Callable[P, R_co]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, unchecked: for your own code and tests."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R_co], /) -> FunctionTool[P, R_co]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout_s: float | None = None,
    extra: Mapping[str, object] | Json | None = None,
    approval: Approval = "never",
) -> Callable[[Callable[P, R_co]], FunctionTool[P, R_co]]: ...


def tool(
    function: Callable[P, R_co] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    timeout_s: float | None = None,
    extra: Mapping[str, object] | Json | None = None,
    approval: Approval = "never",
) -> FunctionTool[P, R_co] | Callable[[Callable[P, R_co]], FunctionTool[P, R_co]]:
    """Turn a typed function, sync or async, into a tool.

    Every parameter needs an annotation that JSON can carry; one annotated `ToolContext` is filled in by
    the runtime. The docstring's first paragraph is the description, its `Args:` describe the parameters,
    and `Annotated[int, Meta(ge=1, description="...")]` says more. name, description: instead of the
    function's own. effect: `read` and `idempotent` calls are run again after a crash, `write` ones never.
    timeout_s: seconds a call may take. approval: whether a person is asked, see `Tool`. Raises InvalidAgent
    saying what to change.

    >>> @tool(effect="read")
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add.spec().description, add(2)
    ('Add two numbers.', 3)
    """

    def make(function: Callable[P, R_co]) -> FunctionTool[P, R_co]:
        own_name = str(name or getattr(function, "__name__", ""))
        _check_name(own_name)
        _check_function(own_name, function)
        signature = typed_signature(function, own_name)
        told = described(undecorated(function).__doc__).summary if description is None else description
        made: FunctionTool[P, R_co] = FunctionTool(
            own_name,
            told,
            signature.schema,
            function,
            effect,
            timeout_s,
            extra,
            approval=approval,
            signature=signature,
        )
        functools.update_wrapper(made, function, updated=())
        return made

    return make if function is None else make(function)


def is_async(function: Function) -> bool:
    """Whether calling the function makes a coroutine; looks through partials and callable objects."""
    function = undecorated(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidAgent(
            f"a tool cannot be named {name!r:.100}: models know names of 1 to 64 letters, digits, _ and -; "
            'give it one with name="..."'
        )
    if name in RESERVED:
        raise InvalidAgent(
            f"a tool cannot be named {name!r}: the runtime has its own of that name; rename it"
        )


def _check_function(name: str, function: Function) -> None:
    if not callable(function) or isinstance(function, type | Tool):
        raise InvalidAgent(
            f"tool {name}: {function!r:.100} is not a function; give a plain or an async function"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidAgent(
            f"tool {name}: a generator gives no single result; return a list instead of yielding"
        )


def _object_of(name: str, key: str, value: Mapping[str, object] | Json) -> Json:
    """A JSON object in its own key order."""
    try:
        data = check_json(bytes(value)) if isinstance(value, msgspec.Raw) else to_json(dict(value))
    except (InvalidPrompt, TypeError, ValueError) as error:
        raise InvalidAgent(f"tool {name}: {key} is no JSON object: {error}") from None
    if not bytes(data).startswith(b"{"):
        raise InvalidAgent(f"tool {name}: {key} is no JSON object; give a dict")
    return data


def _checked_schema(name: str, schema: Json) -> dict[str, object]:
    values = msgspec.json.decode(schema, type=dict[str, object])
    if values.get("type") != "object":
        raise InvalidAgent(
            f'tool {name}: models send an object of arguments, so input_schema needs "type": "object"'
        )
    return values


def _extra(name: str, extra: Mapping[str, object] | Json | None) -> Json:
    if extra is None or extra == NULL:
        return NULL
    data = _object_of(name, "extra", extra)
    if taken := _OWN_KEYS & msgspec.json.decode(data, type=dict[str, object]).keys():
        raise InvalidAgent(
            f"tool {name}: extra may not hold {', '.join(sorted(taken))}; they have arguments of their own"
        )
    return data
