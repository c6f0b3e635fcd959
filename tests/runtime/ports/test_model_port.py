"""Answers of models that are there, and wait for the actors to have done their work."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import Sent
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.ports.count_watch import CountWatch
from callboard.runtime.ports.model_port import ModelPort
from callboard.runtime.scheduling.run_queue import LoopInbox
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.sessions.session_deps import SessionDeps
from tests.replay.testing.scenarios import TWO


class Slow:
    """A model that answers after a pass of the loop."""

    spec = ModelSpec("slow")

    async def aclose(self) -> None:
        """Nothing is held."""

    def __init__(self, answers_as: str = "", origin: Origin | None = None, sent: Sent | None = None) -> None:
        self.answers_as = answers_as
        self.origin = origin
        self.sent = sent

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        await asyncio.sleep(0)
        content = Json(b'[{"type":"text","text":"hi"}]')
        return ModelAnswer(content, "end_turn", model=self.answers_as, origin=self.origin, sent=self.sent)


class Table:
    """A board that notes the answers, a port with one call under way, and an actor that is busy."""

    def __init__(self, answers_as: str = "", origin: Origin | None = None, sent: Sent | None = None) -> None:
        world = SessionWorld(TWO)
        while not world.of(CallModel):
            world.make(world.moves()[0])
        self.request: Event = next(event for event in world.log if isinstance(event.body, CallModel))
        self.answers: list[Post] = []
        grant = self.request.body
        assert isinstance(grant, CallModel)
        board: Any = SimpleNamespace(
            core=world.core,
            gate=world.gate,
            secrets=NO_SECRETS,
            deps=SessionDeps(None),
            session_id="s",
            now_ms=1,
            answer=lambda request, post: self.answers.append(post),
        )
        asked = world.asked[self.request.seq]
        texts: Any = SimpleNamespace(on_text=print, on_reply=lambda grant: None)
        self.asked = asked.model.name
        self.port = ModelPort(board, {self.asked: Slow(answers_as, origin, sent)}, texts, CountWatch())
        self.busy = LoopInbox()

    @property
    def statuses(self) -> list[str]:
        """Return the statuses of the answers."""
        return [post.body.status for post in self.answers if isinstance(post.body, ModelReplied)]

    async def until_it_waits(self) -> None:
        """Let the model answer while an actor has messages for more than two passes."""
        self.busy.open(
            asyncio.get_running_loop(), lambda queue, most: len(queue) and (queue.popleft() or most)
        )
        for _ in range(6):
            self.busy.put(0)
        self.port.start(self.request)
        for _ in range(4):
            await asyncio.sleep(0)
        assert self.port._waiting


def played(
    play: Callable[[Table], Coroutine[Any, Any, None]],
    answers_as: str = "",
    origin: Origin | None = None,
    sent: Sent | None = None,
) -> Table:
    """Play a story and return its table."""

    async def main() -> Table:
        table = Table(answers_as, origin, sent)
        await table.until_it_waits()
        assert table.answers == []
        await play(table)
        return table

    return asyncio.run(main())


async def _passes(_: Table) -> None:
    for _pass in range(10):
        await asyncio.sleep(0)


def test_an_answer_that_waits_is_posted_once_the_actors_are_done() -> None:
    assert played(_passes).statuses == ["ok"]


def test_a_call_that_is_given_up_when_its_answer_is_there_gives_that_answer_once() -> None:
    async def play(table: Table) -> None:
        assert table.port.abort(table.request)
        assert table.statuses == ["ok"]
        await _passes(table)

    assert played(play).statuses == ["ok"]


def test_nothing_is_posted_after_the_end() -> None:
    async def play(table: Table) -> None:
        await table.port.aclose()
        await _passes(table)

    assert played(play).statuses == []


def test_a_reply_names_its_model_only_if_it_is_not_the_one_that_was_asked() -> None:
    asked = played(_passes).asked
    for answers_as, name in ((asked, ""), ("another", "another"), ("", "")):
        (post,) = played(_passes, answers_as).answers
        assert isinstance(post.body, ModelReplied)
        assert post.body.model == name


def test_a_reply_names_its_origin_only_if_it_is_not_that_of_the_model_that_was_asked() -> None:
    other = Origin("layered", "openai", "https://api.openai.com/v1", "x" * 2_000)
    for told in (None, named(played(_passes).asked)):
        (post,) = played(_passes, origin=told).answers
        assert isinstance(post.body, ModelReplied)
        assert post.body.origin is None
    (post,) = played(_passes, origin=other).answers
    assert isinstance(post.body, ModelReplied)
    assert post.body.origin is not None
    assert (post.body.origin.provider, len(post.body.origin.model)) == ("openai", 1_000)


def test_an_origin_that_is_none_of_texts_is_a_mistake_of_the_model() -> None:
    wrong: Any = 7
    for origin in (Origin(provider=wrong), wrong):
        (post,) = played(_passes, origin=origin).answers
        assert isinstance(post.body, ModelReplied)
        assert post.body.failure is not None
        assert post.body.failure.code == "model_crashed"
        assert "origin" in post.body.failure.message


def test_the_request_as_it_was_sent_is_in_the_log() -> None:
    (post,) = played(_passes, sent=Sent("d1", "a library 1.0")).answers
    assert isinstance(post.body, ModelReplied)
    assert post.body.sent == Sent("d1", "a library 1.0")


def test_a_request_as_sent_that_is_none_of_texts_is_a_mistake_of_the_model() -> None:
    wrong: Any = 7
    (post,) = played(_passes, sent=Sent(wrong, "")).answers
    assert isinstance(post.body, ModelReplied)
    assert post.body.failure is not None
    assert "sent" in post.body.failure.message
