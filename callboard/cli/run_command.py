"""`callboard run`: one prompt, one outcome, recorded."""

from collections.abc import Mapping
from dataclasses import dataclass

import click

from callboard.actors.protocol.limits import Limits
from callboard.cli.approving import Approver, Mode, approve_option
from callboard.cli.foreground import attend
from callboard.cli.inputs import parse_limits, read_prompt, read_schema
from callboard.cli.keys import keyed_log
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import (
    Command,
    agent_argument,
    json_option,
    limit_option,
    log_option,
    model_option,
    secret_option,
)
from callboard.cli.results import print_result
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import now_ms
from callboard.runtime.models.protocol import Model
from callboard.runtime.runtime import Runtime
from callboard.runtime.secrets.refs import SecretRef
from callboard.runtime.sessions.outcome import Outcome


@dataclass(frozen=True)
class Job:
    """The checked arguments of a run."""

    agent: Agent
    model: Model | None
    prompt: str
    schema: Mapping[str, object] | None
    limits: Limits
    log: str
    is_quiet: bool
    approve: Mode
    secrets: tuple[str, ...]


@click.command("run", cls=Command)
@agent_argument
@click.argument("prompt")
@model_option
@click.option("--schema", metavar="FILE", default="", help="Require a result that matches this JSON schema.")
@limit_option
@approve_option
@secret_option
@log_option
@click.option("-q", "--quiet", is_flag=True, help="Show no tree and no summary on stderr.")
@json_option
def run(
    agent: str,
    prompt: str,
    model: str,
    schema: str,
    limits: tuple[str, ...],
    log: str,
    approve: Mode,
    secrets: tuple[str, ...],
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

    Ctrl-C cancels the run and records that. A second Ctrl-C leaves at once.

    \b
    Examples:
      callboard run survey:host "Which test framework is used here?"
      callboard run agents/survey.py:host "Count the files" --schema count.json
      callboard run survey:host - --model claude-sonnet-5 --limit tokens=200k < task.txt
      callboard run survey:host "List the risks" --json | jq .usage
    """
    found, own = choose_model(load_agent(agent), model)
    bounds = parse_limits(limits)
    job = Job(found, own, read_prompt(prompt), read_schema(schema), bounds, log, quiet, approve, secrets)
    begun = now_ms()
    outcome, code = event_loop.run(_run(job))
    print_result(outcome, log, now_ms() - begun, as_json=as_json, is_quiet=quiet)
    return code


async def _run(job: Job) -> tuple[Outcome, int]:
    approver = Approver(job.approve)
    refs = [SecretRef(name) for name in job.secrets]
    async with Runtime(keyed_log(job.log), model=job.model, approve=approver, secrets=refs) as runtime:
        session = await runtime.open(job.agent, limits=job.limits, title=job.prompt)
        return await attend(
            session,
            lambda: session.ask(job.prompt, output_schema=job.schema),
            approver,
            title=f"session {session.session_id} in {job.log}",
            is_quiet=job.is_quiet,
        )
