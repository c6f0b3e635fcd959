"""Answers of models that are there, and wait for the actors to have done their work."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from callboard import ProgramContext, Runtime, program, tool
from callboard.actors.agent.state import request_of
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.log import MemoryLog
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.models.answer_bodies import digest_of
from callboard.runtime.models.failures import UNREPORTED
from callboard.runtime.models.protocol import DivergedAnswer, ModelAnswer, OnText
from callboard.runtime.ports import model_port
from callboard.runtime.ports.body_keeper import BodyKeeper, CountWatch
from callboard.runtime.ports.model_port import (
    USAGE_MAX,
    ModelPort,
    _kept_edits,
)
from callboard.runtime.scheduling.run_queue import LoopInbox
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.session_deps import SessionDeps
from tests.replay.testing.scenarios import TWO
from tests.tables import table
from tests.virtual_clock import run_virtually

SECRETS = Secrets({"KEY": "hunter2hunter2"})


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

    def __init__(
        self,
        answers_as: str = "",
        origin: Origin | None = None,
        sent: Sent | None = None,
        model: Any = None,
        keeper: BodyKeeper | None = None,
    ) -> None:
        world = self.world = SessionWorld(TWO)
        while not world.of(CallModel):
            world.make(world.moves()[0])
        self.request: Event = next(event for event in world.log if isinstance(event.body, CallModel))
        self.answers: list[Post] = []
        self.said: list[object] = []
        self.on_agent_end: list[Callable[[str], None]] = []
        self.is_left_open = False
        grant = self.request.body
        assert isinstance(grant, CallModel)
        board: Any = SimpleNamespace(
            core=world.core,
            gate=world.gate,
            secrets=SECRETS,
            deps=SessionDeps(self),
            session_id="s",
            now_ms=1,
            answer=self.answer,
            fail=lambda error: self.said.append(("fail", str(error))),
            on_diverged=self.on_diverged,
            end_with_loop=lambda: self.said.append(("the loop ends", len(self.answers))),
            on_agent_end=self.on_agent_end,
        )
        asked = world.asked[self.request.seq]
        wish = world.gate.wish_of(self.request)
        world.gate.open[self.request.seq].wish = replace(wish, turn=3, attempt=2)
        self.texts: list[object] = []
        texts: Any = SimpleNamespace(
            on_text=lambda *told: self.texts.append(told), on_reply=self.texts.append
        )
        self.asked = asked.model.name
        self.models: dict[str, Any] = {self.asked: model or Slow(answers_as, origin, sent)}
        self.port = ModelPort(board, self.models, texts, CountWatch(), keeper)
        self.busy = LoopInbox()

    def answer(self, request: Event, post: Post) -> None:
        """Post an answer, after which the request is closed."""
        assert request is self.request
        if not self.world.gate.may_answer(request.seq):
            return
        self.answers.append(post)
        self.world.gate.on_events([Event(0, 0, request.recipient, post.recipient, request.seq, post.body)])

    def on_diverged(self, agent: str, why: str) -> bool:
        """Say whether the session waits for the code of a program."""
        self.said.append((agent, why))
        return self.is_left_open

    @property
    def reply(self) -> ModelReplied:
        """Return the only answer."""
        (post,) = self.answers
        assert post.recipient == self.grant.agent
        assert isinstance(post.body, ModelReplied)
        return post.body

    @property
    def grant(self) -> CallModel:
        """Return the request of the call."""
        assert isinstance(self.request.body, CallModel)
        return self.request.body

    @property
    def statuses(self) -> list[str]:
        """Return the statuses of the answers."""
        return [post.body.status for post in self.answers if isinstance(post.body, ModelReplied)]

    async def until_it_waits(self) -> None:
        """Let the model answer while an actor has messages for more than two passes."""
        self.busy.open(
            asyncio.get_running_loop(), lambda queue, most: most if queue and queue.popleft() == 0 else 0
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


def test_the_calls_under_way_have_ended_when_the_port_is_closed() -> None:
    async def main() -> None:
        table = Table(model=Asked(lambda _: asyncio.Event().wait()))
        table.port.start(table.request)
        await asyncio.sleep(0)
        (task,) = table.port.running
        await table.port.aclose()
        assert task.done()

    asyncio.run(main())


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


# --- models of all kinds -----------------------------------------------------------------------------------

TEXT = Json(b'[{"type":"text","text":"hi"}]')


class Asked:
    """A model that does what the test says. requests: that it got."""

    spec = ModelSpec("asked")

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self.step = step
        self.requests: list[ModelRequest] = []
        self.ends: list[tuple[str, str]] = []

    def call(self, request: ModelRequest, on_text: Any) -> Any:
        self.requests.append(request)
        return self.step(on_text)

    def ended(self, session_id: str, address: str = "") -> None:
        self.ends.append((session_id, address))
        raise RuntimeError("a program fails")


def asked(step: Callable[[Any], Any], **more: Any) -> Table:
    """Start the call of a model, and let it answer at once or in some passes of the loop."""

    async def main() -> Table:
        table = Table(model=Asked(step), **more)
        table.port.start(table.request)
        await _passes(table)
        return table

    return asyncio.run(main())


def raised(error: BaseException) -> Callable[[object], Any]:
    def step(_: object) -> Any:
        raise error

    return step


async def _later(answer: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(answer, BaseException):
        raise answer
    return answer


USAGE = Usage(7, 5)
MOST = Usage(USAGE_MAX - 1, 0)


@table("later", [False, True])
@table(
    ("answer", "expected"),
    [
        (ModelAnswer(TEXT, "end_turn", USAGE), ("ok", "", None, USAGE)),
        (ModelAnswer(TEXT, usage=MOST), ("ok", "", None, MOST)),
        (ModelAnswer(TEXT, usage=Usage()), ("ok", "", None, Usage())),
        (ModelAnswer(TEXT, usage=Usage(USAGE_MAX)), ("error", "model_crashed", None, None)),
        (ModelAnswer(TEXT, usage=Usage(7, -1)), ("error", "model_crashed", None, None)),
        (ModelAnswer(TEXT, usage=Usage(7, True)), ("error", "model_crashed", None, None)),
        (ModelAnswer(TEXT, usage=Usage(7, cast("Any", 1.5))), ("error", "model_crashed", None, None)),
        (ModelAnswer(cast("Any", "[]")), ("error", "model_crashed", None, None)),
        ("hi", ("error", "model_crashed", None, None)),
        (ValueError("no"), ("error", "model_crashed", None, None)),
        (ModelAnswer(Json(b"{"), usage=USAGE), ("error", "garbage", True, USAGE)),
        (ModelAnswer(Json(b"{")), ("error", "garbage", True, UNREPORTED)),
        (ModelAnswer(usage=USAGE, failure=ModelFailure("busy", "", True)), ("error", "busy", True, USAGE)),
        (ModelAnswer(failure=ModelFailure("busy", "no", cast("Any", 1))), ("error", "busy", False, None)),
        (ModelAnswer(Json(b"{"), failure=ModelFailure("busy", "", True)), ("error", "busy", True, None)),
    ],
)  # fmt: skip
def test_each_answer_is_one_reply_with_its_failure_and_usage(answer: Any, expected: Any, later: bool) -> None:
    def step(_: object) -> Any:
        if later:
            return _later(answer)
        return raised(answer)(_) if isinstance(answer, BaseException) else answer

    table = asked(step)
    reply, failure = table.reply, table.reply.failure
    status, code, is_retryable, usage = expected
    assert (reply.status, reply.usage) == (status, usage)
    assert (reply.turn, reply.attempt) == (3, 2)
    assert table.texts == [table.request.seq]
    assert table.said == []
    assert not table.port.running
    assert table.port._live == {}
    if status == "ok":
        assert (failure, reply.content, reply.stop_reason) == (None, TEXT, answer.stop_reason)
    else:
        assert failure is not None
        assert (failure.code, failure.is_retryable) == (code, bool(is_retryable))
        if isinstance(answer, ValueError):
            assert failure.message.startswith("ValueError: no")
        assert failure.digest == (digest_of(b"{") if code == "garbage" else "")


@table(
    ("wait", "told"),
    [(None, None), (5, 5), (0, 0), (-3, 0), (2**60, USAGE_MAX), (True, None), (1.5, None)],
)
def test_a_wait_before_the_next_try_is_a_number_that_a_log_can_hold(wait: Any, told: int | None) -> None:
    failure = asked(
        lambda _: ModelAnswer(failure=ModelFailure("busy", "m", retry_after_ms=wait))
    ).reply.failure
    assert failure is not None
    assert (failure.code, failure.message, failure.retry_after_ms) == ("busy", "m", told)


def _given(answer: ModelAnswer, _: object) -> ModelAnswer:
    return answer


def test_a_failure_and_a_garbled_answer_name_the_model_and_the_request_as_sent() -> None:
    for answer in (
        ModelAnswer(failure=ModelFailure("busy", "m"), model="x" * 2_000, sent=Sent("d1", "lib")),
        ModelAnswer(Json(b"{"), model="x" * 2_000, sent=Sent("d1", "lib")),
    ):
        reply = asked(partial(_given, answer)).reply
        assert (len(reply.model), reply.sent) == (1_000, Sent("d1", "lib"))
    assert (
        asked(lambda _: ModelAnswer(failure=ModelFailure("busy", ""), model=Table().asked)).reply.model == ""
    )


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_exception_that_ends_the_process_is_no_answer(stop: type[BaseException]) -> None:
    with pytest.raises(stop):
        asked(raised(stop()))


def test_a_model_that_is_not_there_is_named_with_those_that_are() -> None:
    for there, told in (({}, "none"), ({"b": Slow(), "a": Slow()}, "a, b")):
        table = Table()
        table.models.clear()
        table.models.update(there)
        table.port.start(table.request)
        failure = table.reply.failure
        assert failure is not None
        assert failure.code == "unknown_model"
        assert f"{table.asked!r} in this runtime (there is: {told})" in failure.message


def test_a_request_has_what_its_model_needs() -> None:
    table = asked(lambda _: ModelAnswer(TEXT))
    (request,) = table.models[table.asked].requests
    assert (request.session_id, request.seq, request.deps) == ("s", table.request.seq, table)
    assert request.digest == table.world.asked[table.request.seq].digest


def test_another_request_than_the_granted_one_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    made = request_of

    def other(*given: Any) -> ModelRequest:
        request = made(*given)
        request.digest = "other"
        return request

    monkeypatch.setattr(model_port, "request_of", other)
    table = asked(lambda _: ModelAnswer(TEXT))
    assert table.models[table.asked].requests == []
    assert table.answers == []
    assert table.said == [("fail", f"{table.grant.agent}: the request is not the one that was granted")]


@table(
    ("is_left_open", "failure", "is_late"),
    product((True, False), (None, ModelFailure("diverged", "another step")), (True, False)),
)
def test_a_program_that_diverges_is_left_open_if_the_session_waits(
    is_left_open: bool, failure: ModelFailure | None, is_late: bool
) -> None:
    answer = DivergedAnswer(failure=failure)

    async def main() -> Table:
        table = Table(model=Asked(lambda _: _later(answer) if is_late else answer))
        table.is_left_open = is_left_open
        table.port.start(table.request)
        await _passes(table)
        table.port.detach()
        return table

    table = asyncio.run(main())
    assert table.said == [(table.grant.agent, "another step" if failure else "")]
    assert len(table.answers) == (0 if is_left_open else 1)


def test_live_text_is_told_with_the_call_and_ends_with_the_answer() -> None:
    def step(on_text: Any) -> Any:
        on_text("hunter2")
        return ModelAnswer(TEXT)

    for each in (step, lambda on_text: _later(step(on_text))):
        table = asked(each)
        said = [told for told in table.texts if isinstance(told, tuple)]
        assert "".join(text for *_, text in said) == "hunter2"
        assert {tuple(place) for *place, _ in said} == {(table.request.seq, table.grant.agent, 1, 1)}
        assert table.texts[-1] == table.request.seq


def test_the_end_of_an_agent_is_told_to_models_that_keep_runs_and_to_the_keeper() -> None:
    forgotten: list[str] = []
    keeper: Any = SimpleNamespace(forget=forgotten.append)
    table = Table(model=Asked(lambda _: ModelAnswer(TEXT)), keeper=keeper)
    for end in table.on_agent_end:
        end("host.1")
    asyncio.run(table.port.aclose())
    assert table.models[table.asked].ends == [("s", "host.1"), ("s", "")]
    assert forgotten == ["host.1", ""]
    assert Table().on_agent_end == []
    assert Table(keeper=keeper).on_agent_end
    alone = Table(model=Asked(lambda _: ModelAnswer(TEXT)))
    for end in alone.on_agent_end:
        end("host.1")
    assert alone.models[alone.asked].ends == [("s", "host.1")]


def test_a_call_that_ends_with_its_run_holds_up_no_close() -> None:
    over = asyncio.Event()

    async def until_the_run_is_over() -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    async def main() -> None:
        table = Table(model=Asked(lambda _: until_the_run_is_over()))
        table.models[table.asked].ended = lambda session_id, address: over.set()
        table.port.start(table.request)
        await asyncio.sleep(0)
        await table.port.aclose()

    assert run_virtually(main())[1] == 0


def test_a_model_that_raises_at_the_end_of_an_agent_is_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = Table(model=Asked(lambda _: ModelAnswer(TEXT)))
    table.models[table.asked].ended = raised(ValueError("with hunter2hunter2"))
    table.port._keeping = [table.models[table.asked], table.models[table.asked]]

    def ended(session_id: str, address: str) -> None:
        raise ValueError("with hunter2hunter2")

    table.models[table.asked].ended = ended
    table.port._ended("host.1")
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("a model raised in `ended`")
    assert "hunter2hunter2" not in caplog.text


def test_a_model_that_answers_with_another_object_is_told_so_and_a_long_text_is_cut() -> None:
    failure = asked(lambda _: "hi").reply.failure
    assert failure is not None
    assert "a model answers with a ModelAnswer, not str" in failure.message
    for chars, kept in ((1_000, 1_000), (1_001, 1_000)):
        answer = ModelAnswer(TEXT, "r" * chars)
        reason = asked(partial(_given, answer)).reply.stop_reason
        assert len(reason) == kept
        assert (reason == "r" * chars) == (chars == kept)


def test_a_body_without_the_facts_of_its_request_is_not_kept_nor_a_reply_of_an_agent_that_is_gone() -> None:
    keeper: Any = Keeper()
    table = Table(keeper=keeper)
    table.port._bodies[table.request.seq] = b"{}"
    table.world.core.states.pop(table.grant.agent)
    table.port._post(table.request, ModelReplied(1, 1, "ok"))
    assert keeper.kept == []
    assert table.statuses == ["ok"]


# --- calls that end in another way -------------------------------------------------------------------------


def test_a_cancelled_call_is_answered_once_and_one_that_never_began_not_at_all() -> None:
    async def main() -> None:
        table = Table(model=Asked(lambda _: asyncio.Event().wait()))
        table.port.start(table.request)
        assert not table.port.abort(Event(99, 0, "a", "b", 0, table.grant))
        await asyncio.sleep(0)
        assert len(table.port.running) == 1
        assert table.port.abort(table.request)
        await _passes(table)
        assert table.reply == ModelReplied(3, 2, "cancelled")
        assert table.said == []
        table.port.detach()  # its call is over
        assert len(table.answers) == 1

    asyncio.run(main())


def test_a_call_that_the_end_of_the_loop_cancels_tells_the_board() -> None:
    async def main() -> Table:
        table = Table(model=Asked(lambda _: asyncio.Event().wait()))
        table.port.start(table.request)
        await asyncio.sleep(0)
        for task in table.port.running:
            task.cancel()
        await _passes(table)
        return table

    # The board answers as detached first: the answer of the port would tell no usage.
    assert asyncio.run(main()).said == [("the loop ends", 0)]


@table(
    ("told", "charged"),
    [
        ([], Usage()),
        ([None], Usage()),
        ([Usage(1), USAGE], USAGE),
        ([Usage(-1)], Usage()),
        ([Usage(cast("Any", "7"))], Usage()),
        ([7], Usage()),
    ],
)
def test_a_detached_call_is_charged_for_the_usage_that_its_stream_has_told(told: Any, charged: Usage) -> None:
    def step(on_text: Any) -> Any:
        for usage in told:
            on_text.tell_usage(usage)
        return asyncio.Event().wait()

    async def main() -> None:
        table = Table(model=Asked(step))
        table.port.start(table.request)
        await asyncio.sleep(0)
        table.port.detach()
        table.port.detach()
        assert table.reply == ModelReplied(3, 2, "detached", usage=charged)
        await table.port.aclose()
        assert len(table.answers) == 1

    asyncio.run(main())


def test_an_answer_that_is_there_is_posted_by_a_detach() -> None:
    async def play(table: Table) -> None:
        table.port.detach()
        assert table.statuses == ["ok"]

    assert played(play).statuses == ["ok"]


def test_an_answer_that_is_there_is_not_posted_for_a_request_that_is_closed() -> None:
    async def play(table: Table) -> None:
        closed = Event(0, 0, "model", table.grant.agent, table.request.seq, ModelReplied(1, 1, "cancelled"))
        table.world.gate.on_events([closed])
        table.port.detach()

    assert played(play).statuses == []


def test_a_call_out_of_time_and_a_lost_one_are_answered_in_place_of_the_work() -> None:
    ends: list[tuple[Callable[[ModelPort, int], None], tuple[str, bool]]] = [
        (lambda port, seq: port._expired(seq, 1.5), ("timeout", True)),
        (lambda port, seq: port._lost(seq, OSError("gone")), ("model_crashed", False)),
    ]
    for end, failure in ends:
        table = Table()
        end(table.port, table.request.seq)
        end(table.port, table.request.seq)  # it is closed by now
        told = table.reply.failure
        assert told is not None
        assert (told.code, told.is_retryable) == failure
    assert "no answer within 1.5 s (model_timeout_s)" in _timeout_text()


def _timeout_text() -> str:
    table = Table()
    table.port._expired(table.request.seq, 1.5)
    assert table.reply.failure is not None
    return table.reply.failure.message


# --- bodies of requests ------------------------------------------------------------------------------------


class Keeper:
    """Keeps no body, and notes those that it gets."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, bytes]] = []
        self.loading = asyncio.Event()

    async def load(self) -> None:
        self.kept.append(("load", b""))
        if self.loading.is_set():
            await asyncio.Event().wait()

    def with_body(self, address: str, reply: ModelReplied, body: bytes, secrets: object) -> ModelReplied:
        assert secrets is SECRETS
        self.kept.append((address, body))
        return replace(reply, model="kept")


