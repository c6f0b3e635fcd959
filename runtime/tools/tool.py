"""A tool: a function, and its description for models and for the runtime.

    @tool(effect="read")
    def read_file(path: str, ctx: ToolContext) -> str:
        '''The text of a file.'''

The schema comes from the signature, the descriptions from the docstring. `Tool(...)` makes a tool with a
ready schema, for example from an MCP server. Its function gets the arguments as one dict.
"""

import functools
import inspect
import math
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, get_args, overload

import msgspec

from callboard.actors.protocol.bundle_entries import listed
from callboard.actors.protocol.bundles import UNTRUSTED
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt, MisuseError
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import millis
from callboard.actors.protocol.profiles import Approval, CacheRules, ToolOrigin, ToolSpec
from callboard.actors.protocol.prompts import RESERVED
from callboard.runtime.outputs.tool_output import OutputRules, ResponseFormat
from callboard.runtime.outputs.unified import unified
from callboard.runtime.sanitize import check_json, clean_text, to_json
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.docstrings import described
from callboard.runtime.tools.results import refuse_result
from callboard.runtime.tools.signature import (
    Bound,
    DictSignature,
    Function,
    Signature,
    context_parameter,
    typed_signature,
    undecorated,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OWN_KEYS = frozenset({"name", "description", "input_schema"})
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class ToolPlace(Protocol):
    """A place outside this process where the functions of tools run."""

    def placed(self, function: Function, tool: str) -> Function:
        """Return an async function that runs this one there; its first argument is the context of the call.

        Raises InvalidAgent for a function that cannot run there.
        """
        ...


class Tool:
    """A tool with a ready JSON schema; `@tool` makes one with a schema from a signature.

    name: 1 to 64 letters, digits, `_` and `-`. input_schema: of an object. The model reads it unchanged.
    function: a sync one runs on a thread, an async one on the loop. It gets the arguments as one dict and, if
        a parameter is annotated `ToolContext`, the context. Arguments are checked for missing names and,
        where `additionalProperties` is false, for unknown ones. The function checks the rest.
    effect: of a call on the world, which decides about the call after a crash.
    timeout_s: seconds that a call may take, where that is less than the agent's `tool_timeout_s`.
    approval: the calls that a person has to approve: each one (`before`), an interrupted one before it runs
        again (`interrupted`, since a crash left its effect unknown), both (`always`), or no call (`never`).
    approval_timeout_s: seconds that the question waits, where that is less than `Limits.approval_timeout_s`.
    extra: further keys of the tool's definition (`{"strict": True}`).
    signature: checks and passes arguments instead; `@tool` makes one from the annotations.
    origin: as of its `ToolSpec`, for a `ToolSource`. capabilities: that a call needs, such as `network`, so
        that permissions can forbid it. labels: of each result, such as `untrusted` (docs/permissions.md).
    version: of the function, as its author counts. output: the rules, or the format, of unified output
        (docs/tool-output.md); None for plain results.
    cache: True, or seconds, lets results of a `read` tool be given again in the same session.
        cache_over_writes: True keeps them although tools with an effect have run since.
    keep: True leaves its results in a conversation whose older ones are cleared (docs/compaction.md).
    on: the place where the function runs, such as `ray_options(num_cpus=4)` (docs/ray.md); None for this
        process.

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
        approval_timeout_s: float | None = None,
        signature: Signature | None = None,
        origin: ToolOrigin | None = None,
        capabilities: Collection[str] = (),
        labels: Collection[str] = (),
        version: str = "",
        output: OutputRules | ResponseFormat | None = None,
        cache: bool | float = False,
        cache_over_writes: bool = False,
        keep: bool = False,
        on: ToolPlace | None = None,
    ) -> None:
        _check_name(name)
        _check_function(name, function)
        _check_words(name, effect, approval)
        _check_times(name, timeout_s, approval_timeout_s)
        if not isinstance(description, str):
            raise InvalidAgent(f"tool {name}: description is text, not {description!r:.100}")
        schema = _object_of(name, "input_schema", input_schema)
        self.name = name
        self.description = clean_text(description)
        self.input_schema = schema
        self.effect: Effect = effect
        self.timeout_s = timeout_s
        self.function = function
        self.output = _rules(name, output)
        self._is_placed = on is not None
        called = function if on is None else on.placed(function, name)
        self._wrapped: Function | None = called if self._is_placed else None
        if self.output is not None:
            self._wrapped = unified(called)
        self.is_async = is_async(called)
        self._signature = signature or DictSignature(
            name, _checked_schema(name, schema), context_parameter(function)
        )
        self.takes_context = bool(self._signature.context) or self.output is not None or self._is_placed
        needs, states = _names(name, "capabilities", capabilities), _names(name, "labels", labels)
        own = (_extra(name, extra), approval, millis(approval_timeout_s), origin, needs, states, version)
        cached = _cache(name, effect, cache, over_writes=cache_over_writes)
        if not isinstance(keep, bool):
            raise InvalidAgent(f"tool {name}: keep is True or False, not {keep!r:.40}")
        self._spec = ToolSpec(name, self.description, schema, effect, *own, cached, keep)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, effect={self.effect!r})"

    def spec(self) -> ToolSpec:
        """Return the tool's description for the log and the model."""
        return self._spec

    def bind(self, arguments: Json, ctx: ToolContext | None) -> Bound:
        """Bind the arguments to the function. Raises InvalidPrompt with a text for the model.

        ctx: None only for a tool without `takes_context`.
        """
        called = self._wrapped or self.function
        if self._is_placed:
            called = functools.partial(called, ctx)
        return self._signature.bind(called, arguments, ctx)


class CallOptions(TypedDict, total=False):
    """The options of `Tool` that `@tool` passes on."""

    timeout_s: float | None
    extra: Mapping[str, object] | Json | None
    approval: Approval
    approval_timeout_s: float | None
    capabilities: Collection[str]
    version: str
    output: OutputRules | ResponseFormat | None
    cache: bool | float
    cache_over_writes: bool
    keep: bool
    on: ToolPlace | None


class ToolOptions(CallOptions, total=False):
    """The options of `@tool`."""

    name: str | None
    description: str | None
    effect: Effect
    labels: Collection[str]
    untrusted: bool


class FunctionTool(Tool, Generic[P, R_co]):
    """A tool that `@tool` makes of a typed function. A call of it is a call of the function."""

    function: Callable[P, R_co]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, without checks, in your own code and tests."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R_co], /) -> FunctionTool[P, R_co]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R_co]], FunctionTool[P, R_co]]: ...


def tool(
    function: Callable[P, R_co] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool[P, R_co] | Callable[[Callable[P, R_co]], FunctionTool[P, R_co]]:
    """Turn a typed function, sync or async, into a tool.

    Every parameter needs an annotation that JSON can carry; the runtime fills one of type `ToolContext`. The
    result's annotation, if there is one, must be a type that can become JSON. The
    docstring's first paragraph is the description, its `Args:` describe the parameters, and
    `Annotated[int, Meta(ge=1, description="...")]` adds to them.

    name, description: instead of the function's own; one without a docstring warns. effect: after a crash,
    `read` and `idempotent` calls run again and `write` calls do not. timeout_s: seconds that a call may take.
    approval, approval_timeout_s, capabilities, labels, version, output, cache, cache_over_writes, keep, on:
    see `Tool`.
    A call of the tool in your own code returns the value of the function, with any `output`.
    untrusted: True labels each result as `untrusted`. Raises InvalidAgent with the correction.

    >>> @tool(effect="read")
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add.spec().description, add(2)
    ('Add two numbers.', 3)
    """

    def make(function: Callable[P, R_co]) -> FunctionTool[P, R_co]:
        return _made(function, **options)

    return make if function is None else make(function)


def _made(
    function: Callable[P, R_co],
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    labels: Collection[str] = (),
    untrusted: bool = False,
    **options: Unpack[CallOptions],
) -> FunctionTool[P, R_co]:
    """Make the tool of a function, for `tool`."""
    own_name = str(name or getattr(function, "__name__", ""))
    _check_name(own_name)
    _check_function(own_name, function)
    signature = typed_signature(function, own_name)
    refuse_result(function, own_name)
    told = _summary(own_name, function) if description is None else description
    labels = (*labels, *((UNTRUSTED,) * untrusted))
    given = (own_name, told, signature.schema, function, effect)
    made: FunctionTool[P, R_co] = FunctionTool(*given, signature=signature, labels=labels, **options)
    functools.update_wrapper(made, function, updated=())
    return made


def _summary(name: str, function: Function) -> str:
    """Return the first paragraph of the docstring. Warn if it is empty, at the line of `@tool`."""
    told = described(undecorated(function).__doc__).summary
    if not told:
        warnings.warn(
            f"tool {name} has no description, by which models choose tools: "
            "give the function a docstring, or pass description=... ('' for none)",
            stacklevel=_level_of_user(),
        )
    return told


def _level_of_user() -> int:
    """Return the stack level of the innermost frame outside callboard, as the caller of this counts it."""
    own = inspect.currentframe()
    frame, level = own and own.f_back, 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("callboard."):
        frame, level = frame.f_back, level + 1
    return level


def is_async(function: Function) -> bool:
    """Return True if a call of the function, or of its partial or object, makes a coroutine."""
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
            f"a tool cannot be named {name!r}: the runtime has a tool of its own with that name; rename it"
        )


def _check_words(name: str, effect: str, approval: str) -> None:
    for key, word, words in (("effect", effect, Effect), ("approval", approval, Approval)):
        if word not in get_args(words):
            *most, last = get_args(words)
            raise InvalidAgent(f"tool {name}: {key} is {', '.join(most)} or {last}, not {word!r}")


def _check_times(name: str, timeout_s: float | None, approval_timeout_s: float | None) -> None:
    for key, seconds in (("timeout_s", timeout_s), ("approval_timeout_s", approval_timeout_s)):
        if not 0 < (1.0 if seconds is None else seconds) < math.inf:
            raise InvalidAgent(f"tool {name}: {key} is a positive number of seconds, not {seconds!r}")


def _names(tool: str, key: str, names: Collection[str]) -> tuple[str, ...]:
    """Return capabilities or labels in one order, each once."""
    try:
        found = listed("capabilities", (names,) if isinstance(names, str) else names)
    except (TypeError, ValueError) as error:
        raise InvalidAgent(f"tool {tool}: {key} is a tuple of names, not {names!r:.80}: {error}") from None
    if any(one.endswith("*") for one in found):
        raise InvalidAgent(f"tool {tool}: {key} are single names, not {names!r:.80}")
    return found


def _rules(name: str, output: OutputRules | ResponseFormat | None) -> OutputRules | None:
    if output is None or isinstance(output, OutputRules):
        return output
    try:
        return OutputRules(output)
    except MisuseError as error:
        raise InvalidAgent(f"tool {name}: output: {error}; or give OutputRules(...)") from None


def _cache(name: str, effect: Effect, cache: bool | float, *, over_writes: bool) -> CacheRules | None:
    """Return the rules for results that are given again; None if they are not."""
    if cache is False or cache is None:
        if over_writes:
            raise InvalidAgent(f"tool {name}: cache_over_writes=True needs cache=True, or seconds")
        return None
    if effect != "read":
        raise InvalidAgent(
            f"tool {name}: only results of read tools are cached; drop cache=, or declare effect='read'"
        )
    if cache is not True and not (isinstance(cache, int | float) and 0 < cache < math.inf):
        raise InvalidAgent(f"tool {name}: cache is True, or a positive number of seconds, not {cache!r:.80}")
    return CacheRules(0 if cache is True else max(1, round(cache * 1_000)), over_writes)


def _check_function(name: str, function: Function) -> None:
    if not callable(function) or isinstance(function, type | Tool):
        raise InvalidAgent(
            f"tool {name}: {function!r:.100} is not a function; give a plain or an async function"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidAgent(
            f"tool {name}: a generator returns no single result; return a list instead of yielding"
        )


def _object_of(name: str, key: str, value: Mapping[str, object] | Json) -> Json:
    try:
        data = check_json(bytes(value)) if isinstance(value, msgspec.Raw) else to_json(dict(value))
    except (InvalidPrompt, TypeError, ValueError) as error:
        raise InvalidAgent(f"tool {name}: {key} is not a JSON object: {error}") from None
    if not bytes(data).startswith(b"{"):
        raise InvalidAgent(f"tool {name}: {key} is not a JSON object; give a dict")
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
