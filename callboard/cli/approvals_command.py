"""`callboard approvals`, `cancel` and `tell`: what a person says to sessions of another process."""

import asyncio
from collections.abc import Sequence

import click
import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.place_names import is_number
from callboard.cli.approving import SHOWN_CHARS_MAX, fork_lines, form_lines, user_name
from callboard.cli.errors import FAILED, Failure, misused, refuse_if
from callboard.cli.options import json_option, log_flag, log_option
from callboard.cli.output import emit, emit_json, talk
from callboard.cli.owner_client import NoOwner, ask_owner
from callboard.cli.recordings import find_session, key_options, keyed_log, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import utc
from callboard.replay.recording import Recording
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.clock import now_ms
from callboard.runtime.control.offline import append_answer, open_questions, shown
from callboard.runtime.control.wire import AnswerApproval, CancelAsk, ListApprovals, ShownApproval, TellAgent
from callboard.runtime.log.reading import is_server, shown_address
from callboard.runtime.sanitize import check_json


@click.command("approvals")
@click.option("--yes", metavar="ID", default="", help="Let this call run.")
@click.option("--no", metavar="ID", default="", help="Refuse this call.")
@click.option("--reuse", metavar="ID", default="", help="Use the recorded result for this call of a fork.")
@click.option("--always", is_flag=True, help="With --yes: also allow later calls of this tool.")
@click.option("--values", metavar="JSON", default="", help="With --yes: the input that the call asks for.")
@click.option("--note", metavar="TEXT", default="", help="A reason, which the model reads after a refusal.")
@click.option("--by", metavar="NAME", default="", help="The person who answers; by default your user name.")
@json_option
@log_option
@key_options
def approvals(
    yes: str, no: str, reuse: str, always: bool, values: str, note: str, by: str, as_json: bool, log: str
) -> int:
    """List the calls that wait for a person, or answer one.

    If a process owns the log, the command talks to that process through its socket, and an answer takes
    effect at once. If none does, the calls are read from the log, and an answer is appended to it, which
    `callboard resume` or the next `Runtime.resume` then delivers. ID is SESSION#SEQ, as the list shows it.

    A call that asks for input shows its form, and continues with --values. A URL is shown but never opened:
    visit it, then answer with --yes.

    A fork with `--effects ask` lists its calls of tools with an effect that have no recorded result. If the
    recording has a result of the same call in another turn, --reuse uses it.

    The first answer counts. For a call that has already been answered, has expired or is no longer wanted,
    the exit code is 1.

    \b
    Examples:
      callboard approvals
      callboard approvals --yes '20260101-abc#17'
      callboard approvals --yes '20260101-abc#29' --values '{"city": "Oslo"}'
      callboard approvals --no '20260101-abc#17' --note "at most 100"
      callboard approvals --json | jq -r '.[].id'
    """
    refuse_if(sum(map(bool, (yes, no, reuse))) > 1, "answer one call: --yes ID, --no ID or --reuse ID")
    refuse_if(always and not yes, "--always goes with --yes ID")
    refuse_if(values and not yes, "--values goes with --yes ID")
    if wanted := yes or no or reuse:
        given = _values(values) if values else None
        said = (not no, note, by or user_name())
        answer = ApprovalAnswer(*said, is_always=always, values=given, reuses=bool(reuse))
        return _give(log, wanted, answer, as_json=as_json)
    found = _waiting(log)
    if as_json:
        emit_json(found)
    else:
        _print(found)
    return 0


def _give(log: str, wanted: str, answer: ApprovalAnswer, *, as_json: bool) -> int:
    """Give an answer and say its effect. Return the exit code."""
    is_first, was_live = _answer(log, wanted, answer)
    if as_json:
        emit_json({"id": wanted, "counted": is_first})
    if not is_first:
        talk(f"{wanted} has already been answered, has expired or is no longer wanted; nothing was changed")
    elif not was_live:
        session = safe_line(wanted.rpartition("#")[0])
        talk(f"recorded; `callboard resume {session} MODULE:AGENT{log_flag()}` continues it")
    return 0 if is_first else FAILED


def _waiting(log: str) -> list[ShownApproval]:
    """Return the open questions: those of the owner's sessions, or without an owner those of the log."""
    try:
        return ask_owner(log, ListApprovals(), list[ShownApproval])
    except NoOwner:
        return _recorded(log)


def _print(found: Sequence[ShownApproval]) -> None:
    for one in found:
        for line in _lines(one):
            emit(line)
    if not found:
        talk("no call waits for a person")


def _recorded(log: str) -> list[ShownApproval]:
    """Return the open questions of all sessions that are not closed, from the log."""
    found: list[ShownApproval] = []
    with open_reader(log) as reader:
        for row in reversed(reader.sessions()):
            if row.status != "closed":
                rows = Recording.open(reader, row.session_id).rows
                questions = open_questions(row.session_id, rows, now_ms())
                found += [shown(row.session_id, question) for question in questions]
    return found