@table(
    ("answer", "is_kept"),
    [
        (ModelAnswer(TEXT, sent=Sent("d", "l"), body=b"{}"), True),
        (ModelAnswer(failure=ModelFailure("busy", ""), sent=Sent("d", "l"), body=b"{}"), True),
        (ModelAnswer(TEXT, sent=Sent("d", "l")), False),
        (ModelAnswer(TEXT, body=b"{}"), False),
        (ModelAnswer(TEXT, sent=Sent("d", "l"), body=cast("Any", "{}")), False),
        ("hi", False),
    ],
)
def test_the_body_of_a_request_as_sent_is_kept_after_the_former_ones_are_loaded(
    answer: Any, is_kept: bool
) -> None:
    keeper: Any = Keeper()

    async def later() -> Any:
        keeper.kept.append(("made", b""))
        return answer

    table = asked(lambda _: later(), keeper=keeper)
    assert keeper.kept == [("load", b""), ("made", b""), *([(table.grant.agent, b"{}")] if is_kept else [])]
    assert table.reply.model == ("kept" if is_kept else "")
    assert table.port._bodies == {}


def test_a_call_that_is_cancelled_while_bodies_are_loaded_is_never_made() -> None:
    async def main() -> Table:
        keeper: Any = Keeper()
        keeper.loading.set()
        table = Table(model=Asked(lambda _: _later(ModelAnswer(TEXT))), keeper=keeper)
        table.port.start(table.request)
        await asyncio.sleep(0)
        assert table.port.abort(table.request)
        await _passes(table)
        return table

    assert asyncio.run(main()).reply.status == "cancelled"


