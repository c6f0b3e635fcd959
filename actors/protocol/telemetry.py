"""The telemetry of a tool call: figures for people and programs, recorded with the call's answer.

No decider reads it and no model sees it: what a model reads of an answer is `ToolReturned.output` alone.
"""

from typing import Literal, TypeAlias

from msgspec.structs import force_setattr

from callboard.actors.protocol.immutable import NULL, Json, Part, Value
from callboard.actors.protocol.near_names import NamedFields

CacheUse: TypeAlias = Literal["", "hit", "miss"]
"""The part that the result cache had in an answer; empty for a tool without one."""


class Metric(Value, frozen=True, metaclass=NamedFields):
    """A figure that a tool reports. Raises ValueError for a value that is not a finite number."""

    name: str
    value: float

    def __post_init__(self) -> None:
        value = float(self.value)
        if value - value != 0:  # NaN and the infinities
            raise ValueError(f"the metric {self.name!r:.80} is a finite number, not {self.value!r:.40}")
        force_setattr(self, "value", value)


class Telemetry(Part, frozen=True, metaclass=NamedFields):
    """The telemetry of one call. None stands for a number that was not measured.

    tool, version: as of its description. execution: the event of the call, as SESSION#SEQ.
    at_ms: its time, in milliseconds since 1970 UTC. latency_ms: from it to the answer.
    duration_us: of the function alone, in microseconds.
    cpu_us: processor time of the thread that ran a sync function, in microseconds.
    tokens_out_estimated: of the text that the model reads, by `estimated_tokens` and not by a tokenizer.
    cache, cache_key: the part of the result cache. retries: further attempts that the tool made by itself.
    is_ok: False for an error. code, message: of the error. metrics: the tool's own figures.
    metadata: a JSON object of the tool's own, null for none.
    """

    tool: str = ""
    version: str = ""
    execution: str = ""
    at_ms: int | None = None
    latency_ms: int | None = None
    duration_us: int | None = None
    cpu_us: int | None = None
    tokens_out_estimated: int | None = None
    cache: CacheUse = ""
    cache_key: str = ""
    retries: int = 0
    is_ok: bool = True
    code: str = ""
    message: str = ""
    metrics: tuple[Metric, ...] = ()
    metadata: Json = NULL