def _lines(one: ShownApproval) -> Sequence[str]:
    """Return the lines of one question: who wants what, then the arguments."""
    until = f", expires {utc(one.expires_at_ms)}" if one.expires_at_ms else ""
    who = f"{one.address} ({one.profile})" if one.profile else one.address
    head = f"{one.id}: {who} wants to call {one.tool}, effect {one.effect}{until}"
    text = bytes(one.arguments).decode("utf-8", "replace")
    if len(text) > SHOWN_CHARS_MAX:
        text = f"{text[:SHOWN_CHARS_MAX]} ... and {len(text) - SHOWN_CHARS_MAX} characters more"
    again = ["    It was interrupted before and may have taken effect."] * one.is_repeat
    forms = [f"    {line}" for line in (*fork_lines(one.is_fork, one.same), *form_lines(one.forms))]
    return (safe_line(head), f"    {safe_line(text, SHOWN_CHARS_MAX + 100)}", *again, *forms)


def _values(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(check_json(text, what="--values"), type=dict[str, object])
    except (MisuseError, msgspec.DecodeError) as error:
        raise misused(f"--values is a JSON object: {safe_line(str(error), 200)}") from None


def _answer(log: str, wanted: str, answer: ApprovalAnswer) -> tuple[bool, bool]:
    """Give an answer; return whether it counts, and whether a live process took it."""
    session, mark, digits = wanted.rpartition("#")
    if not mark or not is_number(digits) or not session:
        raise misused(f"{safe_line(wanted, 80)}: write SESSION#SEQ, as `callboard approvals` lists it")
    seq = int(digits)
    try:
        said = (answer.is_approved, answer.note, answer.by, answer.is_always)
        values = dict(answer.values) if answer.values is not None else None
        body = AnswerApproval(session, seq, *said, values, answer.reuses)
        return ask_owner(log, body, bool), True
    except NoOwner:
        with open_reader(log) as reader:  # names the file or the session that is not there
            session = find_session(reader, session).session_id
        return asyncio.run(_append(log, session, seq, answer)), False


async def _append(address: str, session: str, seq: int, answer: ApprovalAnswer) -> bool:
    log = keyed_log(address)
    await log.open()
    try:
        return await append_answer(log, session, seq, answer)
    finally:
        await log.close()


@click.command("cancel")
@click.argument("session")
@click.option("--agent", metavar="ADDRESS", default="", help="Cancel only this agent and those below it.")
@click.option("--reason", metavar="TEXT", default="", help="Kept in the log.")
@log_option
def cancel(session: str, agent: str, reason: str, log: str) -> int:
    """Cancel the running ask of a session, in the process that owns the log, or the session on a server.

    SESSION is the whole id. The command waits for the outcome. With --agent the ask goes on, and the agent
    that delegated reads that the delegation was cancelled; for an agent that does not run, the exit code is
    1. Without an owner nothing is running that could be cancelled, and the exit code is 3.

    \b
    Examples:
      callboard cancel 20260101-abc --reason "wrong prompt"
      callboard cancel 20260101-abc --agent host.2
    """
    try:
        kind = ask_owner(log, CancelAsk(session, reason, agent), str)
    except NoOwner:
        raise _unreached(log, session, "nothing can be cancelled") from None
    if agent:
        said = "cancelled" if kind else "no such agent runs"
        talk(f"session {safe_line(session)}, {safe_line(agent, 80)}: {said}")
        return 0 if kind else FAILED
    talk(f"session {safe_line(session)}: {kind}" if kind else f"session {safe_line(session)}: no ask runs")
    return 0


def _unreached(log: str, session: str, so: str) -> Failure:
    """Return the error for a session that no process runs."""
    if is_server(log):
        return Failure(f"no worker and no program runs session {safe_line(session, 80)}, so {so}", 3)
    return Failure(f"no process that owns {shown_address(log)} listens, so {so}", 3)


@click.command("tell")
@click.argument("session")
@click.argument("address")
@click.argument("text")
@log_option
def tell(session: str, address: str, text: str, log: str) -> int:
    """Send a message to a running agent, in the process that owns the log, or the session on a server.

    SESSION is the whole id, and ADDRESS names one agent: `host`, or `host.1` as `callboard tree` shows it.
    The agent reads TEXT in its next request, and the command waits for that, at most 50 seconds. If there is
    no such running agent, or it ends first, the exit code is 2. Without an owner no agent is running, and the
    exit code is 3.

    \b
    Examples:
      callboard tell 20260101-abc host "Leave the tests out."
      callboard tell 20260101-abc host.2 "Look into docs/ first."
    """
    try:
        turn = ask_owner(log, TellAgent(session, address, text), int)
    except NoOwner:
        raise _unreached(log, session, "no agent can be sent a message") from None
    name = safe_line(address, 80)
    talk(f"{name} reads it in turn {turn}" if turn else f"{name} is busy; it reads this next")
    return 0
