"""The reply of a model to a question that carries its whole request, and the check of such a request."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.agent import prompt_json
from callboard.runtime.programs.asks import VALUE_DEPTH_MAX, Answer
from callboard.runtime.programs.kept_requests import Written
from callboard.runtime.sanitize import to_json

MESSAGE_DEPTH_MAX: Final = VALUE_DEPTH_MAX - 2
"""Levels of a message, which stands in the list of messages of a question."""

_NAME: Final = re.compile("[a-zA-Z0-9_-]{1,64}")
_ROLES: Final = ("user", "assistant")


@dataclasses.dataclass(frozen=True)
class ModelReply:
    """The reply of a model to `ctx.ask_model(messages=...)`.

    blocks: as of the Messages API: texts, calls, thinking, in order; they belong to the caller. stop_reason:
    such as `end_turn`, `tool_use`, `max_tokens`. usage: of the question, with all its attempts.
    """

    blocks: list[dict[str, Any]]
    stop_reason: str = ""
    usage: Usage = ZERO

    @property
    def text(self) -> str:
        """Return the texts of the reply, one below the other."""
        return "\n".join(block["text"] for block in self.blocks if block.get("type") == "text")

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return the `tool_use` blocks, each with `id`, `name` and `input`."""
        return [block for block in self.blocks if block.get("type") == "tool_use"]

    @property
    def message(self) -> dict[str, Any]:
        """Return the reply as the next message of the conversation."""
        return {"role": "assistant", "content": self.blocks}


def reply_of(answer: Answer) -> ModelReply:
    """Return the reply in the answer to a question."""
    assert answer.reply is not None  # of every question with a whole request that was answered
    blocks = msgspec.json.decode(answer.value, type=list[dict[str, Any]])
    return ModelReply(blocks, answer.reply.stop_reason, answer.reply.usage)


def whole_request(
    messages: Sequence[Mapping[str, object]],
    tools: Sequence[Mapping[str, object]],
    system: object,
    settings: Mapping[str, object] | None,
    max_tokens: int | None,
    force_tool: str,
    is_known: Callable[[bytes], bool] = lambda message: False,
) -> Written:
    """Check a whole request and encode its parts. Raises InvalidPrompt with the place and the correction.

    is_known: returns True for a message that was checked before.
    """
    if not messages or isinstance(messages, str | Mapping):
        raise InvalidPrompt("messages: give at least one, each a dict with `role` and `content`")
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        raise InvalidPrompt(f"max_tokens={max_tokens!r:.40}: give the most tokens of the reply, at least 1")
    found = tuple(_message(place, one, is_known) for place, one in enumerate(messages))
    offered = _tools(tools)
    if force_tool and force_tool not in [tool["name"] for tool in tools]:
        raise InvalidPrompt(f"force_tool={force_tool!r:.80}: no tool of the request has this name")
    if settings is not None and not isinstance(settings, Mapping):
        raise InvalidPrompt(f"settings={settings!r:.80}: give a dict of further parameters of the call")
    return Written(
        found,
        prompt_json(system) if (system.strip() if isinstance(system, str) else system) else NULL,
        offered,
        to_json(dict(settings), what="settings") if settings else NULL,
        force_tool,
        max_tokens or 0,
    )


def _message(place: int, said: object, is_known: Callable[[bytes], bool]) -> Json:
    if not isinstance(said, Mapping) or said.get("role") not in _ROLES or set(said) != {"role", "content"}:
        raise InvalidPrompt(
            f"messages[{place}] is {said!r:.80}: give a dict with `role` (user or assistant) and `content`, "
            "a text or a list of blocks"
        )
    if not isinstance(said["content"], str | list | tuple) or not said["content"]:
        raise InvalidPrompt(f"messages[{place}] has no content: give a text or a list of blocks")
    # In this order, so that equal messages have equal bytes.
    ordered = {"role": said["role"], "content": said["content"]}
    # A conversation is given whole each time, and to check a message takes ten times as long as to encode it.
    with contextlib.suppress(TypeError, ValueError, RecursionError):  # which the check says better
        if is_known(data := msgspec.json.encode(ordered)):
            return Json(data)
    return to_json(ordered, max_depth=MESSAGE_DEPTH_MAX, what=f"messages[{place}]")


def _tools(tools: Sequence[Mapping[str, object]]) -> tuple[Json, ...]:
    names: set[object] = set()
    for place, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidPrompt(
                f"tools[{place}] is {tool!r:.80}: give a dict with `name` (letters, digits, _ and -, at most "
                "64), `description` and `input_schema`"
            )
        if name in names:
            raise InvalidPrompt(f"tools[{place}]: two tools have the name {name!r}")
        names.add(name)
    return tuple(
        to_json(dict(tool), max_depth=MESSAGE_DEPTH_MAX, what=f"tools[{place}]")
        for place, tool in enumerate(tools)
    )
