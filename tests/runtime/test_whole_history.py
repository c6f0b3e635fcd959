"""The whole history of a parent as messages: legal, bounded, the newest, and the same every time."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import SystemContext, WholeHistory
from callboard.actors.protocol.histories import HandedHistory, why_broken
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.session.contexts import ContextRequest
from callboard.errors import InvalidAgent
from callboard.runtime import contexts
from callboard.runtime.brief import tokens_of
from callboard.runtime.contexts import MEDIUM_TOKENS, checked_context, made_context
from tests.effort import effort
from tests.runtime.conversations import gave, said, used, view
from tests.several_models import (
    CHAT,
    CLAUDE,
    IMAGE,
    Said,
    about_tools,
    conversations,
    decoded,
    hears,
    makers,
    result,
    says,
    text,
    use,
)

NOTE = "So far this is the conversation of host, which delegates to you. Your task now:"
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
LAST = says(CLAUDE, use("last", "task"))


def view_of(*parts: Said) -> ContextRequest:
    """Return the view of a host with this conversation that delegates now."""
    every = (*parts, LAST)
    return view([], every=tuple(one.body for one in every), origins=makers(every))


def handed(seen: ContextRequest, tokens: int = 50_000) -> HandedHistory:
    found = WholeHistory(tokens)(seen)
    assert isinstance(found, HandedHistory)
    return found


def contents(found: HandedHistory) -> list[object]:
    return [one["content"] for one in decoded(found.messages)]


def size(found: HandedHistory) -> int:
    """Return the tokens of a history, counted independently of it."""
    total = tokens_of(str(msgspec.json.decode(found.note)))
    for one in found.messages:
        total += tokens_of(bytes(one).decode())
        for block in media_of(msgspec.json.decode(one)["content"]):  # not by their bytes
            total += MEDIUM_TOKENS - len(msgspec.json.encode(block)) // 4
    return total


def media_of(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the images and files of a content, also those in results."""
    for block in content if isinstance(content, list) else ():
        if block["type"] in ("image", "document"):
            yield block
        yield from media_of(block.get("content"))


def test_it_has_every_message_but_the_reply_that_delegates_as_it_was() -> None:
    parts = [
        hears(text("Go.")),
        says(CLAUDE, THOUGHT, use("1"), use("2", "save")),
        hears(result("1"), result("2", is_error=True)),
        says(CHAT, text("Done.")),
        hears(text("Again."), IMAGE),
    ]
    found = handed(view_of(*parts))
    assert found.messages == tuple(one.body for one in parts)
    assert found.makers == ((0, CLAUDE), (3, CHAT))
    assert msgspec.json.decode(found.note) == NOTE
    assert all(one is part.body for one, part in zip(found.messages, parts, strict=True))


def test_a_change_of_the_parents_tools_is_not_handed_over() -> None:
    parts = [hears(text("Go.")), about_tools(), says(CHAT, text("a")), hears(text("b"))]
    found = handed(view_of(*parts))
    assert [one["role"] for one in decoded(found.messages)] == ["user", "assistant", "user"]
    assert found.makers == ((0, CHAT),)


def test_nothing_said_is_no_context() -> None:
    assert WholeHistory()(view([])) is None


def test_the_earliest_messages_are_left_out_and_a_user_says_so() -> None:
    talk = [said("user", "Go.")]
    for number in range(50):
        talk += [used(number, "look", path="x" * 100), gave(number, f"found {number}")]
    found = handed(view(talk), 500)
    first, *rest = decoded(found.messages)
    assert first == {
        "role": "user",
        "content": [text(f"[{101 - len(rest)} earlier messages are left out]")],
    }
    assert rest == talk[101 - len(rest) :]
    assert len(rest) > 4
    assert rest[0]["role"] == "assistant"


