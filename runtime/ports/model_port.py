"""The model port: a grant becomes one call of a model, and its one answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from callboard.actors.agent_state import AgentState, request_of
from callboard.actors.errors import CallboardError, InvalidPrompt
from callboard.actors.events import Event, Post
from callboard.actors.limits import DEFAULTS
from callboard.actors.messages import CallModel, ModelFailure, ModelReplied
from callboard.actors.request import ModelRequest
from callboard.runtime.board import Board
from callboard.runtime.boundary import check_json, clean_text
from callboard.runtime.models.protocol import Model, ModelAnswer
from callboard.runtime.ports.tasks import Tasks

logger = logging.getLogger("callboard.models")


class ModelPort:
    """The model calls of one session. on_text: told the address and each piece of text as it streams."""

    def __init__(
        self, board: Board, models: Mapping[str, Model], on_text: Callable[[str, str], None]
    ) -> None:
        self._board = board
        self._models = models
        self._on_text = on_text
        self._tasks = Tasks()

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
        except Exception as error:
            answer = _crashed(error)
        if isinstance(answer, ModelAnswer):
            self._answer(request, grant, answer)
        else:
            limit = actor.state.limits.model_timeout_s or DEFAULTS.model_timeout_s
            self._tasks.spawn(request.seq, self._wait(request, grant, answer, limit), answer, limit)

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

    async def _wait(
        self, request: Event, grant: CallModel, work: Awaitable[ModelAnswer], limit_s: float | None
    ) -> None:
        try:
            answer = await work
        except asyncio.CancelledError:
            if not self._tasks.has_expired(request.seq):
                # Started, and given up: whether the service has finished it, and what it used, is not known.
                replied = ModelReplied(grant.turn, grant.attempt, "cancelled")
                self._board.answer(request, Post(grant.agent, replied))
                return
            why = f"no answer within {limit_s:g} s (model_timeout_s)"
            answer = ModelAnswer(failure=ModelFailure("timeout", why, is_retryable=True))
        except Exception as error:
            answer = _crashed(error)
        self._answer(request, grant, answer)

    def _answer(self, request: Event, grant: CallModel, answer: ModelAnswer) -> None:
        self._board.answer(request, Post(grant.agent, _replied(grant, answer)))


def _crashed(error: Exception) -> ModelAnswer:
    logger.error("a model raised instead of answering", exc_info=error)
    why = clean_text(f"{type(error).__name__}: {error}")[:500]
    return ModelAnswer(failure=ModelFailure("model_crashed", why))


def _replied(grant: CallModel, answer: ModelAnswer) -> ModelReplied:
    """The answer, cleaned and checked, as it goes into the log; the agent judges whether it can read it."""
    if answer.failure is not None:
        return ModelReplied(
            grant.turn, grant.attempt, "error", usage=answer.usage, failure=answer.failure, model=answer.model
        )
    try:
        content = check_json(bytes(answer.content))
    except InvalidPrompt as error:
        return _garbage(grant, answer, str(error))
    return ModelReplied(
        grant.turn,
        grant.attempt,
        "ok",
        content,
        clean_text(answer.stop_reason),
        answer.usage,
        model=clean_text(answer.model),
    )


def _garbage(grant: CallModel, answer: ModelAnswer, why: str) -> ModelReplied:
    failure = ModelFailure("garbage", why[:500], is_retryable=True)
    return ModelReplied(
        grant.turn, grant.attempt, "error", usage=answer.usage, failure=failure, model=answer.model
    )
