"""The arguments that a model gives to our own tools, `task` and `report_back`, as far as they make sense."""

from typing import Final

import msgspec

from callboard.actors.protocol.immutable import NULL, Json

COPIES_MAX: Final = 10_000
"""More racers than this are a mistake of the model, whatever the limits allow."""


class Task(msgspec.Struct, frozen=True, gc=False):
    """The arguments of a `task` call; models write null for what they leave out."""

    prompt: Json
    agent: str | None = None
    agents: tuple[str, ...] | None = None
    copies: int | None = None
    output_schema: Json = NULL

    def racers(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """Whom the call names, each as often as it is to run; nobody if it makes no sense."""
        copies = 1 if self.copies is None else self.copies
        names = self.agents or ((self.agent,) if self.agent else known if len(known) == 1 else ())
        if (self.agents and self.agent) or not 1 <= copies * len(names) <= COPIES_MAX:
            return ()
        return names * copies


class _Block(msgspec.Struct, frozen=True, gc=False):
    type: str


class _Wrapped(msgspec.Struct, frozen=True, gc=False):
    value: Json


_TASK: Final = msgspec.json.Decoder(Task)
_PROMPT: Final[msgspec.json.Decoder[str | tuple[_Block, ...]]] = msgspec.json.Decoder(
    str | tuple[_Block, ...]
)
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped)


def read_task(arguments: Json) -> Task | None:
    """The arguments of a `task` call, or None if they are none, or if there is no prompt in them."""
    try:
        task = _TASK.decode(arguments)
        prompt = _PROMPT.decode(task.prompt)
    except (msgspec.DecodeError, RecursionError):
        return None
    has_prompt = prompt.strip() if isinstance(prompt, str) else prompt
    return task if has_prompt else None


def unwrapped(value: Json) -> Json:
    """What the model put under `value`; without that key, all of it, for the schema to refuse."""
    try:
        return _WRAPPED.decode(value).value
    except (msgspec.DecodeError, RecursionError):
        return value
