"""The values that an orchestrator and its specialists exchange, all of them plain JSON.

    question -> QueryIntent -> SpecialistContext -> SpecialistResult -> OrchestratorResult

`SpecialistContext` is the input contract of every specialist, and `SpecialistResult` its report.

The run of a policy: an async function that drives a specialist without a model.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.errors import CallFailed, MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.usage import Usage
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.output_types import OutputType, output_type

T = TypeVar("T")


class QueryIntent(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """The meaning of a question, as far as routing needs it.

    primary, secondary: capabilities that the question asks for; "" and () for none.
    requires_multi_hop: one specialist's finding is the next one's question.
    hints: values that the question names, such as {"table": ["6-2"]}.
    """

    primary: str = ""
    secondary: tuple[str, ...] = ()
    requires_multi_hop: bool = False
    hints: dict[str, list[str]] = {}


class ToolUse(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """A tool call behind an answer."""

    tool: str
    arguments: dict[str, Any] = {}


class SpecialistResult(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """The result of a specialist.

    content: the answer. sources: the places that prove it. error: why there is no answer. confidence: 0 to 1.
    tool_calls: those behind it, each {"tool", "arguments"}. data: `cells`, the table cells used, each
    {"table", "row", "column", "value"}; `open`, the questions left.
    """

    # Each model-driven specialist reads this text with its report tool, so it is short.
    success: bool
    content: str = ""
    sources: tuple[str, ...] = ()
    tool_calls: tuple[ToolUse, ...] = ()
    data: dict[str, Any] = {}
    error: str = ""
    confidence: float = 0.0

    @classmethod
    def from_report(cls, report: str) -> "SpecialistResult":
        """Read the report of a specialist; any text that is not such JSON is the content of one."""
        try:
            return msgspec.json.decode(report, type=cls)
        except msgspec.DecodeError:
            return cls(bool(report.strip()), report)

    @staticmethod
    def schema() -> JsonObject:
        """Return the JSON schema of a report, for a specialist that is an agent of another framework."""
        found: JsonObject = msgspec.json.decode(bytes(REPORT.schema))
        return found


def _report_type() -> OutputType:
    full = output_type(SpecialistResult)
    schema = msgspec.json.decode(bytes(full.schema))
    parts = {name: {**part} for name, part in schema["properties"].items()}
    for part in parts.values():
        part.pop("default", None)
    parts["tool_calls"]["items"] = {"type": "object"}
    words = " ".join(schema["description"].partition("\n\n")[2].split())
    short = {"type": "object", "description": words, "properties": parts, "required": schema["required"]}
    return replace(full, schema=to_json(short, what="The report's schema"))


REPORT: Final[Any] = _report_type()  # an output type of our own, for `output_schema`
"""`SpecialistResult` with a short schema, since every specialist sends it with each of its requests.

