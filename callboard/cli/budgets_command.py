"""`callboard budgets`: the amounts spent in budgets above sessions, as the log keeps them."""

from collections.abc import Sequence

import click
from rich.text import Text

from callboard.actors.protocol.money import in_dollars
from callboard.actors.session.budget_keys import Reservation
from callboard.actors.session.budget_scope import Spent
from callboard.cli.options import json_option, log_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.recordings import open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import utc
from callboard.runtime.log.reading import shown_address
from callboard.runtime.log.spending import Unlogged


@click.command("budgets")
@log_option
@json_option
def budgets(log: str, as_json: bool) -> None:
    """List the amounts spent in the budgets above sessions, by scope and period.

    Amounts are reserved for calls without an answer, in sessions that run or wait for a resume. A charge that
    is `not logged` is for a call that a crash lost (docs/budgets.md). The limits are not in the log: they are
    those of `Runtime(budgets=...)`.

    \b
    Examples:
      callboard budgets
      callboard budgets --json | jq '.spent[] | select(.scope == "*")'
    """
    with open_reader(log) as reader:
        (spent, reserved), unlogged = reader.spending()
    if as_json:
        emit_json(
            {
                "log": shown_address(log),
                "spent": list(map(_spent_json, spent)),
                "reserved": list(map(_call_json, reserved)),
                "unlogged": [{**_call_json(one.reservation), "at": utc(one.at_ms)} for one in unlogged],
            }
        )
    elif spent or reserved or unlogged:
        _emit(spent, reserved, unlogged)
    else:
        talk("nothing is spent or reserved under a budget above sessions; see docs/budgets.md")


def _emit(spent: Sequence[Spent], reserved: Sequence[Reservation], unlogged: Sequence[Unlogged]) -> None:
    rows = [
        (
            safe_line(one.scope, 80),
            one.period or "all time",
            f"{one.amount.tokens:,}",
            in_dollars(one.amount.micro_usd),
        )
        for one in spent
    ]
    emit_lines(table(rows, ("SCOPE", "PERIOD", "TOKENS", "COST"), right=(2, 3)))
    calls = [(one, "reserved") for one in reserved]
    calls += [(one.reservation, "not logged") for one in unlogged]
    cells = [
        (
            safe_line(one.key.session, 80),
            f"{one.key.agent}, turn {one.key.turn}.{one.key.attempt}",
            f"{one.need.tokens:,}",
            in_dollars(one.need.micro_usd),
            state,
        )
        for one, state in calls
    ]
    if cells:
        emit_lines([Text(), *table(cells, ("SESSION", "CALL", "TOKENS", "COST", "STATE"), right=(2, 3))])


def _spent_json(one: Spent) -> dict[str, object]:
    amount = {"tokens": one.amount.tokens, "cost_usd": one.amount.micro_usd / 1_000_000}
    return {"scope": one.scope, "period": one.period or None, **amount}


def _call_json(one: Reservation) -> dict[str, object]:
    key, need = one.key, one.need
    return {
        "session": key.session,
        "agent": key.agent,
        "turn": key.turn,
        "attempt": key.attempt,
        "tokens": need.tokens,
        "cost_usd": need.micro_usd / 1_000_000,
        "scopes": [scope for scope, _ in one.spans],
    }
