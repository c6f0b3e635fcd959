"""`callboard show`: a session, or one view of it: its state, its budgets, or its tools."""

from collections.abc import Mapping
from typing import Final

import click
from rich.text import Text

from callboard.cli.errors import refuse_if
from callboard.cli.folding import Folding
from callboard.cli.options import (
    check_option,
    full_option,
    json_option,
    log_flag,
    log_option,
    session_argument,
)
from callboard.cli.outcomes import usage_json
from callboard.cli.output import emit, emit_json, emit_lines, table, width_of_stdout
from callboard.cli.recordings import open_at, open_recording
from callboard.cli.state_view import emit_changes, emit_state
from callboard.cli.summary_view import emit_summary
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted, dollars, tokens
from callboard.replay.grants import Account, BudgetReport
from callboard.replay.recording import Recording
from callboard.replay.tool_figures import Latency, ToolFigures, ToolUsage, tool_usage

_SHOWN = 20
_HEADINGS: Final = ("CALLS", "ERRORS", "HITS", "TOKENS~", "MEAN", "P50", "P95")
_NAME_CHARS: Final = 24  # so that a row has at most 80 columns, and more where the terminal is wider
_FIGURES_CHARS: Final = 80 - _NAME_CHARS
_MS: Final = 1_000


@click.command("show")
@session_argument
@click.option("--at", type=int, metavar="N", help="After event N; by default after the last.")
@click.option("--state", is_flag=True, help="A summary of the states of all actors, or the state of --actor.")
@click.option("--actor", default="", metavar="A", help="With --state: host, host.1, ..., or supervisor.")
@click.option("--changes", is_flag=True, help="The fields that event N changed, and in which actor.")
@click.option("--budget", is_flag=True, help="What each agent spent and reserved; the first refusal.")
@click.option("--tools", is_flag=True, help="Calls, errors, tokens and times, by tool and by agent.")
@full_option
@check_option
@log_option
@json_option
def show(
    session: str,
    at: int | None,
    state: bool,
    actor: str,
    changes: bool,
    budget: bool,
    tools: bool,
    full: bool,
    check: bool,
    log: str,
    as_json: bool,
) -> None:
    """Summarize a session, or show one view of it. The summary has prompts, outcomes, usage and head.

    The findings of `callboard diagnose` precede the summary, on stderr, for sessions of up to 100,000 events.
    Keep the HEAD: with it, `callboard verify --head` can later prove that nothing was cut off. Digests are
    checked while the log is read, except with --actor and --changes.

    --state: the deciders recompute the state from the log, without calling a model. Without --actor, the
    shared state follows, with the agent whose tool last wrote each key. With --actor, only that actor's
    events are read, which is fast in a long session; their digests cannot be checked alone, so the answer
    says `chain not checked`, and --check reads the rest. --json prints the whole state, including the
    conversation.

    --changes: the fields that differ before and after the decision about the event. An event to a port or a
    client was posted by a decision about another event, so its changes are those of that decision.
    `shared.KEY` is a key of the shared state. Long values and conversations are folded.

    --budget: SPENT is what the agent itself spent, WITH BELOW includes the agents under it. RESERVED is held
    for model calls in flight. An agent that has ended no longer has a limit.

    --tools: ERRORS is the share of answered calls that failed or whose effect is unknown. HITS is the share
    of calls that were answered with an earlier result, among those of tools that allow it. TOKENS~ is an
    estimate of what the models read. The times are from a call to its answer: the mean, the median and the
    95th percentile. --json adds processor times and the tools' own metrics.

    \b
    Examples:
      callboard show
      callboard show 2026 --json | jq .usage.tokens
      callboard show 2026 --state --at 12
      callboard show --state --actor host --json | jq .state.history
      callboard show 2026#12 --changes
      callboard show 2026 --budget --at 1200 --json | jq .refusal
      callboard show --tools --json | jq .by_tool
    """
    views = state + changes + budget + tools
    refuse_if(views > 1, "--state, --changes, --budget and --tools are views: choose one")
    refuse_if(bool(actor) and not state, "--actor is for --state; --changes names the actor itself")
    refuse_if(check and not (state or changes), "--check is for --state and --changes: the others check")
    if state or changes:
        recording, seq = open_at(log, session, at, check=check)
        fold = Folding(is_full=full)
        if changes:
            emit_changes(recording, seq, fold, is_checked=check, as_json=as_json)
        else:
            emit_state(recording, seq, actor, fold, is_checked=check, as_json=as_json)
        fold.say()
        return
    recording, row = open_recording(log, session, at=at)
    if budget:
        emit_budget(recording, is_full=full, as_json=as_json)
    elif tools:
        emit_tools(recording, as_json=as_json)
    else:
        emit_summary(recording, row.title, is_full=full, as_json=as_json)


def emit_budget(recording: Recording, *, is_full: bool, as_json: bool) -> None:
    """Print what each agent has spent and reserved at the end of a recording, and the first refusal."""
    found = recording.budget()
    if as_json:
        emit_json(_json(recording.session_id, found))
        return
    number = len(found.accounts) if is_full else _SHOWN
    most = sorted(found.accounts, key=lambda one: -one.own.tokens)[:number]
    shown = [one for one in found.accounts if one in most]
    headings = ("AGENT", "SPENT", "WITH BELOW", "COST", "RESERVED", "LIMIT")
    emit_lines(table(list(map(_row, shown)), headings, right=(1, 2, 3, 4, 5)))
    if len(shown) < len(found.accounts):
        left = len(found.accounts) - len(shown)
        emit_lines([Text(f"{left:,} agents that spent less are left out; --full lists them", style="dim")])
    emit_lines([Text(), _refusal(recording.session_id, found)])


def _row(account: Account) -> tuple[str, ...]:
    name = account.address if account.profile == account.address else f"{account.address} {account.profile}"
    limits = [f"{account.tokens_max:,} tokens"] if account.tokens_max is not None else []
    limits += [dollars(account.micro_usd_max)] if account.micro_usd_max is not None else []
    return (
        safe_line(name, 60),
        tokens(account.own.tokens),
        tokens(account.subtree.tokens),
        dollars(account.subtree.micro_usd),
        tokens(account.reserved.tokens),
        ", ".join(limits),
    )


def _refusal(session_id: str, found: BudgetReport) -> Text:
    if found.refusal is None:
        return Text(f"no refusal by a budget up to event {found.at:,}")
    seq, agent, detail = found.refusal
    said = f"first refusal: event {seq}, {agent}{': ' + safe_line(detail, 300) if detail else ''}"
    return Text(f"{said}\n  callboard why {session_id}#{seq}{log_flag()}")


def _json(session_id: str, found: BudgetReport) -> dict[str, object]:
    accounts = [
        {
            "address": one.address,
            "agent": one.profile,
            "own": usage_json(one.own),
            "with_below": usage_json(one.subtree),
            "reserved": one.reserved,
            "tokens_max": one.tokens_max,
            "micro_usd_max": one.micro_usd_max,
        }
        for one in found.accounts
    ]
    refusal = found.refusal._asdict() if found.refusal else None
    return {"session": session_id, "at": found.at, "accounts": accounts, "refusal": refusal}


def emit_tools(recording: Recording, *, as_json: bool) -> None:
    """Print the calls, errors, tokens and times of tools up to the end of a recording."""
    found = tool_usage(recording.events)._replace(at=recording.head.seq)
    if as_json:
        emit_json({"session": recording.session_id, **_tools_json(found)})
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


def _tools_json(found: ToolUsage) -> dict[str, object]:
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
