"""All texts that callboard itself writes to a model, and the tools that it adds.

These texts are part of the rules: a log that was made with other texts does not replay. Once a format is
frozen, change them with a new rule set only.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.conversation import text_block
from callboard.actors.protocol.endings import EXPLAINED, STATUS
from callboard.actors.protocol.folded_results import FOLDED, cut_to, folded
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.actors.protocol.profiles import SCHEMA_ARG
from callboard.actors.protocol.value_types import SchemaProblem

TASK: Final = "task"
REPORT_BACK: Final = "report_back"
TASK_WAIT: Final = "task_wait"
TASK_CANCEL: Final = "task_cancel"
ASK_MODEL: Final = "ask_model"
RESERVED: Final = frozenset({TASK, TASK_WAIT, TASK_CANCEL, REPORT_BACK, ASK_MODEL})
"""Tool names that users cannot take."""

# An ending is read in one line of a table or of a parent's result.
_PROBLEMS_TOLD: Final = 3
_PROBLEM_CHARS: Final = 300
_WRONG_TOLD: Final = 5

NO_SUMMARY: Final = "(no summary)"

REPORT_NOTE: Final = (
    "When your work is done, call the tool report_back once, with a value that matches its schema. "
    "Only the report is passed on; other text is not."
)
REPORT_NOW: Final = "You have not reported yet. Call report_back now with what you have."
CANCELLED: Final = "Cancelled before it had a result."
GIVEN_UP: Final = "Given up: the program that asked has to end."
NO_QUESTIONS_LEFT: Final = "No question is left: "
UNREAD_ARGUMENTS: Final = (
    "Not run: the arguments of this call are not a JSON object. Call again with one. "
    "The arguments as written: "
)
UNREAD_CHARS_MAX: Final = 2_000
CONTEXT_UNWANTED: Final = "the delegation has ended"
TRUNCATED: Final = (
    "Not run: the answer was cut at max_tokens while this call was written. Call again with less."
)
NOT_DELEGATED: Final = "Not delegated: "
WRONG_NAMES: Final = "Not run: the arguments are not those of the tool: "
UNUSABLE_TASK: Final = (
    f"{NOT_DELEGATED}task needs a prompt (text that is not empty) and one of: agent (a name), "
    "agents (a list of names that race), with copies between 1 and 10000. Agents: "
)
NO_BACKGROUND: Final = (
    f"{NOT_DELEGATED}you cannot run tasks in the background, so background does nothing. Leave it out: the "
    "call is answered with the result, and several calls in one turn run in parallel."
)
UNUSABLE_TASK_WAIT: Final = (
    "Not waited: task_wait takes tasks (a list of addresses; without it, all) and any (true or false)."
)
UNUSABLE_TASK_CANCEL: Final = "Not cancelled: task_cancel needs task, the address of a background task."

BACKGROUND_NOTE: Final = (
    " With background true it runs while you go on: the call is answered at once with the address of the "
    "task, and the result comes later as a message. When you have nothing more to do, just answer: you are "
    "woken once all background tasks have ended."
)
REPORT_ENDS_TASKS: Final = (
    " It does not wait for background tasks: once the report is accepted, those that still run are stopped."
)

_RUNNING_TOLD: Final = 50
"""Addresses of running tasks that one answer lists."""

UNUSABLE_QUESTION: Final = (
    "Not asked: ask_model needs a prompt (text that is not empty) and may have system, schema and model, the "
    "name of one of the program's models. Models: "
)


UNUSABLE_REQUEST: Final = (
    "Not asked: the request refers to an earlier one, or to a message, that is not kept."
)


def wrong_names(tool: str, wrong: Sequence[tuple[str, str]], known: Sequence[str]) -> str:
    """Return the answer to a call with arguments that its tool does not have.

    wrong: each with the one that may be meant, or an empty text. known: those that it has.
    """
    start = NOT_DELEGATED if tool == TASK else WRONG_NAMES
    told = ", ".join(
        f"'{name[:50]}'" + f" (use {right})" * bool(right) for name, right in wrong[:_WRONG_TOLD]
    )
    return f"{start}{tool} has no argument {told}. Its arguments: {', '.join(known)}."


def wrong_value(name: str, wanted: str, given: str) -> str:
    """Return the answer to a `task` call with a value of the wrong type. given: its JSON."""
    return f"{NOT_DELEGATED}{name} must be {wanted}, not {given[:50]}. Call again with that."


def too_many_calls(most: int) -> str:
    """Return the answer to a call that is not among the first so many of its reply."""
    return f"Not run: one reply may make {most} calls, and this one came after those. Call it again."


def unknown_tool(name: str, known: tuple[str, ...]) -> str:
    """Return the answer to a call of a missing tool."""
    return f"There is no tool named '{name[:100]}'. Tools: {', '.join(known) or 'none'}."


def no_schema_argument(agent: str, wanted: str) -> str:
    """Return the answer to a `task` call with a schema that the agent does not take by this argument.

    wanted: the argument by which it does take one; empty for none.
    """
    advice = f"it takes one as {wanted}" if wanted else "leave the schema out"
    return f"{NOT_DELEGATED}agent '{agent}' takes no schema by that argument; {advice}."


def has_own_tool(agent: str) -> str:
    """Return the answer to a `task` call that names an agent with a contract."""
    return f"{NOT_DELEGATED}agent '{agent}' has a tool of its own, with its own fields. Call {agent} instead."


def unread_arguments(text: str, why: str = "") -> str:
    """Return the answer to a call whose arguments are not a JSON object, or not for certain the model's.

    text: the arguments as written. why: the reason, if they are not certain.
    """
    if not why:
        return f"{UNREAD_ARGUMENTS}{text[:UNREAD_CHARS_MAX]}"
    return f"Not run: {why}. Call again. The arguments as they came: {text[:UNREAD_CHARS_MAX] or '(nothing)'}"


_RESULT_SCHEMA: Final = {
    "type": "object",
    "description": "JSON schema (draft 2020-12) that the result must match.",
}


def agent_tool(callee: Callee, description: str) -> Json:
    """Describe the tool of an agent with a contract: its input is the fields of the contract."""
    return _defined(callee.name, description, callee.input_schema)


def _defined(name: str, description: str, input_schema: Json) -> Json:
    head = msgspec.json.encode({"name": name, "description": description})
    return Json(b"".join((head[:-1], b',"input_schema":', input_schema, b"}")))


def _typed_note(schema_args: tuple[str, ...]) -> str:
    return f"With {' or '.join(schema_args)} the result is JSON of that schema. " if schema_args else ""


def task_tool(
    roster: tuple[tuple[str, str], ...],
    *,
    background: bool = False,
    schema_args: tuple[str, ...] = (SCHEMA_ARG,),
    is_described: bool = False,
) -> Json:
    """Describe the delegation tool.

    roster: names and descriptions of the agents that it may name. background: True if it may run beside the
    caller. schema_args: the arguments by which these agents take the schema of a report. is_described: True
    if the call may have a description.
    """
    listed = "\n".join(f"- {name}: {text or 'no description'}" for name, text in roster)
    names = [name for name, _ in roster]
    note, more = (BACKGROUND_NOTE, _BACKGROUND) if background else ("", {})
    more = _DESCRIPTION | more if is_described else more
    return Json(
        msgspec.json.encode(
            {
                "name": TASK,
                "description": (
                    "Delegate work to a sub-agent. It starts without your conversation: the prompt must say "
                    "all it needs. Several calls in one turn run in parallel. "
                    f"{_typed_note(schema_args)}With agents, or copies above 1, several race and the first "
                    f"valid result wins.{note}\nAgents:\n{listed}"
                ),
                "input_schema": {
                    "type": "object",
                    "properties": {
                        "agent": {"type": "string", "enum": names, "description": "Who does the work."},
                        "prompt": {"type": "string", "description": "All that the sub-agent is told."},
                        **dict.fromkeys(schema_args, _RESULT_SCHEMA),
                        "agents": {
                            "type": "array",
                            "items": {"type": "string", "enum": names},
                            "description": "Instead of agent: several that race.",
                        },
                        "copies": {"type": "integer", "minimum": 1, "description": "How many race."},
                    }
                    | more,
                    "required": ["prompt"],
                },
            }
        )
    )


_DESCRIPTION: Final = {"description": {"type": "string", "description": "A name of the task, for people."}}
_BACKGROUND: Final = {"background": {"type": "boolean", "description": "Run while you go on."}}


def _own_tool(name: str, description: str, properties: dict[str, object], required: list[str]) -> Json:
    schema = {"type": "object", "properties": properties, "required": required}
    return Json(msgspec.json.encode({"name": name, "description": description, "input_schema": schema}))


BACKGROUND_TOOLS: Final = (
    _own_tool(
        TASK_WAIT,
        "Wait until background tasks have ended. Their results come in the same message as the answer. A "
        "message from outside ends the wait early.",
        {
            "tasks": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Addresses of tasks; without it, all that run.",
            },
            "any": {"type": "boolean", "description": "Wait only for the first of them to end."},
        },
        [],
    ),
    _own_tool(
        TASK_CANCEL,
        "Cancel a background task, with all agents below it.",
        {"task": {"type": "string", "description": "The address of the task."}},
        ["task"],
    ),
)
"""The further tools of an agent that may start background tasks."""


def started(address: str) -> str:
    """Return the answer to a call that has started a background task."""
    return f"Started as background task {address}. Its result will come as a message."


def task_ended(end: DelegationEnded) -> str:
    """Return the words that tell the end of a background task."""
    text, _ = delegation_result(end)
    return task_ended_with(end.address, text)


def task_ended_with(address: str, text: str) -> str:
    """Return the words that tell the end of a background task with this result."""
    return f"Background task {address} has ended:\n{text}"


def told(text: str) -> str:
    """Return a client's words for a running agent."""
    return f"Message from the user while you work:\n{text}"


