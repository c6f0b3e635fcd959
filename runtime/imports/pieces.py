"""Messages that were written in pieces, and the texts and the reasoning in them.

A streaming program may write a message as a line for each block, or as ever longer copies of it, each under
the service's name of the message. Counts of usage grow from piece to piece, so the last one is the message's.
"""

from typing import Final

from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.usage import Usage
from callboard.runtime.imports.traffic import Block, Said

REASONING: Final = ("reasoning_content", "reasoning", "thinking")
"""The keys under which services that speak Chat Completions put reasoning: a text beside the content."""


def joined(first: Said, more: Said, *, has_result: bool) -> None:
    """Add a later piece to a message. has_result: results have come between, so its time stays."""
    for block in more.blocks:
        place = next((n for n, known in enumerate(first.blocks) if _is_copy(known, block)), None)
        if place is None:
            first.blocks.append(block)
        else:
            first.blocks[place] = block
    if not has_result:
        first.at = max(first.at, more.at)
    first.stop_reason = more.stop_reason or first.stop_reason
    first.model = first.model or more.model
    first.failure = first.failure or more.failure
    first.differs += more.differs
    if more.usage is not None and (first.usage is None or _weight(more.usage) >= _weight(first.usage)):
        first.usage = more.usage


def _weight(usage: Usage) -> tuple[int, int]:
    return usage.output_tokens, usage.tokens


def _is_copy(known: Block, block: Block) -> bool:
    """Return True for the same block, as long or longer."""
    kind = known.get("type")
    if kind != block.get("type"):
        return False
    if kind == "tool_use":
        return bool(known.get("id")) and known.get("id") == block.get("id")
    if kind == "text":
        return str(block.get("text", "")).startswith(str(known.get("text", "")))
    return known == block


def text_in(content: str | list[Block]) -> str:
    """Return the texts of a content on lines, with a word for each other block."""
    if isinstance(content, str):
        return content
    return "\n".join(_text(block) for block in content)


def _text(block: Block) -> str:
    if isinstance(block.get("text"), str):
        return str(block["text"])
    return f"[{block.get('type', 'block')}]"


def reasoning_in(item: JsonObject) -> list[Block]:
    """Return the reasoning of an answer's item as blocks, without signatures.

    item: of type `reasoning` of the Responses API, or a message of Chat Completions with one of `REASONING`.
    """
    if item.get("type") == "reasoning":
        text = _texts(item.get("content")) or _texts(item.get("summary"))
    elif item.get("role") == "assistant":
        told = (item.get(key) for key in REASONING)
        text = next((one for one in told if isinstance(one, str)), "") or _texts(
            item.get("reasoning_details")
        )
    else:
        text = ""
    return [{"type": "thinking", "thinking": text, "signature": ""}] if text else []


def without_reasoning(message: Block) -> Block:
    """Return a message of the Messages API without its blocks of reasoning."""
    content = message["content"]
    if not isinstance(content, list):
        return message
    return {**message, "content": [block for block in content if block.get("type") != "thinking"]}


def _texts(parts: object) -> str:
    """Return the texts in a list of parts as paragraphs."""
    found = [part.get("text") or part.get("summary") for part in _dicts(parts)]
    return "\n\n".join(one for one in found if isinstance(one, str) and one)


def _dicts(parts: object) -> list[JsonObject]:
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
