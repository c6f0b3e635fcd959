"""`callboard run` and `resume`: one prompt, one outcome, recorded, also after a crash."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click
from msgspec.structs import asdict, replace

from callboard.actors.protocol.errors import AgentsChanged, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec, read_profile
from callboard.cli.errors import FAILED, Failure, misused, not_found, refuse_if
from callboard.cli.foreground import (
    Setting,
    attend,
    finish,
    print_result,
    read_prompt,
    read_schema,
    setting_options,
)
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import (
    agent_argument,
    json_option,
    log_flag,
    model_option,
    parse_limits,
    quiet_option,
)
from callboard.cli.output import talk
from callboard.cli.recordings import find_session, open_reader
from callboard.cli.terminal_escape import safe_line
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.compaction import Compact
from callboard.runtime.control.forking import limits_in_force
from callboard.runtime.log.protocol import LogReader
from callboard.runtime.log.session_rows import SessionQuery, SessionRow
from callboard.runtime.models.fallback import Fallback, ModelChoice
from callboard.runtime.programs.program import Program
from callboard.runtime.sessions.call_options import limits_of_ask
from callboard.runtime.sessions.detaching import OnDiverged
from callboard.runtime.sessions.outcomes import Outcome, outcome_of
from callboard.runtime.sessions.resuming import RecordedSession, recorded_of


@click.command("run")
@agent_argument
@click.argument("prompt")
@model_option
@click.option("--schema", metavar="FILE", default="", help="Require a result that matches this JSON schema.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Give the session a tag. May be repeated.")
@setting_options
@quiet_option
@json_option
def run(
    agent: str,
    prompt: str,
    model: str,
    schema: str,
    tags: tuple[str, ...],
    setting: Setting,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run an agent on one prompt and record everything.

    MODULE:AGENT names an Agent in a Python module, or a function without arguments that returns one. The
    module is found from the current folder; path/to/file.py:agent works too. PROMPT is the task; - reads it
    from stdin.

    The result goes to stdout: the text, or with --schema the report as JSON. The tree of agents is drawn on
    stderr during the run, and a summary follows. The exit code is 0 if there is a result, else 1; partial
    work is shown on stderr and in --json.

    Ctrl-C leaves the session, and `callboard resume` goes on with it. A second Ctrl-C leaves at once.

    \b
    Examples:
      callboard run survey:host "Which test framework is used here?"
      callboard run agents/survey.py:host "Count the files" --schema count.json
      callboard run survey:host - --limit tokens=200k < task.txt
      callboard run survey:host "Sum it up" --tag nightly --budget nightly=5usd
      callboard run coder:host "Fix the typo" --files project --files-write docs
      callboard run coder:host "Which issues are open?" --mcp .mcp.json
      callboard run survey:host "List the risks" --json | jq .usage
    """
    found, own = choose_model(setting.equipped(load_agent(agent)), model)
    limits = parse_limits(setting.limits)
    task, form = read_prompt(prompt), read_schema(schema)

    async def work() -> tuple[Outcome, int]:
        async with setting.runtime(own) as runtime:
            session = await runtime.open(found, limits=limits, title=task, tags=tags)
            return await attend(
                session,
                lambda: session.ask(task, output_schema=form, limits=limits_of_ask(limits)),
                setting.approver,
                title=f"session {session.session_id} in {setting.log}",
                is_quiet=quiet,
            )

    return finish(work(), setting.log, as_json=as_json, is_quiet=quiet)


@click.command("resume")
@click.argument("words", nargs=-1, required=True, metavar="[SESSION] MODULE:AGENT")
@click.option(
    "--extend", metavar="SECONDS", type=float, default=0.0, help="Extend every deadline by this time."
)
@click.option(
    "--accept-changes", is_flag=True, help="Continue although the agents have changed, and record that."
)
@click.option(
    "--on-diverged",
    type=click.Choice(["wait", "crash"]),
    default="wait",
    show_default=True,
    help="`crash` ends a prompt whose programs differ from their recorded steps.",
)
@model_option
@setting_options
@quiet_option
@json_option
def resume(
    words: tuple[str, ...],
    extend: float,
    accept_changes: bool,
    on_diverged: OnDiverged,
    model: str,
    setting: Setting,
    quiet: bool,
    as_json: bool,
) -> int:
    """Finish a session whose process ended too early.

    The session continues from its log, with its conversation, its answers and its spending. Recorded work is
    not repeated. A model call without an answer is charged in full and made again. A `read` or `idempotent`
    tool without an answer runs again. A `write` tool that had started does not; its agent reads that its
    effect is unknown. At the end the session is closed. docs/resume.md has the details.

    Without SESSION, the newest session that has a prompt and is not closed is resumed (`callboard sessions`
    lists them). For a closed session, the last outcome is printed again. A session without a prompt stays
    as it is. MODULE:AGENT is the recorded host; if agents, tools or models have changed since, the command
    lists the changes and refuses, unless --accept-changes. An agent without a model uses the recorded one.
    --limit changes the limits that it names and keeps the others. Budgets above sessions (--budget) are not
    recorded: state them again.

    The result, tree, summary, Ctrl-C and exit codes are those of `callboard run`; exit code 3 means that
    nothing is left to resume.

    \b
    Examples:
      callboard resume survey:host
      callboard resume 2026 survey:host --extend 300 --limit tokens=500k
      callboard resume 2026 survey:host --accept-changes --json | jq .status
    """
    refuse_if(len(words) > 2, "write one session and its host: callboard resume [SESSION] MODULE:AGENT")
    found = setting.equipped(load_agent(words[-1]))
    name, past = _left(setting.log, words[0] if len(words) == 2 else "")
    found = _as_in_chat(found, past)
    _refuse_if_unasked(name, past)
    if past.is_closed:
        outcome = outcome_of(name, *past.ended[past.last], None)
        talk(f"session {name} is closed; its last outcome follows")
        print_result(outcome, setting.log, 0, as_json=as_json, is_quiet=quiet)
        return 0 if outcome.is_ok else FAILED
    agent, own = with_recorded_model(found, model, past)
    options = _Options(
        changed_limits(past.events, setting.limits), extend, accept_changes, on_diverged, quiet
    )
    work = _resumed(setting, own, name, agent, past, options)
    return finish(work, setting.log, as_json=as_json, is_quiet=quiet)


