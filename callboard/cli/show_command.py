"""`callboard show`: a session, or one view of it."""

import click

from callboard.cli.budget_view import emit_budget
from callboard.cli.errors import refuse_if
from callboard.cli.folding import Folding
from callboard.cli.options import check_option, full_option, json_option, log_option, session_argument
from callboard.cli.recordings import open_at, open_recording
from callboard.cli.state_view import emit_changes, emit_state
from callboard.cli.summary_view import emit_summary
from callboard.cli.tools_view import emit_tools


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
