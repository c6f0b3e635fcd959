"""The model port: a grant, or the step of a program, becomes one call of a model and one answer."""

import asyncio
import inspect
import itertools
import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final, Protocol

from msgspec.structs import astuple, replace

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.errors import CallboardError, InvalidPrompt
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure, Sent
from callboard.actors.session.port_table import owner_of
from callboard.runtime.failure_text import located_text, text_of
from callboard.runtime.models.answer_bodies import digest_of
from callboard.runtime.models.failures import UNREPORTED
from callboard.runtime.models.finishes import LiveAnswer
from callboard.runtime.models.protocol import (
    DivergedAnswer,
    KeepsRuns,
    Model,
    ModelAnswer,
    OnText,
    no_model,
)
from callboard.runtime.ports.body_keeper import BodyKeeper, CountWatch
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sanitize import check_json, clean_text
from callboard.runtime.scheduling.run_queue import run_queue_of
from callboard.runtime.secrets.stream_buffer import StreamBuffer
from callboard.runtime.sessions.board import Board

USAGE_MAX: Final = 2**53  # a count from here on is a mistake; other languages cannot read it exactly

# The fields of a `ModelAnswer`, in order, with their types, for models that mypy does not check.
_PARTS: Final[tuple[tuple[str, tuple[type, ...]], ...]] = (
    ("content", (Json,)),
    ("stop_reason", (str,)),
    ("usage", (Usage, type(None))),
    ("failure", (ModelFailure, type(None))),
    ("model", (str,)),
    ("origin", (Origin, type(None))),
    ("sent", (Sent, type(None))),
    ("body", (bytes,)),
    ("edits", (Json,)),
    ("differs", (tuple,)),
)
# The types of these fields in most answers: one look costs half of five, which counts in a large fan-out.
_USUAL: Final = frozenset(itertools.product(*(kinds for _, kinds in _PARTS)))
_WHOLE: Final = {int}
_NO_MODEL: Final = ModelSpec("")
_EDITS_BYTES_MAX: Final = 10_000
_TEXT_CHARS_MAX: Final = 1_000  # characters of a service's failure, reason or name

logger = logging.getLogger("callboard.models")


class LiveTexts(Protocol):
    """The receiver of live text. grant: the seq of the `CallModel`, which names the model call."""

    def on_text(self, grant: int, address: str, turn: int, attempt: int, text: str) -> None:
        """Take a piece of the text of a reply under way, without secrets."""

    def on_reply(self, grant: int) -> None:
        """Note that the call has its answer."""


