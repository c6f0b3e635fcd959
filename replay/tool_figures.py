"""The use of tools: calls, errors, tokens and times, by tool, by agent and by session.

    collector = ToolCollector()                                               live
    outcome = await session.ask("...")
    usage = await collector.follow(session.events(collector.seen() + 1), outcome.head[0])

    usage = tool_usage(Recording.open("callboard.db").events)                 of a recording

Both see the same events, so a recording gives the same report. A log without telemetry has all figures that
its events hold: calls, ends, latencies and estimated tokens.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.token_estimates import estimated_tokens

_ERRORS: Final = ("error", "interrupted")


class Latency(NamedTuple):
    """Milliseconds from a call to its answer: the mean, and what half and 95 % of the calls do not exceed."""

    mean_ms: float
    p50_ms: int
    p95_ms: int


class ToolFigures(NamedTuple):
    """The figures of some calls.

    calls: all of them. running: those without an answer. errors: answers that are an error, or an effect that
    is not known. cancelled: calls that never started.
    tokens_out_estimated: of what models read. latency: of the answered calls; None for none.
    cache_hits, cache_misses: of tools whose results may be given again.
    duration_us, cpu_us, retries: sums, as far as tools measured them. metrics: sums of the tools' own.
    """

    calls: int
    running: int
    errors: int
    cancelled: int
    tokens_out_estimated: int
    latency: Latency | None
    cache_hits: int
    cache_misses: int
    duration_us: int
    cpu_us: int
    retries: int
    metrics: Mapping[str, float]

    @property
    def error_rate(self) -> float | None:
        """Return the share of answered calls that are errors; None without an answer."""
        return _share(self.errors, self.calls - self.running)

    @property
    def cache_hit_rate(self) -> float | None:
        """Return the share of hits among the calls that the cache was asked about; None for none."""
        return _share(self.cache_hits, self.cache_hits + self.cache_misses)


class ToolUsage(NamedTuple):
    """The use of tools up to event `at`, the last one that was taken in.

    by_tool: in the order of names. by_agent, by_session: in that of first calls.
    """

    at: int
    total: ToolFigures
    by_tool: Mapping[str, ToolFigures]
    by_agent: Mapping[str, ToolFigures]
    by_session: Mapping[str, ToolFigures]


class _Sums(msgspec.Struct):
    """The sums for one tool or agent. It keeps a number for each answered call: its latency."""

    calls: int = 0
    statuses: Counter[str] = msgspec.field(default_factory=Counter)
    tokens: int = 0
    latencies: list[int] = []
    uses: Counter[str] = msgspec.field(default_factory=Counter)
    duration_us: int = 0
    cpu_us: int = 0
    retries: int = 0
    metrics: defaultdict[str, float] = msgspec.field(default_factory=lambda: defaultdict(float))

    def answer(self, body: ToolReturned, latency_ms: int, tokens: int) -> None:
        """Take in the answer to a call."""
        self.statuses[body.status] += 1
        self.latencies.append(latency_ms)
        self.tokens += tokens
        if (told := body.telemetry) is None:
            return
        self.uses[told.cache] += 1
        self.duration_us += told.duration_us or 0
        self.cpu_us += told.cpu_us or 0
        self.retries += told.retries
        for metric in told.metrics:
            self.metrics[metric.name] += metric.value

    def figures(self) -> ToolFigures:
        """Return the figures."""
        return ToolFigures(
            self.calls,
            self.calls - self.statuses.total(),
            sum(self.statuses[one] for one in _ERRORS),
            self.statuses["cancelled"],
            self.tokens,
            _latency(self.latencies),
            self.uses["hit"],
            self.uses["miss"],
            self.duration_us,
            self.cpu_us,
            self.retries,
            dict(sorted(self.metrics.items())),
        )


class ToolCollector:
    """Collects the usage of tools. Feed it every event of a session in order, by `add` or `follow`.

    It can collect several sessions, side by side or one after the other.
    """

    def __init__(self) -> None:
        self._at = 0
        self._seen: dict[str, int] = {}
        self._calls: dict[tuple[str, int], Event] = {}
        self._total = _Sums()
        self._by_tool: defaultdict[str, _Sums] = defaultdict(_Sums)
        self._by_agent: defaultdict[str, _Sums] = defaultdict(_Sums)
        self._by_session: defaultdict[str, _Sums] = defaultdict(_Sums)

    def add(self, event: Event, session: str = "") -> None:
        """Add the next event. session: its id, if events of several are collected."""
        self._at = self._seen[session] = event.seq
        body = event.body
        if isinstance(body, CallTool):
            self._calls[session, event.seq] = event
            for sums in self._sums_of(event, body, session):
                sums.calls += 1
        elif isinstance(body, ToolReturned):
            self._answer(event, body, session)

    def seen(self, session: str = "") -> int:
        """Return the seq of the last event of a session that was taken in; 0 for none."""
        return self._seen.get(session, 0)

    async def follow(
        self, events: AsyncIterator[Event], upto: int | None = None, session: str = ""
    ) -> ToolUsage:
        """Follow the events of a live session, and return the use of tools.

        events: `session.events()`, from the first one that the collector does not have. upto: the seq of the
        last one, such as `outcome.head[0]`; None for all until the session ends. `report` can be called
        meanwhile. session: as of `add`.
        """
        try:
            while upto is None or self.seen(session) < upto:
                self.add(await anext(events), session)
        except StopAsyncIteration:
            pass
        finally:
            if isinstance(events, AsyncGenerator):  # else it would watch the session until it is collected
                await events.aclose()
        return self.report()

    def _answer(self, event: Event, body: ToolReturned, session: str) -> None:
        call = self._calls.pop((session, event.cause), None)
        if call is None or not isinstance(call.body, CallTool):
            return
        tokens, latency_ms = tokens_of(body), max(0, event.at - call.at)
        for sums in self._sums_of(call, call.body, session):
            sums.answer(body, latency_ms, tokens)

    def _sums_of(self, event: Event, call: CallTool, session: str) -> tuple[_Sums, ...]:
        return self._total, self._by_tool[call.tool], self._by_agent[event.sender], self._by_session[session]

    def report(self) -> ToolUsage:
        """Return the use of tools so far."""
        by_tool = {name: self._by_tool[name].figures() for name in sorted(self._by_tool)}
        by_agent = {name: sums.figures() for name, sums in self._by_agent.items()}
        by_session = {name: sums.figures() for name, sums in self._by_session.items()}
        return ToolUsage(self._at, self._total.figures(), by_tool, by_agent, by_session)


def tool_usage(events: Iterable[Event]) -> ToolUsage:
    """Return the use of tools in these events, which begin with the first of their session."""
    collector = ToolCollector()
    for event in events:
        collector.add(event)
    return collector.report()


def tokens_of(body: ToolReturned) -> int:
    """Return the estimated tokens that a model reads of an answer: as its telemetry says, if it has any."""
    told = body.telemetry.tokens_out_estimated if body.telemetry else None
    return estimated_tokens(bytes(body.output).decode()) if told is None else told


def _latency(found: list[int]) -> Latency | None:
    if not found:
        return None
    ordered = sorted(found)
    return Latency(sum(ordered) / len(ordered), _rank(ordered, 50), _rank(ordered, 95))


def _rank(ordered: list[int], percent: int) -> int:
    """Return the smallest value that so many percent of the values do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
