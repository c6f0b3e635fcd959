"""Conversations in which several models take part, for the tests of their translation.

`conversations()` generates them as an agent would hold them: calls, parallel and with doubled ids, results
with errors, texts, images and documents, words, prompts, reasoning, blocks of a service's own tools, paused
turns, and all that adapters keep for themselves.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from callboard.actors.protocol.conversation import is_by, message, system_message, tool_result, user_message
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.makers import NO_ORIGINS, Origins, with_reply
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest

CLAUDE = Origin("anthropic", "anthropic", "", "claude-sonnet-4-5")
CHAT = Origin("layered", "openai-chat", "https://api.openai.com/v1", "gpt-5")
RESPONSES = Origin("layered", "openai", "https://api.openai.com/v1", "gpt-5")
GEMINI = Origin("layered", "google", "https://generativelanguage.googleapis.com", "gemini-3")
CONVERSE = Origin("layered", "bedrock", "https://bedrock-runtime.eu-central-1.amazonaws.com", "nova")
ORIGINS = (CLAUDE, CHAT, RESPONSES, GEMINI, CONVERSE)

PNG = "iVBORw0KGgo="
IMAGE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
}
DOCUMENT: dict[str, Any] = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "A file."},
    "title": "a.txt",
}
FILE: dict[str, Any] = {"type": "image", "source": {"type": "file", "file_id": "file_011"}}
TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("look", "save")]

_WORDS = st.sampled_from(["Yes.", "No", 'öä\n "quoted" \U0001f600', "x" * 300, "{}"])
_NAMES = ("look", "functions.look", "a b", "n" * 80)
_SERVICE_IDS = ("toolu_01", "call_abc", "fc:1/2", "a b", "ü" * 30, "i" * 90, "cb_0", "0")


class Said(NamedTuple):
    """One message. maker: of a model's message; None for any other."""

    body: Json
    maker: Origin | None = None


def as_json(value: object) -> Json:
    """Encode a value as JSON."""
    return Json(msgspec.json.encode(value))


def says(maker: Origin, *blocks: object) -> Said:
    """Make a model's message."""
    return Said(message("assistant", as_json(blocks)), maker)


def hears(*blocks: object) -> Said:
    """Make a user's message of blocks."""
    return Said(message("user", as_json(blocks)))


def text(value: str, **more: object) -> dict[str, object]:
    """Make a block of text."""
    return {"type": "text", "text": value, **more}


def use(use_id: str, name: str = "look", arguments: object = None, **more: object) -> dict[str, object]:
    """Make a block of a call."""
    return {"type": "tool_use", "id": use_id, "name": name, "input": arguments or {}, **more}


def result(use_id: str, content: object = "done", **more: object) -> dict[str, object]:
    """Make a block of a result."""
    return {"type": "tool_result", "tool_use_id": use_id, "content": content, **more}


def makers(said: Sequence[Said]) -> Origins:
    """Return the makers of a conversation, as an agent keeps them."""
    found = NO_ORIGINS
    for place, one in enumerate(said):
        if one.maker is not None:
            found = with_reply(found, place, one.maker)
    return found


def request_to(
    target: Origin, said: Sequence[Said], *, is_lossy: bool = False, session_id: str = ""
) -> ModelRequest:
    """Make a request with this conversation to a model."""
    history: IntMap[Json] = IntMap()
    for one in said:
        history = history.append(one.body)
    made = ModelRequest(
        address="host",
        profile="host",
        model=ModelSpec(target.model, 100, origin=target),
        turn=1,
        attempt=1,
        system=NULL,
        tools=tuple(as_json(tool) for tool in TOOLS),
        history=history,
        origins=makers(said),
        is_lossy=is_lossy,
    )
    made.session_id = session_id
    return made


def decoded(messages: Sequence[Json]) -> list[dict[str, Any]]:
    """Decode messages."""
    return [msgspec.json.decode(one) for one in messages]


def ends_of(said: Sequence[Said]) -> list[int]:
    """Return the lengths of the conversations that were sent on the way to this one."""
    return [at for at, one in enumerate(said) if one.maker is not None] + [len(said)]