def no_running_task(address: str) -> str:
    """Return the answer to a cancel of a task that does not run."""
    return f"No background task '{address[:100]}' of yours runs."


def waited(running: list[str]) -> str:
    """Return the answer to a call that waited for background tasks. running: those that still run."""
    if not running:
        return "No background task runs any more."
    more = f" and {len(running) - _RUNNING_TOLD} more" if len(running) > _RUNNING_TOLD else ""
    return f"Still running: {', '.join(running[:_RUNNING_TOLD])}{more}."


def is_object_schema(schema: Json) -> bool:
    """Return True if values of this schema are objects, so that it can be a tool's input schema."""
    try:
        return bool(msgspec.json.decode(schema, type=dict[str, object]).get("type") == "object")
    except (msgspec.DecodeError, RecursionError):
        return False


def report_tool(schema: Json, *, background: bool = False) -> Json:
    """Describe the report tool of one delegation. Its input matches the schema, under `value` if needed.

    background: True if the agent may start background tasks.
    """
    if not is_object_schema(schema):
        schema = _wrapped(schema)
    description = "Give your result. " + REPORT_NOTE + (REPORT_ENDS_TASKS if background else "")
    return _defined(REPORT_BACK, description, schema)


def _wrapped(schema: Json) -> Json:
    """Return the schema of an object that has a value of this schema under `value`."""
    try:
        fields = msgspec.json.decode(schema, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        fields = {}
    # They move up, so that references such as `#/$defs/...` still find them.
    definitions = {key: fields.pop(key) for key in ("$defs", "definitions") if key in fields}
    outer: dict[str, object] = {
        "type": "object",
        "properties": {"value": fields},
        "required": ["value"],
        "additionalProperties": False,
    }
    return Json(msgspec.json.encode(outer | definitions))


def with_report_note(instructions: Json) -> Json:
    """Return the system prompt of an agent that has to report."""
    if bytes(instructions).startswith(b"["):
        blocks = msgspec.json.decode(instructions, type=list[msgspec.Raw])
        blocks.append(Json(msgspec.json.encode({"type": "text", "text": REPORT_NOTE})))
        return Json(msgspec.json.encode(blocks))
    text = "" if instructions == NULL else msgspec.json.decode(instructions, type=str) + "\n\n"
    return Json(encode(text + REPORT_NOTE))


def delegation_result(end: DelegationEnded) -> tuple[str, bool]:
    """Return the result of a delegation for the parent's model, and True if it is an error.

    A report is whole; any other result is cut to the room of its end.
    """
    if end.kind == "reported":
        return bytes(end.value).decode(), False
    if end.metadata is not None and end.metadata.response in FOLDED:
        return folded(end), True
    text, is_error = (end.text, False) if end.kind == "answered" else (_failed_delegation(end), True)
    return (cut_to(text, end.room) if end.room else text), is_error


def _failed_delegation(end: DelegationEnded) -> str:
    status = "cancelled" if STATUS[end.kind] == "cancelled" else "failed"
    lines = [f"The delegation {status} ({end.kind}): {end.detail or EXPLAINED[end.kind]}."]
    if len(end.reasons) > 1:
        lines += [f"- {r.address}: {r.kind}" + (f", {r.detail}" if r.detail else "") for r in end.reasons]
    if end.text:
        lines.append(f"Its last words: {end.text}")
    return "\n".join(lines)


def no_questions_left(most: int) -> str:
    """Return the answer to a question over `max_iterations`."""
    return f"{NO_QUESTIONS_LEFT}at most {most} may be put to models (max_iterations)."


NO_INPUT: Final = "It asked a person for input before it went on, and did not get it"


def not_approved(given: ApprovalGiven) -> str:
    """Return the result, for the model, of a call that a person did not approve."""
    refused = NO_INPUT if given.round else "It was not allowed to run"
    said = refused if given.verdict == "denied" else CANCELLED.rstrip(".")
    if given.is_repeat:
        said += " again; it was interrupted before, and whether it took effect is not known"
    return f"{said}: {given.note}" if given.note else f"{said}."


def last_problems(problems: tuple[SchemaProblem, ...]) -> str:
    """Return the problems of an agent's last invalid report in one line; '' without any."""
    if not problems:
        return ""
    more = len(problems) - _PROBLEMS_TOLD
    told = "; ".join(str(problem)[:_PROBLEM_CHARS] for problem in problems[:_PROBLEMS_TOLD])
    return f"its last report did not match: {told}" + (f"; and {more} more" if more > 0 else "")


def changed_arguments(arguments: Json) -> str:
    """Return the words for the model about a call that a person approved with these arguments instead."""
    return f"This call was approved with other arguments: {bytes(arguments).decode()}"


def with_words_before(output: Json, words: str) -> Json:
    """Return the result of a call for the model, with words of ours in a block before it."""
    told = text_block(words)
    if not bytes(output).startswith(b"["):
        return Json(b"".join((b"[", told, b',{"type":"text","text":', output, b"}]")))
    blocks = bytes(output)[1:].lstrip()
    return Json(b"".join((b"[", told, b"" if blocks.startswith(b"]") else b",", blocks)))


def judged_result(judged: ReportJudged) -> tuple[str, bool]:
    """Return the result of a report for the model that made it, and True if it is an error."""
    if judged.verdict == "accepted":
        return "Accepted.", False
    if judged.verdict == "late":
        return "Too late: this delegation has ended. The report is kept in the log.", True
    lines = ["The report does not match the schema. Correct it and call report_back again:"]
    lines += [f"- {problem}" for problem in judged.problems]
    return "\n".join(lines), True