def test_a_prompt_is_kept_without_the_results_whose_calls_are_left_out() -> None:
    talk = [said("user", "Go."), used(1, "look", path="x" * 4_000)]
    talk.append(
        said("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "found"}, text("Now this.")])
    )
    found = handed(view(talk), 200)
    assert contents(found) == [[text("[2 earlier messages are left out]"), text("Now this.")]]


def test_a_paused_reply_is_kept_whole_or_not_at_all() -> None:
    parts = [hears(text("Go.")), says(CLAUDE, text("x" * 2_000)), says(CLAUDE, text("rest"))]
    parts += [hears(text("Next.")), says(CLAUDE, text("Yes.")), hears(text("Good."))]
    found = handed(view_of(*parts), 300)
    assert contents(found)[0] == [text("[3 earlier messages are left out]"), text("Next.")]


def test_a_last_message_that_does_not_fit_leaves_a_word_in_the_note() -> None:
    found = handed(view([said("user", "x" * 10_000)]), 100)
    assert found.messages == ()
    assert msgspec.json.decode(found.note) == f"[1 earlier messages are left out]\n{NOTE}"


def test_an_image_that_does_not_fit_leaves_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [hears(text("Go."), IMAGE), says(CHAT, use("1")), hears(result("1", [text("seen"), IMAGE]))]
    found = handed(view_of(*parts), 2_000)
    assert contents(found) == [
        [text("Go."), text("[image]")],
        [use("1")],
        [result("1", [text("seen"), IMAGE])],
    ]
    monkeypatch.setattr(contexts, "HISTORY_BYTES_MAX", 450)
    assert contents(handed(view_of(*parts)))[2] == [result("1", [text("seen"), IMAGE])]
    monkeypatch.setattr(contexts, "HISTORY_BYTES_MAX", 400)
    assert contents(handed(view_of(*parts)))[0] == [text("Go."), text("[image]")]
    shown = [hears(IMAGE), says(CHAT, text("A cat.")), hears(text("Yes."), {**IMAGE, "title": "x" * 300})]
    assert contents(handed(view_of(*shown))) == [[IMAGE], [text("A cat.")], [text("Yes."), text("[image]")]]


def test_of_a_program_there_is_a_transcript() -> None:
    talk = [said("user", "Go."), used(1, "look", path="a"), gave(1, "found")]
    found = WholeHistory()(view(talk, is_program=True))
    assert isinstance(found, str)
    assert 'host calls look {"path":"a"}' in found


def test_messages_have_no_place_in_a_system_prompt_and_no_program_reads_them() -> None:
    with pytest.raises(InvalidAgent, match=r"give SystemContext\(Transcript\(\)\)"):
        checked_context("kid", SystemContext(WholeHistory()))
    with pytest.raises(InvalidAgent, match="at least 100 tokens"):
        WholeHistory(99)
    found = handed(view([said("user", "Go.")]))
    for place, is_program in (("system", False), ("message", True)):
        with pytest.raises(ValueError, match="messages can stand neither"):
            made_context(found, place, is_program=is_program)  # type: ignore[arg-type]  # both are places


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((b'{"role":"assistant","content":"Hi."}',), "message 1 is neither"),
        ((b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}',), "the results"),
        ((b'{"role":"user","content":"' + b"x" * 4_000_001 + b'"}',), "more than 4,000,000 bytes"),
    ],
)
def test_a_history_of_ones_own_is_checked(messages: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made_context(HandedHistory(tuple(map(Json, messages))))


def test_a_history_of_ones_own_with_a_broken_note_or_number_is_refused() -> None:
    with pytest.raises(ValueError, match="a context is a text"):
        made_context(HandedHistory(note=Json(b"7")))
    with pytest.raises(ValueError, match="A message"):
        made_context(HandedHistory((Json(b'{"role":"user","content":"a","content":"b"}'),)))
    assert made_context(HandedHistory()) == HandedHistory(note=NULL)


@settings(max_examples=effort(60, 2_000), deadline=None)
@given(conversations(), st.integers(100, 4_000))
def test_whatever_fits_is_whole_and_the_newest_and_never_beyond_its_tokens(
    parts: list[Said], tokens: int
) -> None:
    found = handed(view_of(*parts), tokens)
    assert why_broken(found.messages) == ""
    assert size(found) <= tokens
    again = handed(view_of(*parts), tokens)
    assert (again.messages, again.makers, again.note) == (found.messages, found.makers, found.note)
    bodies = [one.body for one in parts]
    is_cut = bool(found.messages) and b"left out]" in bytes(found.messages[0])
    kept = found.messages[is_cut:]
    without_images = [bytes(one) for one in bodies[len(bodies) - len(kept) :]]
    assert len(without_images) == len(kept)
    for one, before in zip(kept, without_images, strict=True):
        assert bytes(one) == before or b"[image]" in bytes(one) or b"[document]" in bytes(one)
    assert made_context(found) == found
