"""`callboard run`: one prompt, one outcome, recorded."""

import click

from callboard.cli.foreground import (
    Setting,
    attend,
    finish,
    parse_limits,
    read_prompt,
    read_schema,
    setting_options,
)
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import agent_argument, json_option, model_option, quiet_option
from callboard.runtime.sessions.call_options import limits_of_ask
from callboard.runtime.sessions.outcome import Outcome


@click.command("run")
@agent_argument
@click.argument("prompt")
@model_option
@click.option("--schema", metavar="FILE", default="", help="Require a result that matches this JSON schema.")
@setting_options
@quiet_option
@json_option
def run(
    agent: str, prompt: str, model: str, schema: str, setting: Setting, quiet: bool, as_json: bool
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
      callboard run coder:host "Fix the typo" --files project --files-write docs
      callboard run coder:host "Which issues are open?" --mcp .mcp.json
      callboard run survey:host "List the risks" --json | jq .usage
    """
    found, own = choose_model(setting.equipped(load_agent(agent)), model)
    limits = parse_limits(setting.limits)
    task, form = read_prompt(prompt), read_schema(schema)

    async def work() -> tuple[Outcome, int]:
        async with setting.runtime(own) as runtime:
            session = await runtime.open(found, limits=limits, title=task)
            return await attend(
                session,
                lambda: session.ask(task, output_schema=form, limits=limits_of_ask(limits)),
                setting.approver,
                title=f"session {session.session_id} in {setting.log}",
                is_quiet=quiet,
            )

    return finish(work(), setting.log, as_json=as_json, is_quiet=quiet)
