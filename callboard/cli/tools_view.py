"""The use of tools in a session, by tool and by agent: `callboard show --tools`."""

from collections.abc import Mapping
from typing import Final

from rich.text import Text

from callboard.cli.formats import counted, tokens
from callboard.cli.output import emit, emit_json, emit_lines, table, width_of_stdout
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.replay.tool_figures import Latency, ToolFigures, ToolUsage, tool_usage

_HEADINGS: Final = ("CALLS", "ERRORS", "HITS", "TOKENS~", "MEAN", "P50", "P95")
_NAME_CHARS: Final = 24  # so that a row has at most 80 columns, and more where the terminal is wider
_FIGURES_CHARS: Final = 80 - _NAME_CHARS
_MS: Final = 1_000


def emit_tools(recording: Recording, *, as_json: bool) -> None:
    """Print the calls, errors, tokens and times of tools up to the end of a recording."""
    found = tool_usage(recording.events)._replace(at=recording.head.seq)
    if as_json:
        emit_json({"session": recording.session_id, **_json(found)})
        return
    if not found.total.calls:
        emit(f"no tool was called up to event {found.at:,}")
        return
    emit_lines(_table("TOOL", found.by_tool))
    emit("")
    emit_lines(_table("AGENT", found.by_agent))
    emit_lines([Text(), Text(_sum(found))])


def _table(heading: str, rows: Mapping[str, ToolFigures]) -> list[Text]:
    most = max(_NAME_CHARS, width_of_stdout() - _FIGURES_CHARS)
    cells = [(safe_line(name, most), *_cells(one)) for name, one in rows.items()]
    return table(cells, (heading, *_HEADINGS), right=range(1, len(_HEADINGS) + 1))


def _cells(one: ToolFigures) -> tuple[str, ...]:
    times = [_time(value) for value in one.latency] if one.latency else ["-"] * len(Latency._fields)
    rates = (_percent(one.error_rate), _percent(one.cache_hit_rate))
    return (f"{one.calls:,}", *rates, tokens(one.tokens_out_estimated), *times)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _time(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < _MS else f"{ms / _MS:.1f} s"


def _sum(found: ToolUsage) -> str:
    total = found.total
    parts = [counted(total.calls, "call"), f"{_percent(total.error_rate)} errors"]
    parts += [f"{total.running:,} without an answer"] * bool(total.running)
    parts += [f"{_percent(total.cache_hit_rate)} hits"] * (total.cache_hit_rate is not None)
    parts.append(f"about {tokens(total.tokens_out_estimated)} tokens")
    return f"up to event {found.at:,}: {', '.join(parts)}"


def _json(found: ToolUsage) -> dict[str, object]:
    return {
        "at": found.at,
        "total": _figures(found.total),
        "by_tool": {name: _figures(one) for name, one in found.by_tool.items()},
        "by_agent": {name: _figures(one) for name, one in found.by_agent.items()},
    }


def _figures(one: ToolFigures) -> dict[str, object]:
    latency = one.latency._asdict() if one.latency else None
    rates = {"error_rate": one.error_rate, "cache_hit_rate": one.cache_hit_rate}
    return {**one._asdict(), **rates, "latency": latency}
