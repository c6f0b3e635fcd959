"""Messages that were written in pieces, and the texts in blocks.

A streaming program may write a message as a line for each block, or as ever longer copies of it, each under
the service's name of the message. Counts of usage grow from piece to piece, so the last one is the message's.
"""

from callboard.actors.protocol.usage import Usage
from callboard.runtime.imports.traffic import Block, Said


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
