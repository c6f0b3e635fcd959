"""Conversations of agents that delegate, as a context function sees them."""

from collections.abc import Sequence

import msgspec

from callboard import ContextRequest
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.makers import NO_ORIGINS, Origins

TASK = {"type": "tool_use", "id": "last", "name": "task", "input": {"prompt": "Read it."}}


def said(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def used(number: int, name: str, **given: object) -> dict[str, object]:
    """Return a reply that calls one tool."""
    return said("assistant", [{"type": "tool_use", "id": f"t{number}", "name": name, "input": given}])


def gave(number: int, output: object) -> dict[str, object]:
    """Return the result of that call."""
    return said("user", [{"type": "tool_result", "tool_use_id": f"t{number}", "content": output}])


def view(
    messages: Sequence[dict[str, object]],
    labels: tuple[str, ...] = (),
    rights: Layers = (),
    origins: Origins = NO_ORIGINS,
    *,
    is_program: bool = False,
    every: tuple[Json, ...] = (),
) -> ContextRequest:
    """Return the view of a host that has had these messages, and delegates now. every: all, as JSON."""
    told = [*messages, said("assistant", [TASK])]
    return ContextRequest(
        parent="host",
        parent_profile="host",
        profile="kid",
        system=NULL,
        messages=every or tuple(Json(msgspec.json.encode(one)) for one in told),
        prompt=text_json("Read it."),
        labels=labels,
        rights=rights,
        origins=origins,
        is_program=is_program,
    )