def starts_as(before: Sequence[Json], after: Sequence[Json]) -> bool:
    """Return True if a conversation begins with another, but for the words that are sent for once."""
    kept = before[:-1] if not is_by("assistant", before[-1]) else before
    return [*after[: len(kept)]] == [*kept]


# --- generated conversations ------------------------------------------------------------


@st.composite
def conversations(
    draw: st.DrawFn, makers: Sequence[Origin] = ORIGINS, orderly: Sequence[Origin] = (CLAUDE,)
) -> list[Said]:
    """Generate a conversation that ends with a user's message, or with a paused one of a model.

    orderly: the makers whose calls have ids of their own, known names and arguments that can be read.
    """
    said = [hears(text("Go."))]
    for turn in range(draw(st.integers(1, 6))):
        maker = draw(st.sampled_from(makers))
        blocks, ids = draw(_replies(maker, turn, maker in orderly))
        said.append(says(maker, *blocks))
        if not ids and draw(st.integers(0, 5)) == 0:  # a paused turn
            continue
        said.append(draw(_heard(ids)))
        if draw(st.integers(0, 7)) == 0:
            said.append(draw(_heard([])))
    return said


@st.composite
def _replies(
    draw: st.DrawFn, maker: Origin, turn: int, is_orderly: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    ids: list[str] = []
    blocks: list[dict[str, Any]] = []
    for at in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["text", "call", "call", "reasoning", "service", "image"]))
        made, use_id = _block(draw, maker, kind, f"{turn}_{at}", is_orderly)
        blocks += made
        ids += [use_id] if use_id else []
    if not blocks:
        blocks.append(text(draw(_WORDS)))
    return (blocks if maker == CLAUDE else [{**one, "part": {"id": "rs_1"}} for one in blocks]), ids


def _block(
    draw: st.DrawFn, maker: Origin, kind: str, place: str, is_orderly: bool
) -> tuple[list[dict[str, Any]], str]:
    is_claude = maker == CLAUDE
    if kind == "call":
        arguments: object = {"path": draw(_WORDS)}
        if is_orderly:
            return [use(f"toolu_{place}", "look", arguments)], f"toolu_{place}"
        # Other services give any id, and the same again, and their models make names up.
        use_id, name = draw(st.sampled_from(_SERVICE_IDS)), draw(st.sampled_from(_NAMES))
        arguments = arguments if draw(st.integers(0, 4)) else "{cut"
        return [{**use(use_id, name), "input": arguments}], use_id
    if kind == "reasoning":
        return [{"type": "thinking", "thinking": draw(_WORDS), "signature": f"sig-{place}"}], ""
    if kind == "service":
        asked = {"type": "server_tool_use", "id": f"srv_{place}", "name": "web_search", "input": {}}
        found = {"type": "web_search_tool_result", "tool_use_id": f"srv_{place}", "content": []}
        return [asked, found], ""
    if kind == "image" and not is_claude:
        return [draw(st.sampled_from([IMAGE, DOCUMENT]))], ""
    cited = {"citations": [{"type": "web_search_result_location", "url": "https://example.org"}]}
    return [text(draw(_WORDS if is_claude else st.one_of(_WORDS, st.just(" "))), **cited)], ""


@st.composite
def _heard(draw: st.DrawFn, ids: Sequence[str]) -> Said:
    results = []
    for use_id in ids:
        content = draw(st.sampled_from(["done", [text("done")], [text("seen"), IMAGE], [DOCUMENT]]))
        results.append(tool_result(use_id, as_json(content), draw(st.booleans())))
    more = [
        as_json(one) for one in draw(st.lists(st.sampled_from([text("Words."), IMAGE, DOCUMENT]), max_size=2))
    ]
    if not results and not more:
        return Said(user_message((), as_json(draw(_WORDS))))
    return Said(user_message((*results, *more)))


def about_tools() -> Said:
    """Make a message that changes the tools."""
    change = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "save"}}
    return Said(system_message((as_json(change),)))