It has no titles and no defaults, and does not say what a tool call looks like: the type checks that.
"""


class Finding(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """The result of a specialist that was asked. specialist: its name. kind: the end of its delegation."""

    specialist: str
    result: SpecialistResult
    kind: str = "reported"

    @classmethod
    def from_value(cls, specialist: str, value: object) -> "Finding":
        """Read a report that is a JSON value. One of another form is a finding without an answer."""
        try:
            return cls(specialist, msgspec.convert(value, SpecialistResult))
        except msgspec.ValidationError as error:
            return cls(specialist, SpecialistResult(False, error=f"no report: {error}"), "no_report")


class Exchange(msgspec.Struct, frozen=True, gc=True):
    """An earlier question of the same session, and its merged answer in words."""

    question: str
    answer: str


class SpecialistContext(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """The input of a specialist, which is the contract for its callers.

    query: the question. scope: names within which it may search; () for all. hints: as of `QueryIntent`.
    max_iterations: the model calls that it may make. found: the findings of specialists before it.
    earlier: the last questions of the session with their answers, unset for its first question.
    """

    query: str
    scope: tuple[str, ...] = ()
    hints: dict[str, list[str]] = {}
    max_iterations: int = 0
    found: tuple[Finding, ...] = ()
    earlier: tuple[Exchange, ...] | msgspec.UnsetType = msgspec.UNSET

    def prompt(self) -> str:
        """Return the prompt of a specialist without a contract: the question, or JSON where there is more."""
        has_more = self.scope or self.hints or self.found or self.earlier
        return msgspec.json.encode(self).decode() if has_more else self.query


class Conflict(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """Two values for one table cell. values: by the name of the specialist that found each."""

    table: str
    row: str
    column: str
    values: dict[str, str]


class Missing(msgspec.Struct, frozen=True, gc=True):
    """A specialist without an answer, and the reason."""

    specialist: str
    reason: str


class OrchestratorUsage(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """The usage of an orchestrated question: in total, and by the name of the specialist."""

    total: Usage = Usage()
    specialists: dict[str, Usage] = {}


class OrchestratorResult(msgspec.Struct, frozen=True, gc=True, metaclass=NamedFields):
    """The merged answer.

    success: at least one specialist answered. content: the answers, and a last line that names the missing
        ones. data: `specialists` (the data of each), `intent`, `route` (those asked, in order), `missing`.
    confidence: the highest of the answers; with conflicts, the lowest. usage: filled in by
        `Orchestrator.result`, because no agent knows the usage of others while it runs.
    """

    success: bool
    content: str = ""
    sources: tuple[str, ...] = ()
    tool_calls: tuple[ToolUse, ...] = ()
    data: dict[str, Any] = {}
    error: str = ""
    confidence: float = 0.0
    conflicts: tuple[Conflict, ...] = ()
    usage: OrchestratorUsage = OrchestratorUsage()


class Question(msgspec.Struct, frozen=True, gc=True, forbid_unknown_fields=True, metaclass=NamedFields):
    """The prompt of an orchestrator with a question and a scope, as in `SpecialistContext`."""

    query: str
    scope: tuple[str, ...] = ()

    def prompt(self) -> str:
        """Return the prompt: the question itself without a scope, else JSON."""
        return msgspec.json.encode(self).decode() if self.scope else self.query

    @classmethod
    def from_prompt(cls, prompt: str) -> "Question":
        """Read a prompt; any text that is not such JSON is a question."""
        try:
            return msgspec.json.decode(prompt, type=cls)
        except msgspec.DecodeError:
            return cls(prompt)


def known_names(what: str, names: Sequence[str], known: Mapping[str, object]) -> None:
    """Raise MisuseError for a name that is not known. what: its use, for the error."""
    for name in names:
        if name not in known:
            raise MisuseError(f"{what} names {name!r}; there are {', '.join(sorted(known)) or 'none'}")


def returned(who: str, value: object, kind: type[T]) -> T:
    """Return the value of a user's function, named `who`. Raises MisuseError for one of another type."""
    if not isinstance(value, kind):
        raise MisuseError(f"{who} returned {value!r:.80}; it returns a value of {kind.__name__}")
    return value


class PolicyRun:
    """The tool calls that a policy makes, and the result that names them.

    ctx, context: as the policy gets them. calls: those made so far.
    """

    def __init__(self, ctx: ProgramContext, context: SpecialistContext) -> None:
        self.ctx, self.context = ctx, context
        self.calls: list[ToolUse] = []

    async def call(self, tool: str, **arguments: object) -> Any:
        """Call a tool of the specialist, and return its result; None if the call fails."""
        self.calls.append(ToolUse(tool, dict(arguments)))
        try:
            return await self.ctx.call(tool, **arguments)
        except CallFailed:
            return None

    def answer(
        self, content: str, sources: Iterable[str], confidence: float, data: Mapping[str, Any] | None = None
    ) -> SpecialistResult:
        """Return an answer. sources: the places that prove it, without repetitions.

        confidence: from 0 to 1. data: as of `SpecialistResult`.
        """
        places = tuple(dict.fromkeys(sources))
        return SpecialistResult(
            True, content, places, tuple(self.calls), dict(data or {}), confidence=confidence
        )

    def refuse(self, why: str) -> SpecialistResult:
        """Return a result without an answer. why: the reason, which the orchestrator passes on."""
        return SpecialistResult(False, tool_calls=tuple(self.calls), error=why)
