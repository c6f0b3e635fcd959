import msgspec
import pytest

from callboard.actors.protocol.client_messages import Ask, Cancel, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import ModelReplied, SchemaChecked, TimerFired, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure, SchemaProblem
from callboard.runtime.sanitize import to_json
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.secrets.registry import SIGNED_CODE, redact_message

SECRET = "open-sesame"


@pytest.fixture
def redactor() -> Redactor:
    made = Redactor()
    made.learn("DOOR", SECRET)
    return made


def replied(*blocks: dict[str, object]) -> ModelReplied:
    return ModelReplied(1, 1, "ok", to_json(list(blocks)), "end_turn", Usage(3, 4), model="m")


SPEAKING: list[AnyMessage] = [
    Ask("r1", to_json(f"say {SECRET}"), to_json({"description": SECRET})),
    Cancel(f"because {SECRET}"),
    replied(
        {"type": "text", "text": SECRET}, {"type": "tool_use", "id": "a", "name": "t", "input": {"x": SECRET}}
    ),
    ModelReplied(1, 1, "error", failure=ModelFailure("code", f"refused {SECRET}"), model=SECRET),
    ToolReturned(1, 0, "ok", to_json(f"found {SECRET}")),
    SchemaChecked(1, "invalid", (SchemaProblem("/a", "fine"), SchemaProblem(f"/{SECRET}", f"not {SECRET}"))),
]


@pytest.mark.parametrize("body", SPEAKING, ids=lambda body: type(body).__name__)
def test_no_message_carries_a_secret_in_any_of_its_texts(redactor: Redactor, body: AnyMessage) -> None:
    clean = redact_message(redactor, body)
    assert type(clean) is type(body)
    assert SECRET.encode() in encode(body)
    assert SECRET.encode() not in encode(clean)
    assert b"[secret:DOOR]" in encode(clean)
    assert encode(clean).replace(b"[secret:DOOR]", SECRET.encode()) == encode(body)
    assert redact_message(redactor, clean) == clean


def test_a_message_without_secrets_is_the_same_object(redactor: Redactor) -> None:
    for body in (
        TimerFired(3),
        Cancel("enough"),
        replied({"type": "text", "text": "hi"}),
        Ask("r", to_json("x")),
    ):
        assert redact_message(redactor, body) is body


def test_words_of_a_fixed_set_are_never_changed() -> None:
    redactor = Redactor()
    for word in ("interrupted", "cancelled", "ToolReturned"):
        redactor.learn(word, word)
    assert redact_message(redactor, ToolReturned(1, 0, "interrupted", NULL)) == ToolReturned(
        1, 0, "interrupted", NULL
    )


SIGNED: list[dict[str, object]] = [
    {"type": "thinking", "thinking": f"the code is {SECRET}", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": f"x{SECRET}"},
    {"type": "web_search_tool_result", "content": [{"title": SECRET, "encrypted_content": "YWJj"}]},
]


@pytest.mark.parametrize("block", SIGNED, ids=lambda block: str(block["type"]))
def test_a_secret_in_a_signed_block_ends_the_call(redactor: Redactor, block: dict[str, object]) -> None:
    clean = redact_message(redactor, replied({"type": "text", "text": "hi"}, block))
    assert isinstance(clean, ModelReplied)
    assert (clean.status, bytes(clean.content), clean.usage) == ("error", b"null", Usage(3, 4))
    assert clean.failure is not None
    assert (clean.failure.code, clean.failure.is_retryable) == (SIGNED_CODE, False)
    assert SECRET.encode() not in encode(clean)


def test_a_secret_beside_a_signed_block_is_taken_out_and_the_block_stays(
    redactor: Redactor,
) -> None:
    signed = Json(b'{"signature" : "c2ln", "type":"thinking","thinking":"hm\\u006d"}')
    text = b'{"type":"text","text":"open-sesame"}'
    clean = redact_message(
        redactor, ModelReplied(1, 1, "ok", Json(b"[" + bytes(signed) + b"," + text + b"]"))
    )
    assert isinstance(clean, ModelReplied)
    assert clean.status == "ok"
    blocks = msgspec.json.decode(clean.content, type=list[msgspec.Raw])
    assert bytes(blocks[0]) == bytes(signed)
    assert b"[secret:DOOR]" in bytes(blocks[1])


def test_thinking_without_a_signature_is_only_redacted(redactor: Redactor) -> None:
    thinking: dict[str, object] = {"type": "thinking", "thinking": SECRET}
    for block in ({**thinking, "signature": ""}, thinking):
        clean = redact_message(redactor, replied(block))
        assert isinstance(clean, ModelReplied)
        assert clean.status == "ok"


def test_garbage_with_a_secret_is_garbage_without_it(redactor: Redactor) -> None:
    clean = redact_message(redactor, ModelReplied(1, 1, "ok", to_json({"signature": "s", "text": SECRET})))
    assert isinstance(clean, ModelReplied)
    assert clean.status == "ok"
    assert SECRET.encode() not in bytes(clean.content)


def opening(profile: Profile, model: ModelSpec | None = None) -> SessionOpened:
    return SessionOpened(1, profile.name, (Json(encode(profile)),), model or ModelSpec("m"))


def test_texts_of_a_profile_are_redacted_and_its_names_stay(redactor: Redactor) -> None:
    spec = ToolSpec("look", f"Looks at {SECRET}", to_json({"type": "object", "description": SECRET}))
    profile = Profile(
        "host", SECRET, to_json(f"Never say {SECRET}"), (spec,), schema=to_json({"title": SECRET})
    )
    clean = redact_message(redactor, opening(profile))
    assert isinstance(clean, SessionOpened)
    assert SECRET.encode() not in encode(clean)
    again = msgspec.json.decode(clean.profiles[0], type=Profile)
    assert (again.name, again.tools[0].name, again.tools[0].effect) == ("host", "look", "write")


@pytest.mark.parametrize(
    "body",
    [
        opening(Profile(SECRET)),
        opening(Profile("host", agents=(SECRET,))),
        opening(Profile("host", tools=(ToolSpec(SECRET, "", NULL),))),
        opening(Profile("host", tools=(ToolSpec("t", "", NULL, extra=to_json({"k": SECRET})),))),
        opening(Profile("host", server_tools=(to_json({"authorization_token": SECRET}),))),
        opening(Profile("host", model=ModelSpec("m", params=to_json({"k": SECRET})))),
        opening(Profile("host"), ModelSpec("m", params=to_json({"metadata": {"user_id": SECRET}}))),
        opening(Profile("host"), ModelSpec(SECRET)),
        Ask(SECRET, to_json("x")),
    ],
)
def test_a_secret_that_cannot_be_taken_out_is_refused_and_not_shown(
    redactor: Redactor, body: AnyMessage
) -> None:
    with pytest.raises(InvalidPrompt, match="secret") as caught:
        redact_message(redactor, body)
    assert SECRET not in str(caught.value)
