"""The shapes of histories: the items of three APIs as the words of users, assistants and tools.

    messages    Anthropic's Messages API: calls and results are blocks of the content
    chat        Chat Completions, and servers that speak it: `tool_calls`, role `tool`; the older
                `function_call`; Ollama's calls without ids
    responses   the Responses API: an item for each message, call and output

Rules
  - The shape of each item is told by its own keys, so a history may hold items of several.
  - A system or developer message inside a history is words of a user that say so: the agent that goes on has
    a system prompt of its own.
  - Reasoning, and a service's calls of its own tools, mean something to their maker only. In the shapes of
    chat and responses they are left out.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from callboard.actors.protocol.blocks import UNKNOWN
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.histories.content import Block, Repairs, blocks_in, is_known, left_out, text_of

Shape: TypeAlias = Literal["messages", "chat", "responses"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)

_SYSTEM: Final = frozenset({"system", "developer"})
_CHAT_ROLES: Final = frozenset({"tool", "function"})
_CHAT_KEYS: Final = ("tool_calls", "function_call", "tool_call_id")
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_MESSAGES_ONLY: Final = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document")
_PRIVATE: Final = frozenset({
    "reasoning", "compaction", "web_search_call", "file_search_call", "computer_call", "computer_call_output",
    "tool_search_call", "tool_search_output", "code_interpreter_call", "image_generation_call",
    "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "mcp_call",
    "apply_patch_call", "apply_patch_call_output", "mcp_list_tools", "mcp_approval_request",
    "mcp_approval_response",
})  # fmt: skip
"""The items of the Responses API that mean something to their maker only. Any other may hold words."""

_ARGUMENTS: Final = ("arguments", "args", "input", "parameters")
"""The keys of the arguments of a call, in Chat Completions and in the products that are like it."""

_ABOUT: Final = frozenset({"content", "usage", "metadata", "annotations", "_meta"})
"""The keys of a message that hold lists or objects and none of its words."""

_MODELS: Final = frozenset({"assistant", "model", "ai", "gpt", "chatbot", "bot"})
_WORDS: Final = ("text", "message", "value", "body", "input", "output", "prompt", "response", "completion")
"""The keys under which products have the words of a message, beside `content`."""

_FORM: Final = "has its content in a form that none of the shapes has"
_UNREADABLE: Final = "unreadable"

_JSON: Final = msgspec.json.Decoder()


class Call(NamedTuple):
    """A call of a tool. id: empty for one without."""

    id: str
    name: str
    arguments: JsonObject


class Result(NamedTuple):
    """The result of a call. id, name: of the call, empty where they are not given."""

    id: str
    name: str
    content: str | list[Block]
    is_error: bool = False


class Words(NamedTuple):
    """A block that is neither a call nor a result."""

    role: Literal["user", "assistant"]
    block: Block


Said: TypeAlias = Call | Result | Words


class Reader:
    """Reads the items of one history. shape: of all of them, None for the one that each of them has.

    Raises MisuseError for another shape.
    """

    def __init__(self, shape: Shape | None, repairs: Repairs) -> None:
        if shape not in (None, *SHAPES):
            raise MisuseError(f"shape={shape!r:.40}: use {', '.join(map(repr, SHAPES))}, or leave it out")
        self._shape = shape
        self._repairs = repairs

    def read(self, item: object, index: int) -> list[Said]:
        """Return the words, calls and results of an item, in order."""
        if not isinstance(item, dict):
            self._repairs.add(index, "is not a message", "it is left out")
            return []
        shape = shape_of(item)
        if shape not in (None, self._shape or shape):
            self._repairs.add(index, f"is of the shape {shape}, not {self._shape}", "it is read as that")
        said = list(self._said(item, index))
        if said or _is_private(item):
            return said
        if not _holds_more(item):
            self._repairs.add(index, "is empty", "it is left out")
            return []
        self._repairs.add(index, _FORM, "its JSON is text")
        speaker = _speaker(_role_of(item) or _str(item.get("from")))
        return [Words(speaker, text_of(msgspec.json.encode(item).decode()))]

    def _said(self, item: Block, index: int) -> Iterator[Said]:
        role, kind = _role_of(item), item.get("type")
        if role is None and isinstance(kind, str):
            yield from self._of_item(item, kind, index)
        elif role in _SYSTEM:
            for block in blocks_in(item.get("content")):
                words = block["text"] if block.get("type") == "text" else ""
                yield Words("user", text_of(f"[{role} message] {words}") if words else left_out(f"{role}"))
        elif role in _CHAT_ROLES:
            yield self._result(item, item.get("content"))
        elif role == "user":
            yield from self._content(item, "user", index)
        elif role in ("assistant", "model"):
            yield from self._content(item, "assistant", index)
            yield from self._chat_calls(item, index)
        else:
            speaker = _speaker(role or _str(item.get("from")))
            self._repairs.add(index, f"has the role {role!r:.40}", f"it is read as the {speaker}'s")
            yield from self._content(item, speaker, index)

    # --- content, with the calls and results of the Messages API ------------------------

    def _content(self, item: Block, role: Literal["user", "assistant"], index: int) -> Iterator[Said]:
        content = item.get("content")
        if not all(map(is_known, content if isinstance(content, list) else [content])):
            self._repairs.add(index, _FORM, "its JSON is text")
        for block in blocks_in(content):
            kind = block.get("type")
            if kind == "tool_result":
                yield self._result(block, block.get("content"))
            elif kind != "tool_use":
                yield Words(role, block)
            elif role == "assistant":
                yield self._call(block.get("id"), block.get("name"), block.get("input"), index)
            else:
                self._repairs.add(index, "has a call in a user's message", "it is written as text")
                yield Words(role, text_of(f"[call of {block.get('name')}]"))
        if isinstance(refusal := item.get("refusal"), str) and refusal.strip():
            yield Words(role, text_of(refusal))

    # --- Chat Completions -----------------------------------------------------------------

    def _chat_calls(self, item: Block, index: int) -> Iterator[Said]:
        calls = item.get("tool_calls")
        for one in calls if isinstance(calls, list) else ():
            call = one if isinstance(one, dict) else {}
            what = call.get("function") or call.get("custom") or call
            what = what if isinstance(what, dict) else {}
            told = next((what[key] for key in _ARGUMENTS if what.get(key) is not None), None)
            arguments = {"input": what.get("input")} if "custom" in call else told
            yield self._call(call.get("id"), what.get("name"), arguments, index)
        if isinstance(legacy := item.get("function_call"), dict):
            yield self._call("", legacy.get("name"), legacy.get("arguments"), index)

    # --- Responses ------------------------------------------------------------------------

    def _of_item(self, item: Block, kind: str, index: int) -> Iterator[Said]:
        if kind in _CALLS:
            arguments = item.get(_CALLS[kind])
            if kind == "custom_tool_call":  # its input is a text of any form
                arguments = {"input": arguments}
            yield self._call(item.get("call_id") or item.get("id"), item.get("name"), arguments, index)
        elif kind in _OUTPUTS:
            yield self._result({**item, "tool_call_id": item.get("call_id")}, item.get("output"))
        elif kind == "item_reference":
            self._repairs.add(index, "refers to an item that the service keeps", "it is left out")
        elif kind == "message":
            yield from self._content(item, "user", index)
        elif not _is_private(item):
            yield from self._of_other(item, kind, index)

    def _of_other(self, item: Block, kind: str, index: int) -> Iterator[Said]:
        """Yield what can be read of an item of another product: its content, or the message in it."""
        fault, role = f"is of the type {kind!r:.40}, which none of the shapes has", _speaker(kind)
        inner = item.get("message")
        said = list(self._said(inner, index)) if isinstance(inner, dict) else []
        if not said and item.get("tool_call_id"):
            said = [self._result(item, item.get("content"))]
        said = said or [*self._content(item, role, index), *self._chat_calls(item, index)]
        self._repairs.add(index, fault, f"it is read as the {role}'s" if said else "a text stands for it")
        yield from said or [Words("user", left_out(kind))]

    # --- calls and results ----------------------------------------------------------------

    def _call(self, use_id: object, name: object, arguments: object, index: int) -> Call:
        called = _str(name) or UNKNOWN
        if called != name:
            self._repairs.add(index, "has a call without a name", f"it is named {UNKNOWN}")
        found = _object(arguments)
        if found is None:
            fault = f"has arguments of a call of {called} that are not a JSON object"
            self._repairs.add(index, fault, f"their text stands under `{_UNREADABLE}`")
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            found = {_UNREADABLE: text}
        return Call(_str(use_id), called, found)

    def _result(self, item: Block, content: object) -> Result:
        use_id = _str(item.get("tool_use_id")) or _str(item.get("tool_call_id"))
        name = _str(item.get("name")) or _str(item.get("tool_name"))
        found = content if isinstance(content, str) else blocks_in(_parts(content))
        return Result(use_id, name, found, bool(item.get("is_error")))


def shape_of(item: Block) -> Shape | None:
    """Return the shape that an item has by its keys; None for one that all shapes have."""
    role, kind, content = _role_of(item), item.get("type"), item.get("content")
    if role in _CHAT_ROLES or any(item.get(key) is not None for key in _CHAT_KEYS):
        return "chat"
    if isinstance(kind, str) and (role is None or kind == "message"):
        return "responses"
    parts = content if isinstance(content, list) else []
    is_own = any(isinstance(part, dict) and part.get("type") in _MESSAGES_ONLY for part in parts)
    return "messages" if is_own else None


def _str(value: object) -> str:
    """Return a text itself, and an empty one for any other value."""
    return value if isinstance(value, str) else ""


def _role_of(item: Block) -> str | None:
    role = item.get("role")
    return role if role is None or isinstance(role, str) else repr(role)


def _speaker(role: str | None) -> Literal["user", "assistant"]:
    """Return whose words an item of another product has, by its role or type."""
    return "assistant" if role and role.lower() in _MODELS else "user"


def _holds_more(item: Block) -> bool:
    """Return True for an item that has content under keys of its own, and so is not empty."""
    others = (value for key, value in item.items() if key not in _ABOUT)
    has_parts = any(isinstance(value, dict | list) and value for value in others)
    return has_parts or any(_str(item.get(key)).strip() for key in _WORDS)


def _is_private(item: Block) -> bool:
    """Return True for an item that means something to its maker only: reasoning, a call of its own tools."""
    kind = item.get("type")
    return isinstance(kind, str) and "role" not in item and kind in _PRIVATE


def _object(arguments: object) -> dict[str, object] | None:
    """Return the arguments of a call: an object, or its JSON in a text, once or twice; None for any other.

    No arguments, or a blank text in their place, are an empty object: the message is whole.
    """
    for _ in range(3):
        if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
            return {}
        if not isinstance(arguments, str):
            break
        try:
            arguments = _JSON.decode(arguments)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return None
    return arguments if isinstance(arguments, dict) else None


def _parts(content: object) -> object:
    """Return the parts of a result; its JSON as text for one that is data and no content."""
    parts = content if isinstance(content, list) else [content]
    is_content = all(isinstance(one, str) or (isinstance(one, dict) and is_known(one)) for one in parts)
    return content if content is None or is_content else msgspec.json.encode(content).decode()
