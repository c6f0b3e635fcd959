"""The delegations of a reply: by `task`, by the tool of an agent with a contract, by a program's question.

    task            a prompt, and agents that race; the schema by the argument that each agent takes it by
    an agent's tool its fields, from which the prompt is made; never in the background, never a race
    ask_model       an implicit agent without tools, for one question of a program

Rules
  - A `task` call of an agent with a contract is refused, unless a program makes it and gives the input.
  - A `task` call with an argument that the tool does not have, or that would do nothing, is refused, from
    rules 2 on.
  - The value of an input is checked by the supervisor, by way of the schema port: no type is known here.
"""

from typing import Final, Literal

from callboard.actors.agent.arguments import (
    STRICT_FROM,
    Task,
    asks_for_background,
    described,
    read_question,
    read_task,
    wrong_names,
    wrong_value,
)
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.request_prefix import RequestPrefix
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.whole_requests import request_at
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.contracts import Callee, input_prompt, schema_in
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.profiles import SCHEMA_ARG, Profile

_PASSED_OVER: Final = (SCHEMA_ARG, "background")
"""Arguments of `task` that have errors of their own where they are not offered."""


def delegate_by_task(state: AgentState, prefix: RequestPrefix, call: int, use: ToolUse) -> Post | str:
    """Return the delegation of a `task` call, or the error that answers it."""
    known = _called_by_task(prefix)
    if refusal := _why_wrong_names(state, prefix, use.input):
        return refusal
    task = read_task(use.input)
    names = task.racers(known) if task is not None else ()
    if task is None and (refusal := wrong_value(state.rules, use.input)):
        return refusal
    if task is None or not names:
        return prompts.UNUSABLE_TASK + ", ".join(known)
    if prefix.profile.is_eager:
        return _of_program(state, prefix, call, task, names)
    schema = task.output_schema
    if prefix.callees:
        if refusal := _why_not_by_task(prefix, names, use.input):
            return refusal
        schema = schema_in(use.input, _schema_arg(prefix, names[0]))
    mode: Literal["await", "background"] = "background" if prefix.background and task.background else "await"
    description = described(task) if state.rules >= STRICT_FROM else ""
    return _post(state, call, names, task.prompt, schema, mode=mode, description=description)


def _why_wrong_names(state: AgentState, prefix: RequestPrefix, arguments: Json) -> str:
    """Return the error for a `task` call with an argument that it does not have.

    A program's call has any, and a call of a tool that is not offered is denied by the supervisor.
    """
    if prefix.profile.is_eager or not prefix.task_names:
        return ""
    if refusal := wrong_names(state.rules, prompts.TASK, arguments, prefix.task_names, _PASSED_OVER):
        return refusal
    # Without a word the model would go on as if the task ran beside it; until rules 2 that was so.
    is_idle = not prefix.background and state.rules >= STRICT_FROM and asks_for_background(arguments)
    return prompts.NO_BACKGROUND if is_idle else ""


def _called_by_task(prefix: RequestPrefix) -> tuple[str, ...]:
    """Return the agents that a `task` call may name."""
    names, is_eager = prefix.profile.agents, prefix.profile.is_eager
    if is_eager or not prefix.callees:
        return names
    return tuple(name for name in names if not prefix.callees.get(name, Callee(name)).is_tool)


def _of_program(
    state: AgentState, prefix: RequestPrefix, call: int, task: Task, names: tuple[str, ...]
) -> Post:
    callee = prefix.callees.get(names[0])
    prompt, given = task.prompt, NULL
    if callee is not None and callee.is_tool and task.input != NULL:
        prompt, given = input_prompt(callee.input_schema, callee.presets, task.input), task.input
    return _post(state, call, names, prompt, task.output_schema, given=given, room=0)  # its ends are not cut


def delegate_by_tool(state: AgentState, call: int, callee: Callee, given: Json) -> Post:
    """Return the delegation to an agent with a contract. given: the arguments of the call."""
    prompt = input_prompt(callee.input_schema, callee.presets, given)
    return _post(state, call, (callee.name,), prompt, schema_in(given, callee.schema_arg), given=given)


def _post(
    state: AgentState,
    call: int,
    names: tuple[str, ...],
    prompt: Json,
    schema: Json,
    *,
    given: Json = NULL,
    mode: Literal["await", "background"] = "await",
    room: int | None = None,
    description: str = "",
) -> Post:
    most = state.limits.max_result_chars or 0
    body = Delegate(
        turn=state.turn,
        call=call,
        profiles=names,
        prompt=prompt,
        schema=schema,
        room=most if room is None else room,
        mode=mode,
        messages=len(state.history),
        labels=state.labels,
        input=given,
        description=description,
    )
    return Post(SUPERVISOR, body)


def _schema_arg(prefix: RequestPrefix, name: str) -> str:
    return prefix.callees.get(name, Callee(name)).schema_arg


def _why_not_by_task(prefix: RequestPrefix, names: tuple[str, ...], arguments: Json) -> str:
    """Return the answer to a call that one of the agents does not take; empty if all do."""
    wanted = {_schema_arg(prefix, name) for name in prefix.profile.agents} | {SCHEMA_ARG}
    given = [name for name in sorted(wanted) if name and schema_in(arguments, name) != NULL]
    for name in names:
        callee = prefix.callees.get(name, Callee(name))
        if callee.is_tool:
            return prompts.has_own_tool(name)
        if any(one != callee.schema_arg for one in given):
            return prompts.no_schema_argument(name, callee.schema_arg)
    return ""


def ask_model(state: AgentState, profile: Profile, call: int, use: ToolUse) -> Post | str:
    """Return the delegation to an implicit agent without tools, which puts a question to a model.

    profile: of the program that asks. One that carries its whole request is kept by its program, whose state
    names it.
    """
    asked = read_question(use.input)
    request = request_at(state.program.requests, state.turn, call) if state.program is not None else None
    if asked is not None and asked.messages is not None and request is None:
        return prompts.UNUSABLE_REQUEST
    model = next((one for one in profile.models if asked and one.name == asked.model), None)
    if asked is None or (asked.model and model is None):
        return prompts.UNUSABLE_QUESTION + (", ".join(one.name for one in profile.models) or "none")
    # Each report takes a turn.
    turns = 1 if asked.schema == NULL else state.limits.max_report_attempts
    system = asked.system if request is None else NULL  # it stands in the request
    one = Profile(prompts.ASK_MODEL, instructions=system, limits=Limits(max_iterations=turns), model=model)
    body = Delegate(
        turn=state.turn,
        call=call,
        profiles=(prompts.ASK_MODEL,),
        prompt=asked.prompt,
        schema=asked.schema,
        implicit=Json(encode(one)),
        labels=state.labels,
        asked=None if request is None else request.asked,
        description="" if request is None else request.title,
    )
    return Post(SUPERVISOR, body)
