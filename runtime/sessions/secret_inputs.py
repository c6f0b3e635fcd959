"""Secret values that people gave to calls. They are in the memory of one process only, not in the log."""

from contextlib import suppress

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, RequestApproval
from callboard.actors.protocol.value_types import InputAsked, InputGiven
from callboard.runtime.sanitize import to_json
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.tools.input_forms import secret_values, without_secrets

_Key = tuple[str, int, int, int]


class SecretInputs:
    """The secret values of one session, by the agent, turn, call and round that they are for."""

    def __init__(self) -> None:
        self._values: dict[_Key, dict[tuple[str, str], object]] = {}

    def take(self, request: Event, values: Json, secrets: Secrets) -> Json:
        """Keep the secret values of a question. Return the values as they go into the log."""
        asked = request.body
        assert isinstance(asked, RequestApproval)
        hidden = secret_values(asked.form, values)
        if not hidden:
            return values
        self._values[request.sender, asked.turn, asked.call, asked.round] = hidden
        for value in hidden.values():
            with suppress(MisuseError):  # too short to be searched for
                secrets.learn({"input": str(value)})
        return without_secrets(asked.form, values)

    def has(self, agent: str, call: CallTool, asked: InputAsked) -> bool:
        """Return whether the secret values of a call are here, if it was given any."""
        given = call.given
        if given is None or (agent, call.turn, call.call, given.round) in self._values:
            return True
        return not secret_values(asked.forms, given.values)

    def whole(self, agent: str, call: CallTool) -> InputGiven | None:
        """Return the input of a call, with its secret values."""
        given = call.given
        hidden = self._values.pop((agent, call.turn, call.call, given.round), None) if given else None
        if given is None or hidden is None:
            return given
        values = msgspec.json.decode(given.values)
        for (form, field), value in hidden.items():
            values[form][field] = value
        return replace(given, values=to_json(values))
