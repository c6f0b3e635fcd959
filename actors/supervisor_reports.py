"""Reports: judged strictly in the order of the log; the first valid one wins, all others are late.

A report counts if it was posted before its sender ended; it then stays in line and can win although its
sender has ended since, by a deadline, a cap or a budget. One check at a time for each delegation: a later
report cannot win while an earlier one is being checked.
"""

from msgspec.structs import replace

from callboard.actors.addresses import parent_of
from callboard.actors.base import NULL
from callboard.actors.messages import ReportBack, ReportJudged, SchemaChecked
from callboard.actors.supervisor_delegating import ask_schema, on_schema_accepted, on_schema_refused
from callboard.actors.supervisor_ending import fail_if_over, judge_late, win
from callboard.actors.supervisor_state import Delegation, Pending
from callboard.actors.supervisor_work import Work


def on_report(work: Work, sender: str, report: ReportBack) -> None:
    """A report: put it in line, or judge it late."""
    pending = Pending(sender, work.seq, report.turn, report.call, report.value)
    record = work.record(sender)
    delegation = work.delegation_of(record) if record and record.is_running else None
    if delegation is None:
        judge_late(work, pending)
        return
    parent = parent_of(sender)
    delegation = replace(delegation, pending=(*delegation.pending, pending))
    work.keep(parent, delegation)
    if len(delegation.pending) == 1:
        _judge_next(work, parent, delegation)


def _judge_next(work: Work, parent: str, delegation: Delegation) -> None:
    if delegation.schema == NULL:
        _accept(work, parent, delegation)
    else:
        ask_schema(work, parent, delegation, "report", delegation.pending[0].value)


def on_schema_checked(work: Work, checked: SchemaChecked) -> None:
    """The answer of the schema port, about a schema or about the report that is first in line."""
    check = work.state.checks.get(checked.check)
    if check is None:
        return
    work.change(checks=work.state.checks.drop(checked.check))
    delegation = work.delegation(check.parent, check.delegation)
    if delegation is None:
        return
    if check.task == "accept" and checked.status == "ok":
        on_schema_accepted(work, check.parent, delegation)
    elif check.task == "accept":
        why = (
            "; ".join(f"{p.path or '/'}: {p.message}" for p in checked.problems) or "it could not be checked"
        )
        on_schema_refused(work, check.parent, delegation, why)
    elif checked.status == "ok":
        _accept(work, check.parent, delegation)
    else:
        _reject(work, check.parent, delegation, checked)


def _accept(work: Work, parent: str, delegation: Delegation) -> None:
    first, *rest = delegation.pending
    work.keep(parent, replace(delegation, pending=tuple(rest)))
    work.post(first.address, ReportJudged(first.turn, first.call, "accepted"))
    win(work, parent, delegation.key, first.address, "reported", first.value, delegation.text)


def _reject(work: Work, parent: str, delegation: Delegation, checked: SchemaChecked) -> None:
    first, *rest = delegation.pending
    work.post(first.address, ReportJudged(first.turn, first.call, "invalid", checked.problems))
    delegation = replace(delegation, pending=tuple(rest))
    work.keep(parent, delegation)
    if rest:
        _judge_next(work, parent, delegation)
    else:
        fail_if_over(work, parent, delegation.key)