def _as_in_chat(agent: Agent, past: RecordedSession) -> Agent:
    """Return the host with the rules of compaction that `callboard chat` has given it, if it has none."""
    profiles = [read_profile(bytes(raw)) for raw in past.in_force]
    recorded = next((one.compact for one in profiles if one.name == agent.name), None)
    if recorded is None or agent.compact is not None or isinstance(agent, Program):
        return agent
    return agent.with_compact(Compact.as_recorded(recorded))


class _Options(NamedTuple):
    limits: Limits | None
    extend: float
    accept_changes: bool
    on_diverged: OnDiverged
    is_quiet: bool


async def _resumed(
    setting: Setting,
    own: ModelChoice | None,
    name: str,
    agent: Agent,
    past: RecordedSession,
    options: _Options,
) -> tuple[Outcome, int]:
    """Resume a session in the foreground. Return its outcome and the exit code. own: the runtime's model."""
    limits, extend, accept_changes, on_diverged, is_quiet = options
    known = len(past.events)
    async with setting.runtime(own) as runtime:
        with _listing_changes(name):
            session = await runtime.resume(
                name,
                agent,
                limits=limits,
                extend=extend,
                accept_changes=accept_changes,
                on_diverged=on_diverged,
            )
        if not past.running:
            talk(f"session {name} has no unfinished ask: its last outcome follows")
        title = f"session {name} in {setting.log}, resumed after event {known:,}"
        return await attend(
            session, lambda: session.outcome, setting.approver, title=title, is_quiet=is_quiet, known=known
        )


def _refuse_if_unasked(name: str, past: RecordedSession) -> None:
    """Raise Failure if the session has no prompt, so that it has no outcome and nothing to resume."""
    if past.last:
        return
    if past.is_closed:
        raise Failure(f"session {name} is closed, and nothing was asked in it")
    raise not_found(
        f"session {name} has no prompt, so nothing is left to resume; it stays open, and "
        f"`callboard delete {name}{log_flag()}` removes it"
    )


def _left(log: str, wanted: str) -> tuple[str, RecordedSession]:
    """Find the session to resume, and read its past from the log."""
    with open_reader(log) as reader:
        if wanted:
            return _read(reader, find_session(reader, wanted))
        left = reader.sessions(SessionQuery(status="unfinished", limit=1))
        left += [row for row in reader.sessions(SessionQuery(status="open")) if row.kind]
        if left:
            return _read(reader, max(left, key=lambda row: (row.created_ms, row.number)))
    raise not_found("nothing is left to resume: all sessions of the log are closed or have no prompt")


def _read(reader: LogReader, row: SessionRow) -> tuple[str, RecordedSession]:
    return row.session_id, recorded_of(row.session_id, Recording.open(reader, row.session_id).rows)


def with_recorded_model(agent: Agent, name: str, past: RecordedSession) -> tuple[Agent, ModelChoice | None]:
    """Return the agent and the model for those without one: the named one, else the recorded one."""
    if name or agent.model:
        return choose_model(agent, name)
    try:
        return choose_model(agent, _recorded_model(past.model))
    except UnknownName as error:
        raise misused(
            f"the log has the model's name {past.model.name!r} without its provider; "
            "name both with --model PROVIDER:NAME"
        ) from error


def _recorded_model(spec: ModelSpec) -> ModelChoice | str:
    if not spec.fallback:
        return spec.name
    return Fallback([one.name for one in spec.all_specs], on=spec.fallback_on)


def changed_limits(events: Sequence[Event], pairs: tuple[str, ...]) -> Limits | None:
    """Return the recorded limits with the named ones changed; None for no change."""
    if not pairs:
        return None
    recorded = limits_in_force(events)
    named = parse_limits(pairs)
    stated = {name: value for name, value in asdict(named).items() if value is not None}
    return replace(recorded, **stated) if recorded is not None else named


@contextlib.contextmanager
def _listing_changes(session_id: str) -> Iterator[None]:
    """List each difference if the agents of a session have changed. Raises Failure then."""
    try:
        yield
    except AgentsChanged as changed:
        talk(f"changes since session {session_id} was recorded:")
        for difference in changed.differences:
            talk(f"  {safe_line(difference)}")
        raise misused(
            f"session {session_id} was recorded with other agents; resume it with those, or accept the "
            "changes with --accept-changes, which records them"
        ) from changed