class ModelPort:
    """The model calls of one session. texts: gets each piece of streamed text. counts: of the runtime.

    keeper: keeps the bodies of requests, if they are kept.
    """

    def __init__(
        self,
        board: Board,
        models: Mapping[str, Model],
        texts: LiveTexts,
        counts: CountWatch,
        keeper: BodyKeeper | None = None,
    ) -> None:
        self._board = board
        self._keeper = keeper
        self._bodies: dict[int, bytes] = {}
        self._counts = counts
        self._models = models
        self._texts = texts
        self._tasks = Tasks(self._lost, self._expired)
        self._waiting: dict[int, ModelReplied] = {}
        self._live: dict[int, LiveAnswer] = {}
        self._buffer_of = self._text_buffer  # one object for all calls
        self._keeping = [model for model in models.values() if isinstance(model, KeepsRuns)]
        if self._keeping or keeper is not None:
            board.on_agent_end.append(self._ended)

    def start(self, request: Event) -> None:
        """Call the model. An answer that it gives at once is posted at once."""
        board = self._board
        core = board.core
        opened = core.gate.open[request.seq]
        agent, wish, state = opened.owner, opened.wish, core.states[opened.owner]
        assert wish is not None  # a grant has one
        assert isinstance(state, AgentState)
        asked = request_of(state, core.states.__getitem__)
        asked.deps = board.deps.current
        asked.session_id = board.session_id
        asked.seq = request.seq
        if asked.model.is_program:
            asked.at, asked.left_out_ms = board.now_ms, core.gate.left_out_ms
            asked.state_of = core.gate.shared.json_of
        if asked.digest != wish.digest:
            board.fail(CallboardError(f"{agent}: the request is not the one that was granted"))
            return
        live = LiveAnswer(self._buffer_of, request.seq, asked)
        answer = self._call(asked, live)
        if isinstance(answer, DivergedAnswer) and self._is_left_open(agent, answer):
            return
        if type(answer) is not ModelAnswer and inspect.isawaitable(answer):
            self._live[request.seq] = live
            work = self._wait(request, wish, asked.model, answer, live)
            self._tasks.spawn(request.seq, work, answer, state.limits.model_timeout_s)
        else:
            live.end()
            self._post(request, self._made(wish, answer, asked.model))

    def abort(self, request: Event) -> bool:
        """Post the answer if it is there, else cancel the call. Return False if no call is under way."""
        return self._let_in(request) or self._tasks.cancel(request.seq)

    def detach(self) -> None:
        """Post the answers that are there; answer the other calls as detached, with the usage so far."""
        for seq in [*self._waiting]:
            if (request := self._board.gate.request(seq)) is not None:
                self._let_in(request)
        for seq, live in self._live.items():
            if self._board.gate.may_answer(seq) and (request := self._board.gate.request(seq)) is not None:
                wish = self._board.gate.wish_of(request)
                cut = ModelReplied(wish.turn, wish.attempt, "detached", usage=_believed(live.usage))
                self._post(request, cut)

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return the tasks of calls."""
        return self._tasks.running

    async def aclose(self) -> None:
        """Cancel all calls."""
        self._waiting.clear()
        self._ended("")
        await self._tasks.aclose()

    def _is_left_open(self, agent: str, answer: DivergedAnswer) -> bool:
        """Return whether the session waits for its code: detaching answers the call then."""
        return self._board.on_diverged(agent, answer.failure.message if answer.failure else "")

    def _text_buffer(self, grant: int, asked: ModelRequest) -> StreamBuffer:
        """Return the buffer for the live text of a call. grant: the seq of its `CallModel`."""
        show = partial(self._texts.on_text, grant, asked.address, asked.turn, asked.attempt)
        return self._board.secrets.stream(show)

    def _ended(self, address: str) -> None:
        if self._keeper is not None:
            self._keeper.forget(address)
        for model in self._keeping:
            try:
                model.ended(self._board.session_id, address)
            except Exception as error:  # the board publishes events meanwhile
                logger.error("a model raised in `ended`\n%s", self._board.secrets.redactor.told(error))

    def _call(self, asked: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        model = self._models.get(asked.model.name)
        if model is None:
            failure = ModelFailure("unknown_model", no_model(asked.model.name, self._models))
            return DivergedAnswer(failure=failure, usage=ZERO)
        try:
            return model.call(asked, on_text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return self._crashed(error)

    async def _wait(
        self,
        request: Event,
        wish: TurnRequested,
        asked: ModelSpec,
        work: Awaitable[ModelAnswer],
        live: LiveAnswer,
    ) -> None:
        try:
            try:
                # Not by a method for both: ten thousand calls may wait, and each would hold one more frame.
                answer = await (work if self._keeper is None else self._kept_answer(request.seq, work))
            finally:
                live.end()
        except asyncio.CancelledError:
            if self._tasks.is_orphaned(request.seq):
                self._board.end_with_loop()
            # Without usage: the service may have finished the call, and its use is not known.
            self._post(request, ModelReplied(wish.turn, wish.attempt, "cancelled"))
        else:
            if isinstance(answer, DivergedAnswer) and self._is_left_open(owner_of(request), answer):
                return
            self._waiting[request.seq] = self._made(wish, answer, asked)
            run_queue_of(asyncio.get_running_loop()).when_idle(partial(self._let_in, request))
        finally:
            self._live.pop(request.seq, None)

    async def _kept_answer(self, seq: int, work: Awaitable[ModelAnswer]) -> ModelAnswer:
        """Load the bodies that were kept earlier, wait for an answer, and note the body of its request."""
        assert self._keeper is not None
        try:
            await self._keeper.load()
        except asyncio.CancelledError:
            if callable(close := getattr(work, "close", None)):
                close()  # else Python warns that it was never awaited
            raise
        answer = await work
        if isinstance(answer, ModelAnswer) and type(answer.body) is bytes:
            self._bodies[seq] = answer.body
        return answer

    def _let_in(self, request: Event) -> bool:
        answer = self._waiting.pop(request.seq, None)
        if answer is not None:
            self._post(request, answer)
        return answer is not None

    def _expired(self, seq: int, limit_s: float) -> None:
        why = f"no answer within {limit_s:g} s (model_timeout_s)"
        self._answer_open(seq, ModelAnswer(failure=ModelFailure("timeout", why, is_retryable=True)))

    def _lost(self, seq: int, error: BaseException) -> None:
        self._answer_open(seq, self._crashed(error))

    def _answer_open(self, seq: int, answer: ModelAnswer) -> None:
        if (request := self._board.gate.request(seq)) is not None:
            self._post(request, self._made(self._board.gate.wish_of(request), answer))

    def _post(self, request: Event, reply: ModelReplied) -> None:
        agent = owner_of(request)
        if self._keeper is not None:
            reply = self._with_body(self._keeper, request, agent, reply)
        state = self._board.core.states.get(agent)
        if isinstance(state, AgentState) and state.fallback is not None:  # else it believes every count
            self._counts.look(state, reply)
        self._board.answer(request, Post(agent, reply))
        self._texts.on_reply(request.seq)

    def _with_body(self, keeper: BodyKeeper, request: Event, agent: str, reply: ModelReplied) -> ModelReplied:
        """Return an answer with the body of its request, if it can still be posted."""
        body = self._bodies.pop(request.seq, b"")
        # Not one that comes too late: the next body is kept as its difference to a logged one.
        if not body or reply.sent is None or not self._board.gate.may_answer(request.seq):
            return reply
        return keeper.with_body(agent, reply, body, self._board.secrets)

    def _made(self, wish: TurnRequested, answer: object, asked: ModelSpec = _NO_MODEL) -> ModelReplied:
        """Make a reply of a model's answer of any kind. asked: the model that was called."""
        try:
            return self._replied(wish, checked(answer), asked)
        except (TypeError, ValueError) as error:
            return self._replied(wish, self._crashed(error), asked)

    def _crashed(self, error: BaseException) -> ModelAnswer:
        told = self._board.secrets.redactor.told(error)
        logger.error("a model raised instead of answering\n%s", told)
        return ModelAnswer(failure=ModelFailure("model_crashed", located_text(error)))

    def _replied(self, wish: TurnRequested, answer: ModelAnswer, asked: ModelSpec) -> ModelReplied:
        """Clean an answer for the log. Its agent decides if it can read the content."""
        if answer.failure is not None:
            return self._failed(wish, answer, answer.failure, asked)
        try:
            content = check_json(bytes(answer.content))
        except InvalidPrompt as error:
            digest = digest_of(bytes(answer.content))
            garbage = ModelFailure("garbage", str(error), is_retryable=True, digest=digest)
            told = replace(answer, usage=answer.usage or UNREPORTED)  # it came whole
            return self._failed(wish, told, garbage, asked)
        made = ModelReplied(
            turn=wish.turn,
            attempt=wish.attempt,
            status="ok",
            content=content,
            stop_reason=self._short(answer.stop_reason),
            usage=answer.usage,
            model=self._other(answer.model, asked.name),
            sent=self._sent(answer),
            edits=answer.edits if answer.edits is NULL else _kept_edits(answer),
            differs=answer.differs,
        )
        if answer.origin is None or answer.origin == asked.made_by:
            return made
        return replace(made, origin=Origin(*map(self._short, astuple(answer.origin))))

    def _failed(
        self, wish: TurnRequested, answer: ModelAnswer, failure: ModelFailure, asked: ModelSpec
    ) -> ModelReplied:
        wait = failure.retry_after_ms if type(failure.retry_after_ms) is int else None
        told = ModelFailure(
            self._short(text_of(failure.code)),
            self._short(text_of(failure.message)),
            failure.is_retryable is True,
            None if wait is None else max(0, min(wait, USAGE_MAX)),
            self._short(text_of(failure.digest)),
        )
        return ModelReplied(
            wish.turn,
            wish.attempt,
            "error",
            usage=answer.usage,
            failure=told,
            model=self._other(answer.model, asked.name),
            sent=self._sent(answer),
        )

    def _sent(self, answer: ModelAnswer) -> Sent | None:
        sent = answer.sent
        return None if sent is None else Sent(self._short(sent.digest), self._short(sent.made_by))

    def _other(self, model: str, asked: str) -> str:
        """Return the name of the model that answered, or "" if it is the one that was asked."""
        return "" if model == asked else self._short(model)

    def _short(self, text: str) -> str:
        # The redactor searches the whole text before it cuts: half a secret looks like any other text.
        return self._board.secrets.redactor.cut(clean_text(text), _TEXT_CHARS_MAX)


