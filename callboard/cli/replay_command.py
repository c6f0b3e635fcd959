"""`callboard replay`: a session decided again by changed agents, on its recorded answers."""

from collections.abc import Sequence
from typing import Final

import click
from rich.text import Text

from callboard.cli.changed_agents import replay_with
from callboard.cli.errors import DIVERGED, refuse_if
from callboard.cli.options import full_option, json_option, log_option, session_argument
from callboard.cli.output import emit_json, emit_lines
from callboard.cli.recordings import open_place
from callboard.cli.terminal_escape import safe_line
from callboard.replay.changed.result import (
    ChangedReplay,
    DecisionDifference,
    RequestDifference,
    found_lines,
    more,
    who,
)
from callboard.replay.formats import counted

_LINES: Final = 40  # of a diff
_AGENTS: Final = 3  # whose requests are shown as diffs
_MORE: Final = 20  # further decisions
_CHARS: Final = 2_000
_STYLES: Final = {"+": "green", "-": "red", "@": "dim"}


@click.command("replay")
@session_argument
@click.option("--with", "spec", metavar="MODULE:AGENT", required=True, help="The host agent as it is now.")
@click.option("--strict", is_flag=True, help="Exit code 5 also for requests that differ.")
@full_option
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The time that each task of the agents' process may take.",
)
@log_option
@json_option
def replay(
    session: str, spec: str, strict: bool, full: bool, timeout_s: float, log: str, as_json: bool
) -> int:
    """Repeat the decisions of a session with changed agents, without any call.

    The answers of models, tools and people are the recorded ones. The output begins with the changes of the
    agents' definitions, followed by the first request that differs for each agent, and the first decision
    that differs. MODULE is loaded, and programs are executed, in a separate process without network and
    subprocesses. The exit code is 5 if a decision differs. docs/replay-changes.md says when a recorded answer
    is used.

    To step through a session as it was, use `callboard events --step`.

    \b
    Examples:
      callboard replay --with survey:host
      callboard replay 2026 --with survey:host --strict
    """
    recording, seq = open_place(log, session)
    refuse_if(seq is not None, "a session is replayed whole: leave #SEQ out")
    found = replay_with(recording, spec, timeout_s)
    if as_json:
        emit_json(changed_json(found, spec))
    else:
        emit_lines(changed_lines(found, spec, is_full=full), is_whole=full)
    return DIVERGED if found.decisions or (strict and found.requests) else 0


def changed_lines(found: ChangedReplay, spec: str, *, is_full: bool) -> list[Text]:
    """Return the result as styled lines. spec: of the agents. is_full: nothing is folded."""
    told = f"session {found.session_id} with {spec}: {counted(found.events, 'event')}, "
    lines = [Text(safe_line(f"{told}{counted(found.agents, 'agent')}; no model was called", _CHARS))]
    if found.first_difference:
        lines.append(Text(safe_line(f"first difference: {found.first_difference}", _CHARS), style="bold"))
    if found.profiles:
        lines += [Text("agents", style="bold"), *_diff(found.profiles, is_full=is_full)]
    lines += _requests(found.same_requests(), is_full=is_full)
    lines += _decisions(found.same_decisions(), is_full=is_full)
    return lines


def _requests(requests: Sequence[Sequence[RequestDifference]], *, is_full: bool) -> list[Text]:
    """Return the requests that differ. requests: those that differ alike together."""
    lines = []
    for place, same in enumerate(requests):
        one = same[0]
        head = f"#{one.seq}  {who(one.agent, same)}: the request of turn {one.turn} differs"
        lines.append(Text(safe_line(head), style="bold"))
        if is_full or place < _AGENTS:
            lines += _diff(one.lines, is_full=is_full)
    return lines or [Text("every request is as recorded")]


def _decisions(decisions: Sequence[Sequence[DecisionDifference]], *, is_full: bool) -> list[Text]:
    if not decisions:
        return [Text("every decision is as recorded")]
    first = f"first decision that differs{more(decisions[0])}"
    lines = [Text(safe_line(first), style="bold"), *_decision(decisions[0][0])]
    return lines + _others(decisions[1:], is_full=is_full)


def _others(decisions: Sequence[Sequence[DecisionDifference]], *, is_full: bool) -> list[Text]:
    others = decisions if is_full else decisions[:_MORE]
    lines = [Text("the first of other actors", style="bold")] * bool(others)
    for alike in others:
        lines += [Text(f"  {safe_line(more(alike).removeprefix(', '))}")] * (len(alike) > 1)
        lines += _decision(alike[0])
    if (left := len(decisions) - len(others)) > 0:
        lines.append(Text(f"… {left:,} more; --full lists them", style="dim"))
    return lines


def _decision(one: DecisionDifference) -> list[Text]:
    place, recorded, now = found_lines(one)
    return [
        Text(f"  {safe_line(place, _CHARS)}"),
        Text(f"    {safe_line(recorded, _CHARS)}", style="red"),
        Text(f"    {safe_line(now, _CHARS)}", style="green"),
    ]


def _diff(diff: Sequence[str], *, is_full: bool) -> list[Text]:
    shown = diff if is_full else diff[:_LINES]
    # The mark is set apart: `safe_line` takes the spaces at the beginning of a line away.
    lines = [
        Text(f"  {line[:1]}{safe_line(line[1:], _CHARS)}", style=_STYLES.get(line[:1], "")) for line in shown
    ]
    if len(shown) < len(diff):
        lines.append(Text(f"  … {len(diff) - len(shown):,} more lines; --full shows them", style="dim"))
    return lines


def changed_json(found: ChangedReplay, spec: str) -> dict[str, object]:
    """Return the result for `--json`."""
    return {
        "session": found.session_id,
        "with": spec,
        "events": found.events,
        "agents": found.agents,
        "same": found.is_same,
        "first_difference": found.first_difference,
        "profiles": found.profiles,
        "requests": [one._asdict() for one in found.requests],
        "decisions": [one._asdict() for one in found.decisions],
    }
