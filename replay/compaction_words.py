"""Words about conversations that became shorter, by a decision of ours or by one of the service."""

from collections.abc import Iterator

import msgspec

from callboard.actors.protocol.blocks import kind_of
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.conversation import blocks_of
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.formats import counted, tokens


def _cleared(body: Compacted) -> str:
    results = f"{counted(body.results, 'result')} cleared" * bool(body.results)
    thoughts = f"thinking of {counted(body.thoughts, 'turn')} cleared" * bool(body.thoughts)
    return " and ".join(filter(None, (results, thoughts)))


def compacted(body: Compacted) -> str:
    """Return how a conversation became shorter, in words."""
    how = _cleared(body) if body.by == "clear" else f"summary {body.summary}"
    return (
        f"{how} in place of {counted(body.upto, 'message')}, {body.kept} kept, "
        f"at most {tokens(body.after)} tokens after {tokens(body.before)}"
    )


def service_edits(body: ModelReplied) -> Iterator[str]:
    """Yield what the service has done to the conversation by itself."""
    if b"compaction" in bytes(body.content) and "compaction" in map(kind_of, blocks_of(body.content)):
        yield "[the service compacted the conversation]"
    edits = () if body.edits == NULL else msgspec.json.decode(body.edits)
    for edit in edits if isinstance(edits, list) else ():
        told = edit.items() if isinstance(edit, dict) else ()
        said = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in told)
        yield f"[the service edited the conversation: {said}]"
