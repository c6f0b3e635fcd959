"""`Runtime(keep_requests=True)`: the bodies of requests in the log, over real clients and servers."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard import Agent, AnthropicModel, OpenAICompatibleModel, OpenAIModel, Runtime, ScriptedModel, say
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.recording import Recording
from callboard.runtime.models.protocol import Model
from tests.messages_api import MessagesApi, Seen, message, sse_answer, text
from tests.openai_api import OpenAIApi, Reply

KEY = "sk-test-0123456789"
WORDS = "Words with “quotes” and a\nbreak. " * 30  # a kilobyte

Service = Callable[[], tuple[MessagesApi, Callable[[str], Model]]]


def anthropic() -> tuple[MessagesApi, Callable[[str], Model]]:
    api = MessagesApi(lambda seen: sse_answer(message(text(f"{len(seen.raw)}: {WORDS}"))))
    return api, lambda url: AnthropicModel("claude-sonnet-4-5", base_url=url, api_key=KEY)


def chat() -> tuple[MessagesApi, Callable[[str], Model]]:
    api = OpenAIApi(lambda seen: Reply((f"{len(seen.raw)}: {WORDS}",)))
    return api, lambda url: OpenAICompatibleModel("m", base_url=f"{url}/v1", api_key=KEY)


def responses() -> tuple[MessagesApi, Callable[[str], Model]]:
    api = OpenAIApi(lambda seen: Reply((f"{len(seen.raw)}: {WORDS}",)))
    return api, lambda url: OpenAIModel("gpt-4o", base_url=f"{url}/v1", api_key=KEY)


SERVICES = pytest.mark.parametrize("service", [anthropic, chat, responses])


async def converse(log: Path, model: Model, turns: int, *, turns_of_a_process: int = 1_000) -> str:
    """Record a conversation of this many asks, with a new runtime after some of them."""
    name = ""
    for first in range(0, turns, turns_of_a_process):
        async with Runtime(str(log), model=model, keep_requests=True) as runtime:
            host = Agent("host", instructions="Be brief.")
            session = await (runtime.resume(name, host) if name else runtime.open(host))
            name = session.session_id
            for turn in range(first, min(turns, first + turns_of_a_process)):
                assert (await session.ask(f"Ask {turn}. {WORDS}")).status == "ok"
    return name


def kept_in(log: Path) -> tuple[list[bytes], int]:
    """Return the bodies that the newest session has kept, and the bytes that they take in its events."""
    with Recording.open(log) as recording:
        answers = [(event.seq, event.body) for event in recording.events]
        replies = [(seq, body) for seq, body in answers if isinstance(body, ModelReplied)]
        found = [recording.sent(recording.request(seq)) for seq, _ in replies]
        size = sum(len(bytes(piece)) for _, reply in replies for piece in reply.body)
        for one in found:
            assert one is not None
            assert one.body == b"" or hashlib.sha256(one.body).hexdigest() == one.sent.digest
        assert recording.verify().is_ok
    return [one.body for one in found if one is not None and one.body], size


def seen_bodies(seen: list[Seen]) -> list[bytes]:
    return [one.raw for one in seen]


@SERVICES
def test_bodies_are_kept_byte_for_byte_and_grow_with_the_conversation(
    service: Service, tmp_path: Path
) -> None:
    api, model_at = service()
    with api:
        for turns in (3, 12):
            log = tmp_path / f"{turns}.db"
            api.forget()
            asyncio.run(converse(log, model_at(api.url), turns))
            bodies, size = kept_in(log)
            assert bodies == seen_bodies(api.seen)
            # Each message is kept once, and again when its cache mark goes; never once for each request.
            assert size < 4 * len(bodies[-1])
            assert sum(map(len, bodies)) > turns / 3 * len(bodies[-1])


@SERVICES
def test_a_resumed_session_keeps_only_what_is_new(service: Service, tmp_path: Path) -> None:
    api, model_at = service()
    with api:
        asyncio.run(converse(tmp_path / "log.db", model_at(api.url), 6, turns_of_a_process=1))
        bodies, size = kept_in(tmp_path / "log.db")
        assert bodies == seen_bodies(api.seen)
        assert size < 4 * len(bodies[-1])


def test_without_the_option_no_body_is_kept(tmp_path: Path) -> None:
    api, model_at = anthropic()
    with api:
        Runtime(str(tmp_path / "log.db"), model=model_at(api.url)).run_sync(Agent("host"), "Hi.")
    with Recording.open(tmp_path / "log.db") as recording:
        found = [event.body for event in recording.events if isinstance(event.body, ModelReplied)]
        assert [(one.sent is not None, one.body) for one in found] == [(True, ())]


def test_no_secret_is_in_a_body_that_is_kept(tmp_path: Path) -> None:
    secret = "open-sesame-0123"
    api = MessagesApi(lambda seen: sse_answer(message(text("Well."))))
    with api:
        # A parameter is in every body. The log refuses a secret there, so one that becomes known later.
        model = AnthropicModel(
            "claude-sonnet-4-5", base_url=api.url, api_key=KEY, params={"metadata": {"user_id": secret}}
        )
        runtime = Runtime(str(tmp_path / "log.db"), model=model, keep_requests=True)

        async def run() -> None:
            async with runtime, runtime.open(Agent("host")) as session:
                runtime._secrets.learn({"DOOR": secret})
                await session.ask("Hi.")

        asyncio.run(run())
        assert secret.encode() in api.seen[0].raw
    with Recording.open(tmp_path / "log.db") as recording:
        event = next(one for one in recording.events if isinstance(one.body, ModelReplied))
        found = recording.sent(recording.request(event.seq))
        assert found is not None
        assert json.loads(found.body)["metadata"] == {"user_id": "[secret:DOOR]"}


def test_a_model_that_sends_nothing_has_no_body(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hi.")])
    Runtime(str(tmp_path / "log.db"), model=model, keep_requests=True).run_sync(Agent("host"), "Hi.")
    with Recording.open(tmp_path / "log.db") as recording:
        found = [event.body for event in recording.events if isinstance(event.body, ModelReplied)]
        assert [(one.sent, one.body) for one in found] == [(None, ())]


def test_a_fork_keeps_its_own_bodies_behind_those_it_shares(tmp_path: Path) -> None:
    api, model_at = chat()
    log = tmp_path / "log.db"

    async def run(name: str) -> None:
        async with Runtime(str(log), model=model_at(api.url), keep_requests=True) as runtime:
            fork = await runtime.fork(name, Agent("host", instructions="Be brief."), at=last_answer(log) - 1)
            await fork.outcome
            await fork.ask("And now?")

    with api:
        name = asyncio.run(converse(log, model_at(api.url), 3))
        asked = len(api.seen)
        asyncio.run(run(name))
        bodies, _ = kept_in(log)
        # The last answer of the origin was reused: no request was sent for it here.
        assert [bodies[0], bodies[1], bodies[-1]] == [seen_bodies(api.seen)[at] for at in (0, 1, -1)]
        assert len(api.seen) > asked


def last_answer(log: Path) -> int:
    with Recording.open(log) as recording:
        return [event.seq for event in recording.events if isinstance(event.body, ModelReplied)][-1]
