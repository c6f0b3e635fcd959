"""The blocks of a user in the dialects: texts, images, documents and results."""

import base64
from typing import Any

import pytest

from callboard.actors.protocol.immutable import Json
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.messages import ERROR, system_text
from tests.openai_api import Reply
from tests.runtime.models.anthropic.kit import as_json
from tests.runtime.models.layered.kit import Api, Service, asked, failure_of, items_of

BOTH = pytest.mark.parametrize("dialect", ["chat", "responses"])
DATA = base64.b64encode(b"a picture").decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
NOTE = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A note."}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}}
URI = f"data:image/png;base64,{DATA}"


def sent(service: Service, dialect: Api, *messages: object) -> list[Any]:
    """Return the conversation that goes out for these messages."""
    service.api.reply(Reply(("Hi.",)))
    answer, _ = service.ask(asked(messages), dialect)
    assert answer.failure is None, answer.failure
    return items_of(service.api.seen[-1])


def user(*blocks: object) -> dict[str, object]:
    return {"role": "user", "content": list(blocks)}


def result(content: object, **more: object) -> list[object]:
    """Return a conversation in which one call was answered with this content."""
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    block = {"type": "tool_result", "tool_use_id": "c1", "content": content, **more}
    return [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": [call]}, user(block)]


@BOTH
def test_images_and_documents_stay_beside_the_text(service: Service, dialect: Api) -> None:
    (item,) = sent(service, dialect, user({"type": "text", "text": "See."}, IMAGE, LINK, NOTE, PDF))
    kinds = [part["type"] for part in item["content"]]
    if dialect == "chat":
        assert kinds == ["text", "image_url", "image_url", "text", "file"]
        assert item["content"][1]["image_url"]["url"] == URI
        assert item["content"][2]["image_url"]["url"] == LINK["source"]["url"]  # type: ignore[index]  # a dict
        assert item["content"][4]["file"]["file_data"].endswith(DATA)
        return
    assert kinds == ["input_text", "input_image", "input_image", "input_text", "input_file"]
    assert item["content"][1]["image_url"] == URI


@BOTH
@pytest.mark.parametrize(
    ("content", "more", "text"),
    [
        ("done", {}, "done"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], {}, "one\ntwo"),
        ("no such file", {"is_error": True}, f"{ERROR}no such file"),
        ("", {}, "(empty)"),
        ([], {}, "(empty)"),
    ],
)
def test_a_result_is_text(
    service: Service, dialect: Api, content: object, more: dict[str, object], text: str
) -> None:
    item = sent(service, dialect, *result(content, **more))[-1]
    assert item["content" if dialect == "chat" else "output"] == text


@BOTH
def test_an_image_in_a_result_arrives(service: Service, dialect: Api) -> None:
    items = sent(service, dialect, *result([{"type": "text", "text": "a plot"}, IMAGE]))
    if dialect == "chat":
        assert items[-2]["content"] == "a plot"
        assert [part["type"] for part in items[-1]["content"]] == ["text", "image_url"]
        assert "look" in items[-1]["content"][0]["text"]
        return
    assert [part["type"] for part in items[-1]["output"]] == ["input_text", "input_image"]


@BOTH
def test_results_come_before_a_prompt_beside_them(service: Service, dialect: Api) -> None:
    conversation: list[Any] = result("done")
    conversation[-1]["content"].append({"type": "text", "text": "And now?"})
    items = sent(service, dialect, *conversation)
    assert items[-1] == {"role": "user", "content": "And now?"}
    assert (items[-2].get("role") or items[-2]["type"]) in ("tool", "function_call_output")


def test_a_file_that_is_not_base64_is_refused(service: Service) -> None:
    broken = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%%%"}}
    answer, _ = service.ask(asked([user(broken)]))
    assert failure_of(answer).code == "invalid_request_error"
    assert not service.api.seen


@pytest.mark.parametrize(
    ("system", "text"),
    [(None, ""), ("Be brief.", "Be brief."), ([{"type": "text", "text": t} for t in "ab"], "a\n\nb")],
)
def test_the_system_prompt_is_text(system: object, text: str) -> None:
    assert system_text(Json(as_json(system))) == text


def test_a_system_prompt_with_an_image_is_refused() -> None:
    with pytest.raises(CallFailed, match="system prompt"):
        system_text(as_json([IMAGE]))
