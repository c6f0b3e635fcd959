"""The decision models of LangChain in a session: a state with questions is a request, the answers a reply.

Code compares the probabilities of such answers, and a chat model has none. So each decision model answers its
own questions, also where one model answers for all chat models.

The messages in a state lose their ids. The framework draws some of those, and an execution has to ask the
same as the one before.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pydantic
from langchain_core.decisions import BaseDecisionModel, ClassifierRequest, ClassifierResponse, Question, State
from langchain_core.messages import BaseMessage, messages_from_dict
from pydantic_core import to_jsonable_python

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.runtime.brains.langgraph_chat import failure_of
from callboard.runtime.brains.langgraph_doors import untraced
from callboard.runtime.brains.langgraph_messages import usage_of
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.sanitize import encoded

_MAX_TOKENS: Final = 1_024
"""The most tokens of a reply: a few numbers for each question."""

_MESSAGE: Final = "callboard_message"
"""The key of a message within a state."""

_QUESTIONS: Final[pydantic.TypeAdapter[dict[str, Question]]] = pydantic.TypeAdapter(dict[str, Question])


class LangChainDecisionModel:
    """A decision model of LangChain in a session. name: by which the session knows it."""

    def __init__(self, decider: BaseDecisionModel, name: str) -> None:
        self._decider = decider
        self.spec = ModelSpec(name, _MAX_TOKENS)

    def __repr__(self) -> str:
        return f"LangChainDecisionModel({self.spec.name!r})"

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Answer one request."""
        try:
            with untraced():
                # Not `ainvoke`, which needs a loop for its callbacks: a simulation has none.
                response = await self._decider._aclassify(*_read(request))
        except Exception as error:
            if (failure := failure_of(error)) is None:
                raise
            return ModelAnswer(failure=failure, usage=ZERO)
        content = encoded([{"type": "text", "text": response.model_dump_json()}], what="The answers")
        return ModelAnswer(content, "end_turn", usage_of(response.usage), model=response.model)

    async def aclose(self) -> None:
        """Do nothing: the client belongs to the one who made the decision model."""


def name_of_decider(decider: BaseDecisionModel) -> str:
    """Return the name by which a session knows a decision model."""
    return f"langchain:{decider._provider}:{decider.model}"


def question_of(asked: ClassifierRequest) -> JsonObject:
    """Return a state and its questions as a message of a request."""
    written = {
        "state": _plain(asked["state"]),
        "questions": {name: one.model_dump(mode="json") for name, one in asked["questions"].items()},
    }
    return {"role": "user", "content": [{"type": "text", "text": json.dumps(written, ensure_ascii=False)}]}


def answers_of(text: str, name: str) -> ClassifierResponse:
    """Read the answers of the decision model of a name. Raises MisuseError for another text."""
    try:
        return ClassifierResponse.model_validate_json(text)
    except pydantic.ValidationError as error:
        raise MisuseError(
            f"the reply of the decision model {name!r} has no answers ({error.errors()[0]['msg']}): in a "
            "test, reply with `ClassifierResponse(...).model_dump_json()`"
        ) from None


def _plain(value: object) -> Any:
    """Return a part of a state as JSON values."""
    if isinstance(value, BaseMessage):
        data = to_jsonable_python(value.model_dump(exclude={"id"}), fallback=str)
        return {_MESSAGE: {"type": value.type, "data": data}}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value


def _read(request: ModelRequest) -> tuple[State, dict[str, Question]]:
    said = msgspec.json.decode(request.messages[-1])
    asked = json.loads(said["content"][-1]["text"], object_hook=_message)
    return asked["state"], _QUESTIONS.validate_python(asked["questions"])


def _message(value: JsonObject) -> Any:
    """Return the message that a JSON object stands for, or the object."""
    return messages_from_dict([value[_MESSAGE]])[0] if value.keys() == {_MESSAGE} else value
