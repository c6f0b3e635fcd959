"""Reports: the supervisor judges them in the order of the log, and the first valid one wins.

Rules
  - A report that is posted before its sender has ended is queued. It can win even if its sender ends by a
    deadline, a cap or a budget before the judgement.
  - Each delegation has one check at a time, so that no later report wins while an earlier one is checked.
  - Every other report is judged `late`.
"""

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, parent_of
from callboard.actors.protocol.folded_results import WRONG_INPUT
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import ReportBack, ReportJudged
from callboard.actors.protocol.port_messages import SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.actors.supervisor.asks import begin_checked
from callboard.actors.supervisor.contexts import begin_if_ready
from callboard.actors.supervisor.delegating import ask_schema
from callboard.actors.supervisor.ending import end_delegation, fail_if_over, judge_late, win
from callboard.actors.supervisor.state import Check, Delegation, Pending
from callboard.actors.supervisor.unit_of_work import UnitOfWork

_UNCHECKED = SchemaProblem("", "it could not be checked")


def on_report(work: UnitOfWork, sender: str, report: ReportBack) -> None:
    """Queue a report for its judgement, or judge it late."""
    record = work.record(sender)
    pending = Pending(address=sender, turn=report.turn, call=report.call, value=report.value)
    delegation = work.delegation_of(record) if record and record.is_running else None
    if delegation is None:
        judge_late(work, pending)
        return
    parent, number = parent_of(sender), delegation.reports
    assert record is not None  # it has the delegation
    queue = delegation.pending.put(number, replace(pending, labels=record.labels))
    delegation = replace(delegation, reports=number + 1, pending=queue)
    work.put_delegation(parent, delegation)
    if queue.size == 1:
        _judge_next(work, parent, delegation)


def _judge_next(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    if delegation.schema == NULL:
        _accept(work, parent, delegation)
    else:
        _, first = _first_pending(delegation)
        ask_schema(work, parent, delegation, first.address, "report", first.value)


def _first_pending(delegation: Delegation) -> tuple[int, Pending]:
    first = delegation.pending.first()
    assert first is not None
    return first


def on_schema_checked(work: UnitOfWork, checked: SchemaChecked) -> None:
    """Apply an answer of the schema port: to a schema, or to the first report of a delegation's queue."""
    check = work.state.checks.get(checked.check)
    if check is None:
        return
    work.update_session(checks=work.state.checks.drop(checked.check))
    if check.task == "accept":
        _on_schema_verdict(work, check, checked)
        return
    delegation = work.delegation(check.parent, check.delegation)
    if delegation is None:
        return
    if check.task == "input":
        _on_input_checked(work, check.parent, delegation, checked)
    elif checked.status == "ok":
        _accept(work, check.parent, delegation)
    else:
        _reject(work, check.parent, delegation, checked)


def _on_schema_verdict(work: UnitOfWork, check: Check, checked: SchemaChecked) -> None:
    """Begin or refuse every delegation that waits for the check of a schema.

    A check that failed, at its time limit for example, counts only for the delegation that asked for it.
    Each other delegation gets a check of its own.
    """
    work.finish_schema_check(check.schema, checked.check, is_good=checked.status == "ok")
    first = work.delegation(check.parent, check.delegation)
    if first is not None:
        _begin_or_refuse(work, check.parent, first, checked)
    for parent, key in check.others.values():
        other = work.delegation(parent, key)
        if other is None:
            continue
        if checked.status == "failed":
            ask_schema(work, parent, other, parent, "accept")
        else:
            _begin_or_refuse(work, parent, other, checked)


def _begin_or_refuse(work: UnitOfWork, parent: str, delegation: Delegation, checked: SchemaChecked) -> None:
    """Begin a delegation whose schema was accepted; end it as `denied` otherwise."""
    if checked.status != "ok":
        why = "; ".join(map(str, checked.problems))
        detail = f"the output schema was refused: {why or 'it could not be checked'}"
        end_delegation(work, parent, delegation, "denied", detail=detail)
    elif parent == CLIENT:
        begin_checked(work)
    else:
        begin_if_ready(work, parent, delegation)


def _on_input_checked(work: UnitOfWork, parent: str, delegation: Delegation, checked: SchemaChecked) -> None:
    """Begin a delegation whose input matches; a wrong input is `denied`, a failed check `unavailable`."""
    if checked.status == "ok":
        begin_if_ready(work, parent, delegation)
    elif checked.status == "invalid":
        problems = checked.problems or (_UNCHECKED,)
        end_delegation(work, parent, delegation, "denied", detail=WRONG_INPUT, problems=problems)
    else:
        why = "; ".join(map(str, checked.problems)) or "no reason was given"
        detail = f"its input could not be checked: {why}"
        end_delegation(work, parent, delegation, "unavailable", detail=detail)


def _accept(work: UnitOfWork, parent: str, delegation: Delegation) -> None:
    number, first = _first_pending(delegation)
    # Without the winner's report, for `win` judges all reports that wait as late.
    others = replace(delegation, pending=delegation.pending.drop(number))
    work.post(first.address, ReportJudged(first.turn, first.call, "accepted"))
    record = work.record(first.address)
    text = record.text if record else ""
    win(work, parent, others, first.address, "reported", value=first.value, text=text, labels=first.labels)


def _reject(work: UnitOfWork, parent: str, delegation: Delegation, checked: SchemaChecked) -> None:
    number, first = _first_pending(delegation)
    problems = checked.problems or (_UNCHECKED,)
    work.post(
        first.address, ReportJudged(turn=first.turn, call=first.call, verdict="invalid", problems=problems)
    )
    delegation = replace(delegation, pending=delegation.pending.drop(number))
    work.put_delegation(parent, delegation)
    if delegation.pending.size:
        _judge_next(work, parent, delegation)
    else:
        fail_if_over(work, parent, delegation.key)