def test_the_body_of_an_answer_that_comes_too_late_is_not_kept() -> None:
    async def main() -> None:
        keeper: Any = Keeper()
        table = Table(keeper=keeper)
        table.port._bodies[table.request.seq] = b"{}"
        table.answer(table.request, Post(table.grant.agent, ModelReplied(1, 1, "cancelled")))
        table.port._post(table.request, ModelReplied(1, 1, "ok", sent=Sent("d", "l")))
        assert keeper.kept == []
        assert table.port._bodies == {}

    asyncio.run(main())


def test_texts_of_an_answer_are_clean_and_mistakes_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert "\0" not in asked(lambda _: ModelAnswer(TEXT, "end\0", model="m\0")).reply.stop_reason
    assert caplog.messages == []
    table = asked(raised(ValueError("with hunter2hunter2")))
    (said,) = caplog.messages
    assert said.startswith("a model raised instead of answering")
    assert "hunter2hunter2" not in said
    assert table.reply.failure is not None


def test_the_counts_of_a_model_are_watched_where_another_one_may_take_over() -> None:
    for fallback in (None, object()):
        table, looked = Table(model=Asked(lambda _: ModelAnswer(TEXT))), list[object]()
        state = table.world.core.states[table.grant.agent]
        odd: Any = SimpleNamespace(look=lambda *told, to=looked: to.append(told))
        table.port._counts = odd
        table.world.core.states[table.grant.agent] = replace(cast("Any", state), fallback=fallback)
        table.port.start(table.request)
        assert [told for told, _ in cast("Any", looked)] == (
            [table.world.core.states[table.grant.agent]] if fallback else []
        )


