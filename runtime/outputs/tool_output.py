"""`ToolOutput`: the answer of a tool with the parts that models, programs and people read of it.

models      one rendering: a summary, with more or less of the result
programs    the result
people      all of it, and the telemetry, in the log
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.telemetry import Metric, Telemetry

ResponseFormat: TypeAlias = Literal["concise", "standard", "detailed", "raw"]
"""The part of an output that a model reads: the summary, with type and size, with the result, or it alone."""

Encoding: TypeAlias = Literal["json", "yaml", "xml", "toon", "auto"]
"""The way in which a result is written. `auto` is the shortest, by estimate, of those that keep types."""

NO_TELEMETRY: Final = Telemetry()


def _check(name: str, value: object, words: object) -> None:
    if value not in get_args(words):
        *most, last = get_args(words)
        raise MisuseError(f"{name} is {', '.join(most)} or {last}, not {value!r:.80}")


class OutputError(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """The error that a tool ended with.

    code: a short name for programs. message: for the model. cause: the exception, whose traceback goes into
    the log; None for none.
    """

    code: str
    message: str = ""
    cause: BaseException | None = None


class OutputRules(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """The rules by which the outputs of a tool are rendered, unless an output says otherwise.

    format, encoding: as of `ToolOutput`. show: names of metrics and metadata that a tool copies into its
    result for the model, in the detailed format. observation: True begins with `Observation:`, as ReAct has
    it, and prefers the output's own observation to its summary.

    Raises MisuseError for a name that is not known.
    """

    format: ResponseFormat = "standard"
    encoding: Encoding = "json"
    show: tuple[str, ...] = ()
    observation: bool = False

    def __post_init__(self) -> None:
        _check("format", self.format, ResponseFormat)
        _check("encoding", self.encoding, Encoding)
        if not isinstance(self.show, tuple) or not all(isinstance(name, str) for name in self.show):
            raise MisuseError(f"show={self.show!r:.80}: give a tuple of names of metrics and metadata")


DEFAULT_RULES: Final = OutputRules()


_KINDS: Final = (
    (("summary", "observation", "checkpoint"), str, "text"),
    (("metadata", "state_update"), Mapping, "a dict"),
    (("telemetry",), Telemetry, "a Telemetry"),
    (("error",), (OutputError, type(None)), "an OutputError"),
)


class ToolOutput(msgspec.Struct, frozen=True, metaclass=NamedFields):
    """The output of a tool. Return it in place of a plain value.

    result: any value that JSON can hold. summary: a few words about it; without one it gets one by rule.
    observation: other words for a ReAct agent. error: instead of a result.
    response_format, compressed: how much of it the model reads, and how the result is written; None for the
    rules of the tool.
    telemetry: figures of the tool's own, see `metrics`. metadata: further facts. Both go into the log, and
    into no text for a model unless the tool's `show` names them.
    state_update: updates of the shared state, by key. checkpoint: a name for this place of the log.

    Raises MisuseError for a part of the wrong type.

    >>> ToolOutput([1, 2], summary="two numbers").summary
    'two numbers'
    """

    result: object = None
    summary: str = ""
    observation: str = ""
    response_format: ResponseFormat | None = None
    compressed: Encoding | None = None
    telemetry: Telemetry = NO_TELEMETRY
    metadata: Mapping[str, object] = {}
    state_update: Mapping[str, object] = {}
    checkpoint: str = ""
    error: OutputError | None = None

    def __post_init__(self) -> None:
        _check("response_format", self.response_format or DEFAULT_RULES.format, ResponseFormat)
        _check("compressed", self.compressed or DEFAULT_RULES.encoding, Encoding)
        for names, kind, words in _KINDS:
            _check_kinds(self, names, kind, words)


def _check_kinds(output: ToolOutput, names: Iterable[str], kind: Any, words: str) -> None:
    for name in names:
        if not isinstance(value := getattr(output, name), kind):
            raise MisuseError(f"ToolOutput({name}=...) is {words}, not {value!r:.80}")


def metrics(**figures: float) -> tuple[Metric, ...]:
    """Return figures by name, for `Telemetry(metrics=...)`. One that is not finite is left out.

    >>> Telemetry(metrics=metrics(rows_read=3)).metrics[0].value
    3.0
    """
    # An exception would be that of a tool that has run.
    return tuple(Metric(name, value) for name, value in figures.items() if _is_finite(value))


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond those
        return False
