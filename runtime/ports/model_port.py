"""The model port: a grant becomes one call of a model, and its one answer."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from callboard.actors.agent_state import AgentState, request_of
from callboard.actors.base import NULL, Json
from callboard.actors.errors import CallboardError, InvalidPrompt
from callboard.actors.events import Event, Post
from callboard.actors.limits import DEFAULTS
from callboard.actors.messages import CallModel, ModelFailure, ModelReplied
from callboard.actors.request import ModelRequest
from callboard.actors.usage import Usage
from callboard.runtime.board import Board
from callboard.runtime.boundary import check_json, clean_text
from callboard.runtime.models.protocol import Model, ModelAnswer
from callboard.runtime.ports.tasks import Tasks

USAGE_MAX: Final = 2**53
"""Beyond this a count is a mistake, and other languages cannot read it exactly."""

_TEXT_CHARS_MAX: Final = 1_000
"""Characters of what a service says of a failure, a reason or a name."""

logger = logging.getLogger("callboard.models")


class ModelPort:
    """The model calls of one session. on_text: told the address and each piece of text as it streams."""

    def __init__(
        self, board: Board, models: Mapping[str, Model], on_text: Callable[[str, str], None]
    ) -> None:
        self._board = board
        self._models = models
        self._on_text = on_text
        self._tasks = Tasks(self._lost)

    def start(self, request: Event) -> None:
        """Call the model. One that knows its answer at once gives it at once."""
        grant = request.body
        assert isinstance(grant, CallModel)
        actor = self._board.actors.get(grant.agent)
        if actor is None or not isinstance(actor.state, AgentState):
            self._board.fail(CallboardError(f"{grant.agent} has a grant and is not there"))
            return
        asked = request_of(actor.state)
        if asked.digest != grant.digest:
            self._board.fail(CallboardError(f"{grant.agent}: the request is not the one that was granted"))
            return
        try:
            answer = self._call(asked)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            answer = _crashed(error)
        if inspect.isawaitable(answer):
            limit = actor.state.limits.model_timeout_s or DEFAULTS.model_timeout_s
            work = self._wait(request, grant, answer)
            self._tasks.spawn(request.seq, work, answer, limit, lambda: self._expired(request, grant, limit))
        else:
            self._answer(request, grant, answer)

    def abort(self, request: Event) -> bool:
        """Cancel the call; False if there is none under way."""
        return self._tasks.cancel(request.seq)

    async def aclose(self) -> None:
        """Cancel all calls."""
        await self._tasks.aclose()

    def _call(self, asked: ModelRequest) -> ModelAnswer | Awaitable[ModelAnswer]:
        model = self._models.get(asked.model.name)
        if model is None:
            known = ", ".join(sorted(self._models)) or "none"
            why = f"there is no model {asked.model.name!r} in this runtime (there is: {known})"
            return ModelAnswer(failure=ModelFailure("unknown_model", why))
        return model.call(asked, lambda piece: self._on_text(asked.address, piece))

    async def _wait(self, request: Event, grant: CallModel, work: Awaitable[ModelAnswer]) -> None:
        try:
            answer = await work
        except asyncio.CancelledError:
            # Started, and given up: whether the service has finished it, and what it used, is not known.
            replied = ModelReplied(grant.turn, grant.attempt, "cancelled")
            self._board.answer(request, Post(grant.agent, replied))
        else:
            self._answer(request, grant, answer)

    def _expired(self, request: Event, grant: CallModel, limit_s: float | None) -> None:
        why = f"no answer within {limit_s:g} s (model_timeout_s)"
        self._answer(request, grant, ModelAnswer(failure=ModelFailure("timeout", why, is_retryable=True)))

    def _lost(self, seq: int, error: BaseException) -> None:
        """A call ended in an exception: that is its answer."""
        request = self._board.desk.open.get(seq)
        if request is not None and isinstance(request.body, CallModel):
            self._answer(request, request.body, _crashed(error))

    def _answer(self, request: Event, grant: CallModel, answer: object) -> None:
        try:
            replied = _replied(grant, checked(answer))
        except (TypeError, ValueError) as error:
            replied = _replied(grant, _crashed(error))
        self._board.answer(request, Post(grant.agent, replied))


def checked(answer: object) -> ModelAnswer:
    """What a model gave, if every part of it is what the log can hold. Raises TypeError, ValueError."""
    if not isinstance(answer, ModelAnswer):
        raise TypeError(f"a model answers with a ModelAnswer, not {type(answer).__name__}")
    parts = (
        ("content", Json, False),
        ("stop_reason", str, False),
        ("model", str, False),
        ("usage", Usage, True),
        ("failure", ModelFailure, True),
    )
    for name, kind, may_be_none in parts:
        value = getattr(answer, name)
        if not isinstance(value, kind) and not (may_be_none and value is None):
            raise TypeError(f"ModelAnswer.{name} is a {kind.__name__}, not {type(value).__name__}")
    if answer.usage is not None:
        for name in answer.usage.__struct_fields__:
            count = getattr(answer.usage, name)
            if type(count) is not int or not 0 <= count < USAGE_MAX:
                raise ValueError(f"ModelAnswer.usage.{name} is a whole number from 0 up, not {count!r}")
    return answer


def _crashed(error: BaseException) -> ModelAnswer:
    logger.error("a model raised instead of answering", exc_info=error)
    why = clean_text(f"{type(error).__name__}: {error}")[:500]
    return ModelAnswer(failure=ModelFailure("model_crashed", why))


def _replied(grant: CallModel, answer: ModelAnswer) -> ModelReplied:
    """The answer, cleaned, as it goes into the log; the agent judges whether it can read it."""
    model = clean_text(answer.model)[:_TEXT_CHARS_MAX]
    failure, content = answer.failure, NULL
    if failure is None:
        try:
            content = check_json(bytes(answer.content))
        except InvalidPrompt as error:
            failure = ModelFailure("garbage", str(error), is_retryable=True)
    if failure is not None:
        return ModelReplied(
            grant.turn, grant.attempt, "error", usage=answer.usage, failure=_cleaned(failure), model=model
        )
    reason = clean_text(answer.stop_reason)[:_TEXT_CHARS_MAX]
    return ModelReplied(grant.turn, grant.attempt, "ok", content, reason, answer.usage, model=model)


def _cleaned(failure: ModelFailure) -> ModelFailure:
    code, message = str(failure.code), str(failure.message)
    wait = failure.retry_after_ms if type(failure.retry_after_ms) is int else None
    return ModelFailure(
        clean_text(code)[:_TEXT_CHARS_MAX],
        clean_text(message)[:_TEXT_CHARS_MAX],
        bool(failure.is_retryable),
        None if wait is None else max(0, min(wait, USAGE_MAX)),
    )
