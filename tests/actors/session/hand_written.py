"""A log that is written by hand, for the tests of forks."""

from typing import Any

from callboard.actors.protocol.addresses import SCHEMA, SUPERVISOR, TOOLS
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallTool, CheckSchema, SchemaChecked, ToolReturned

NOTHING = Json(b"{}")
SCHEMA_JSON = Json(b'{"type":"object"}')


class Log:
    """A log that is written by hand. Each event is posted a second after the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, sender: str, recipient: str, body: AnyMessage, cause: int = 0) -> Event:
        seq = len(self.events) + 1
        event = Event(seq, seq * 1_000, sender, recipient, cause, body)
        self.events.append(event)
        return event

    def calls(self, tool: str, turn: int, call: int = 0, effect: Effect = "write", text: str = "x") -> Event:
        arguments = Json(b'{"text":"%s"}' % text.encode())
        return self.add("host", TOOLS, CallTool(turn, call, tool, effect, arguments))

    def returns(self, call: Event, output: str = "did", status: Any = "ok", **more: Any) -> Event:
        body = call.body
        assert isinstance(body, CallTool)
        returned = ToolReturned(body.turn, body.call, status, text_json(output), **more)
        return self.add(TOOLS, "host", returned, call.seq)

    def checks(self, number: int) -> Event:
        return self.add(SUPERVISOR, SCHEMA, CheckSchema(number, "report", SCHEMA_JSON, NOTHING))

    def checked(self, check: Event, status: Any = "ok") -> Event:
        body = check.body
        assert isinstance(body, CheckSchema)
        return self.add(SCHEMA, SUPERVISOR, SchemaChecked(body.check, status), check.seq)