def test_a_step_of_a_program_has_its_time_and_the_shared_state(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [10_000_000]
    for module in ("sessions.board", "sessions.resuming"):
        monkeypatch.setattr(f"callboard.runtime.{module}.now_ms", lambda: at[0])
    waits, go = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        waits.set()
        await go.wait()
        return "seen"

    @program(tools=[look], state={"stage": "start"})
    async def host(ctx: ProgramContext, prompt: str) -> str:
        begun = ctx.now()
        await ctx.call(look)
        return f"{ctx.state['stage']} {(ctx.now() - begun).total_seconds()}"

    async def run() -> str:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            session = await runtime.open(host, session_id="s")
            await session.submit("go")
            await waits.wait()
            await session.detach(0)
        at[0] += 3_600_000
        go.set()
        async with Runtime(log) as runtime:
            session = await runtime.resume("s", host)
            return (await session.outcome).text

    assert asyncio.run(run()) == "start 3600.0"


def test_edits_of_a_service_are_kept_if_the_log_can_hold_them() -> None:
    longest, longer = (Json(b'["%b"]' % (b"x" * size)) for size in (9_996, 9_997))
    for edits, kept in (
        (NULL, NULL),
        (Json(b'[{"type":"cleared"}]'), Json(b'[{"type":"cleared"}]')),
        (longest, longest),
        (longer, NULL),
        (Json(b"[1"), NULL),
    ):
        answer = ModelAnswer(Json(b'[{"type":"text","text":"hi"}]'), "end_turn", edits=edits)
        assert _kept_edits(answer) == kept
        assert asked(partial(_given, answer)).reply.edits == kept