def _kept_edits(answer: ModelAnswer) -> Json:
    """Return what a service has taken out of the conversation; nothing if the log cannot hold that."""
    try:
        return check_json(bytes(answer.edits), max_bytes=_EDITS_BYTES_MAX)
    except InvalidPrompt:
        return NULL


def _believed(usage: Usage) -> Usage:
    """Return the usage that a stream has told, if the log can hold it, else that of nothing."""
    try:
        return checked(ModelAnswer(usage=usage)).usage or ZERO
    except (TypeError, ValueError):
        return ZERO


def checked(answer: object) -> ModelAnswer:
    """Return a model's answer if the log can hold all its parts. Raises TypeError, ValueError."""
    if not isinstance(answer, ModelAnswer):
        raise TypeError(f"a model answers with a ModelAnswer, not {type(answer).__name__}")
    parts = astuple(answer)
    if tuple(map(type, parts)) not in _USUAL:
        for (name, kinds), value in zip(_PARTS, parts, strict=True):
            if not isinstance(value, kinds):
                raise TypeError(f"ModelAnswer.{name} is a {kinds[0].__name__}, not {type(value).__name__}")
    if answer.origin is not None:
        _check_texts("origin", *astuple(answer.origin))
    if answer.sent is not None:
        _check_texts("sent", answer.sent.digest, answer.sent.made_by)
    if answer.usage is not None:
        counts = astuple(answer.usage)
        if set(map(type, counts)) != _WHOLE or min(counts) < 0 or max(counts) >= USAGE_MAX:
            raise ValueError(f"the counts of ModelAnswer.usage are whole numbers from 0 up, not {counts!r}")
    return answer


def _check_texts(name: str, *texts: object) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"the parts of ModelAnswer.{name} are texts, not {texts!r}")
