"""Input that a server's call asks a person for, in the rounds of the protocol 2026-07-28.

A call ends with the requests of its server, and is made again with the answers, also with those of a person
who declined. Older servers ask in the
middle of a call, while it waits. Such a request is refused, as are those for a model call (sampling) and for
folders (roots): a call must not hang on a person, and a server must not use the model or see the disk.
"""

from typing import Any, Final

import mcp.types as types
import msgspec

from callboard.actors.protocol.errors import InvalidPrompt, ToolError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.value_types import InputAsked, InputGiven
from callboard.runtime.sanitize import clean_text
from callboard.runtime.tools.input_forms import InputNeeded, checked_forms

KEPT_CHARS_MAX: Final = 1_000_000
"""Characters of a server's own state of a call, which the log holds."""


async def refuse_request(context: object, params: object) -> types.ErrorData:
    """Refuse a request for input in the middle of a call."""
    why = "this client takes requests for input as the result of a call only (protocol 2026-07-28)"
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)


def params_of(name: str, arguments: dict[str, Any], given: InputGiven | None) -> types.CallToolRequestParams:
    """Return the parameters of a call, with the input of its round."""
    if given is None:
        return types.CallToolRequestParams(name=name, arguments=arguments)
    return types.CallToolRequestParams(
        name=name,
        arguments=arguments,
        input_responses=_answers(given) or None,
        request_state=given.kept or None,
    )


def _answers(given: InputGiven) -> types.InputResponses:
    values = msgspec.json.decode(given.values) or {}
    return {
        form: types.ElicitResult(action=given.action, content=fields or None)
        for form, fields in values.items()
    }


def input_needed(server: str, elicits: bool, result: types.InputRequiredResult) -> InputNeeded:
    """Return the wish of a call for input. Raises ToolError where it is refused."""
    if not elicits:
        raise ToolError(
            f"{server} asks a person for input before it continues, which MCPServer(elicit=True) allows"
        )
    text = f"{server} asked a person for input, and the call did not go on"
    forms = _forms(server, result.input_requests or {})
    return InputNeeded(text, InputAsked(forms, _kept(server, result.request_state or "")))


def _kept(server: str, state: str) -> str:
    if state != clean_text(state) or len(state) > KEPT_CHARS_MAX:
        raise ToolError(f"{server} asks for input, with a state of the call that cannot be kept")
    return state


def _forms(server: str, requests: types.InputRequests) -> Json:
    try:
        return checked_forms({name: _form(server, one) for name, one in requests.items()})
    except InvalidPrompt as error:
        raise ToolError(f"{server} asks for input in a way that no person can answer: {error}") from None


def _form(server: str, request: types.InputRequest) -> dict[str, object]:
    if not isinstance(request, types.ElicitRequest):
        raise ToolError(f"{server} asks for {request.method}, which is refused")
    params = request.params
    if isinstance(params, types.ElicitRequestURLParams):
        return {"message": params.message, "url": params.url}
    return {"message": params.message, "schema": params.requested_schema}
