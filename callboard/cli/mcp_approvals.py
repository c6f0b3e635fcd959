"""Questions to a person, offered to the user of an MCP client that can show a form.

The question ends the call of `ask` or `wait`. The client asks its user, and makes the call again with the
answer (protocol 2026-07-28). The SDK seals the state that goes with it: no client answers another question.
"""

from collections.abc import Mapping
from typing import Any, Final

import mcp.types as types
from mcp.server.mcpserver import Context
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callboard.runtime.approvals import Approval
from callboard.runtime.tools.input_forms import Form, forms_of

BY: Final = "user of the MCP client"
_DECISION: Final = "decision"
_SHOWN_CHARS: Final = 4_000
_DECIDE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["allow", "refuse"], "description": "Let the call run?"},
        "note": {"type": "string", "description": "A reason, which the agent reads after a refusal."},
    },
    "required": ["decision"],
}


def can_ask(ctx: "Context[Any, Any] | None") -> bool:
    """Return whether the client of a call can put a form to its user."""
    if ctx is None or ctx.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    able = ctx.client_capabilities
    return able is not None and able.elicitation is not None


def question_for(question: Approval) -> types.InputRequiredResult:
    """Return the result by which a client asks its user about a call."""
    forms = forms_of(question.forms_json)
    requests: dict[str, types.InputRequest] = {form.name: _form(question, form) for form in forms}
    if not requests:
        message = f"{_who(question)} with {question.arguments_json[:_SHOWN_CHARS]}"
        requests = {_DECISION: _asked(message, _DECIDE)}
    return types.InputRequiredResult(input_requests=requests, request_state=question.id)


def _form(question: Approval, form: Form) -> types.ElicitRequest:
    message = f"{_who(question)}, which asks for input: {form.message}"[:_SHOWN_CHARS]
    if form.schema is not None:
        return _asked(message, form.schema)
    return types.ElicitRequest(params=types.ElicitRequestURLParams(message=message, url=form.url))


def _asked(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _who(question: Approval) -> str:
    again = " again, which was interrupted and may have taken effect" if question.is_repeat else ""
    return f"Agent {question.address} wants to call {question.tool}{again} (effect {question.effect})"


def settle(question: Approval, answers: types.InputResponses) -> bool:
    """Answer a question with what the user of a client said. Return False if the user put it off.

    Raises MisuseError for values that do not fit.
    """
    given = {name: one for name, one in answers.items() if isinstance(one, types.ElicitResult)}
    actions = {one.action for one in given.values()}
    if "decline" in actions:
        return question.deny(by=BY)
    if actions != {"accept"}:
        return False
    values = {name: dict(one.content or {}) for name, one in given.items()}
    if question.round:
        return question.approve(by=BY, values=values)
    return _decided(question, values.get(_DECISION, {}))


def _decided(question: Approval, said: Mapping[str, object]) -> bool:
    if said.get("decision") == "allow":
        return question.approve(by=BY)
    return question.deny(str(said.get("note") or ""), by=BY)
