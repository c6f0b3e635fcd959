"""`callboard resume`: what a process left undone when it ended, finished."""

from typing import NamedTuple

import click
import msgspec

from callboard.actors.protocol.errors import AgentsChanged, UnknownName
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Resumed, SessionOpened
from callboard.cli.approving import Approver, Mode, approve_option
from callboard.cli.errors import FAILED, Failure, misused, not_found
from callboard.cli.foreground import attend
from callboard.cli.inputs import parse_limits
from callboard.cli.keys import keyed_log
from callboard.cli.list_command import end_of
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import (
    Command,
    json_option,
    limit_option,
    log_option,
    model_option,
    secret_option,
)
from callboard.cli.output import talk
from callboard.cli.recordings import find_session, open_reader
from callboard.cli.results import print_result
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import now_ms
from callboard.runtime.log.protocol import LogReader, SessionRow
from callboard.runtime.models.protocol import Model
from callboard.runtime.runtime import Runtime
from callboard.runtime.secrets.refs import SecretRef
from callboard.runtime.sessions.outcome import Outcome
from callboard.runtime.sessions.recorded_session import Past, past_of
from callboard.runtime.sessions.session import Session


class Job(NamedTuple):
    """What is to be resumed, and how. limits: what is to hold instead of what was recorded, if anything."""

    session_id: str
    past: Past
    agent: Agent
    model: Model | None
    limits: Limits | None
    extend: float
    accepts_changes: bool
    log: str
    is_quiet: bool
    approve: Mode
    secrets: tuple[str, ...]


@click.command("resume", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="[SESSION] MODULE:AGENT")
@click.option(
    "--extend", metavar="SECONDS", type=float, default=0.0, help="Put every deadline off by so much."
)
@click.option(
    "--accept-changes", is_flag=True, help="Go on although the agents have changed, and record that."
)
@model_option
@limit_option
@approve_option
@secret_option
@log_option
@click.option("-q", "--quiet", is_flag=True, help="Show no tree and no summary on stderr.")
@json_option
def resume(
    words: tuple[str, ...],
    extend: float,
    accept_changes: bool,
    model: str,
    limits: tuple[str, ...],
    approve: Mode,
    secrets: tuple[str, ...],
    log: str,
    quiet: bool,
    as_json: bool,
) -> int:
    """Finish what a process left undone when it ended.

    The session goes on from its log: with its conversation, what was answered, and what was spent. Nothing
    that is recorded is done again. Model calls without an answer are charged in full and made again; `read`
    and `idempotent` tools run again; a `write` tool that had started does not, and its agent is told that
    its effect is unknown. Then the session is closed. docs/resume.md has all of it.

    Without SESSION the newest one is meant that has a prompt and was not closed (`callboard sessions` lists
    them). A closed session is left alone: its last outcome is printed again. A session without any prompt
    stays open. MODULE:AGENT is the host it was recorded with;
    if agents, tools or models have changed since, that is refused and listed, unless --accept-changes.
    Agents without a model use the recorded one. --limit changes the bounds that it names, the others stay.

    Result, tree, summary, Ctrl-C and exit codes are those of `callboard run`; 3 if nothing is left to be
    resumed.

    \b
    Examples:
      callboard resume survey:host
      callboard resume 2026 survey:host --extend 300 --limit tokens=500k
      callboard resume 2026 survey:host --accept-changes --json | jq .status
    """
    if len(words) > 2:
        raise misused("write one session and its host: callboard resume [SESSION] MODULE:AGENT")
    found = load_agent(words[-1])
    session_id, past = _left(log, words[0] if len(words) == 2 else "")
    begun = now_ms()
    if past.is_closed:
        outcome = _last(session_id, past)
        talk(f"session {session_id} is closed; this is its last outcome")
        code = 0 if outcome.is_ok else FAILED
    elif not past.last:
        raise not_found(
            f"nothing was ever asked in session {session_id}, so nothing is left to be resumed; "
            "it stays open, and `callboard delete` removes it"
        )
    else:
        agent, own = _with_model(found, model, past)
        bounds = _bounds(past, limits)
        options = (extend, accept_changes, log, quiet, approve, secrets)
        outcome, code = event_loop.run(_resume(Job(session_id, past, agent, own, bounds, *options)))
    print_result(outcome, log, now_ms() - begun, as_json=as_json, is_quiet=quiet)
    return code


def _left(log: str, wanted: str) -> tuple[str, Past]:
    """The session that is meant, and what its log says of it."""
    with open_reader(log) as reader:
        if wanted:
            return _read(reader, find_session(reader, wanted))
        rows = reader.sessions()
        for row in rows:
            if not end_of(reader, row).is_closed and (found := _read(reader, row))[1].last:
                return found
    raise not_found(
        f"nothing is left to be resumed: all {len(rows)} sessions of the log are closed or were never asked"
    )


def _read(reader: LogReader, row: SessionRow) -> tuple[str, Past]:
    return row.session_id, past_of(row.session_id, Recording.open(reader, row.session_id).rows)


def _with_model(agent: Agent, name: str, past: Past) -> tuple[Agent, Model | None]:
    """Return the agent and the model for those without one: the named one, else the recorded one."""
    if name or agent.model:
        return choose_model(agent, name)
    try:
        return choose_model(agent, past.model.name)
    except UnknownName as error:
        raise misused(
            f"the log has the model's name {past.model.name!r} without its provider; "
            "name both with --model PROVIDER:NAME"
        ) from error


def _last(session_id: str, past: Past) -> Outcome:
    """The outcome of the last ask of a session in which nothing runs."""
    if not past.last:
        raise Failure(f"session {session_id} is closed, and nothing was asked in it")
    return past.outcomes[past.last]


def _bounds(past: Past, pairs: tuple[str, ...]) -> Limits | None:
    """The recorded limits with those that are named changed; None for no change."""
    if not pairs:
        return None
    bodies = (event.body for event in past.events if isinstance(event.body, SessionOpened | Resumed))
    recorded = [body.limits for body in bodies if body.limits is not None]
    named = parse_limits(pairs)
    stated = {name: value for name in named.__struct_fields__ if (value := getattr(named, name)) is not None}
    return msgspec.structs.replace(recorded[-1], **stated) if recorded else named


async def _resume(job: Job) -> tuple[Outcome, int]:
    approver = Approver(job.approve)
    refs = [SecretRef(name) for name in job.secrets]
    async with Runtime(keyed_log(job.log), model=job.model, approve=approver, secrets=refs) as runtime:
        session = await _taken_up(runtime, job)
        if not job.past.running:
            talk(f"session {job.session_id} has no unfinished ask: its last outcome follows")
        return await attend(
            session,
            lambda: session.outcome,
            approver,
            title=f"session {job.session_id} in {job.log}, resumed after event {len(job.past.events):,}",
            is_quiet=job.is_quiet,
            known=len(job.past.events),
        )


async def _taken_up(runtime: Runtime, job: Job) -> Session:
    """The session, going on. What has changed is listed, a line for each difference."""
    try:
        return await runtime.resume(
            job.session_id,
            job.agent,
            limits=job.limits,
            extend=job.extend,
            accept_changes=job.accepts_changes,
        )
    except AgentsChanged as changed:
        talk(f"what has changed since session {job.session_id} was recorded:")
        for difference in changed.differences:
            talk(f"  {safe_line(difference)}")
        raise misused(
            f"session {job.session_id} was recorded with other agents; resume it with those, or go on with "
            "these by --accept-changes, which is recorded"
        ) from changed
