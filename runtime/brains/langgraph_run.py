"""One run of a graph: what comes to the doors is put to the session, as questions and calls.

Rules
  - Failed, interrupted and refused calls are told to the model as tool messages with the status of an error,
    and the graph goes on. A failed one is first raised, for the middleware and the handlers of a tool node.
  - A node that calls a tool itself gets a `ToolException`.
  - A tool or a model that the brain does not know is refused, and ends it: no call of it would be in the log.
"""

from collections.abc import Collection, Mapping
from typing import Any

from langchain_core.decisions import BaseDecisionModel, ClassifierRequest, ClassifierResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import Command

from callboard.actors.protocol.errors import (
    CallFailed,
    Interrupted,
    MisuseError,
    NotApproved,
)
from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.brains.common import NOTHING_SAID, Latch, called, note_of, with_note
from callboard.runtime.brains.langgraph_again import Answers
from callboard.runtime.brains.langgraph_chat import SessionChatModel
from callboard.runtime.brains.langgraph_decisions import answers_of, question_of
from callboard.runtime.brains.langgraph_doors import (
    FailedCall,
    Through,
    ToolInput,
    failed_message,
    is_of_node,
)
from callboard.runtime.brains.langgraph_messages import NOTE, Conversation, Said
from callboard.runtime.brains.langgraph_requests import Wanted, told_in_format, wanted_of
from callboard.runtime.brains.langgraph_tools import arguments_of, checked, handled_words
from callboard.runtime.brains.langgraph_waiting import Waiting
from callboard.runtime.programs.context import ProgramContext


class GraphRun:
    """The run of a brain's graph.

    names: of the chat models that it may ask, by their identity; "" for the brain's default one.
    asks_all: the default model answers for every chat model. keys: of the session's shared state that the
    graph has, too: it gets what a tool has changed there. remembers: the graph may be interrupted.
    """

    def __init__(
        self,
        ctx: ProgramContext,
        tools: Mapping[str, BaseTool],
        inner: Collection[str],
        names: Mapping[int, str],
        keys: Collection[str],
        *,
        asks_all: bool,
        remembers: bool,
        waiting: Waiting,
        latch: Latch,
    ) -> None:
        self._ctx = ctx
        self._tools = tools
        self._inner = inner
        self._names = names
        self._keys = keys
        self._asks_all = asks_all
        self._latch = latch
        self._said = Conversation(ctx.run_name)
        self._state = {key: ctx.state[key] for key in keys}
        self._answers = Answers(remembers=remembers)
        self.now = waiting.now
        self.run_again = self._answers.run_again
        self.refuse = latch.refuse
        self.chance = ctx.random
        self.clock = lambda: ctx.now().timestamp()

    async def answer(
        self,
        chat: BaseChatModel,
        messages: list[BaseMessage],
        stop: list[str] | None,
        given: Mapping[str, object],
    ) -> ChatResult:
        """Ask the session's model. Raises DelegationFailed; MisuseError for a request that cannot be put."""
        self._latch.check()
        try:
            wanted = wanted_of({**given, **({"stop": stop} if stop else {})})
            system, said = self._said.written(messages)
        except MisuseError as error:
            raise self.refuse(str(error)) from None
        model = self._model_of(chat)
        said = said or [NOTHING_SAID]
        asked = (model, system, said, wanted)
        return await self._answers.of(asked, lambda: self._asked(model, "\n\n".join(system), said, wanted))

    async def _asked(self, model: str, system: str, said: list[Said], wanted: Wanted) -> ChatResult:
        with self._latch.keeping():
            reply = await self._ctx.ask_model(
                messages=said,
                tools=wanted.tools,
                system=system,
                settings=wanted.settings,
                max_tokens=wanted.max_tokens,
                force_tool=wanted.force_tool,
                model=model,
            )
        told, value = told_in_format(reply, wanted.output)
        message = self._said.message(told)
        if value is not None:
            message.additional_kwargs["parsed"] = value
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def decide(self, decider: BaseDecisionModel, asked: ClassifierRequest) -> ClassifierResponse:
        """Ask a decision model by the session. Raises DelegationFailed; MisuseError for an unknown one."""
        self._latch.check()
        if (model := self._names.get(id(decider))) is None:
            raise self.refuse(
                f"{type(decider).__name__} is made while the graph runs, so the session does not know it: "
                "make it before"
            )
        question = question_of(asked)
        return await self._answers.of((model, question), lambda: self._decided(model, question))

    async def _decided(self, model: str, question: Said) -> ClassifierResponse:
        with self._latch.keeping():
            reply = await self._ctx.ask_model(messages=[question], model=model)
        try:
            return answers_of(reply.text, model)
        except MisuseError as error:
            raise self.refuse(str(error)) from None

    def _model_of(self, chat: BaseChatModel) -> str:
        is_ours = self._asks_all or isinstance(chat, SessionChatModel)
        name = "" if is_ours else self._names.get(id(chat))
        if name is None:
            raise self.refuse(
                f"{type(chat).__name__} is made while the graph runs, so the session does not know it: make "
                "it before, or give the brain a `model` that answers all of the graph's questions"
            )
        return name

    async def call(self, tool: BaseTool, wanted: ToolInput, through: Through) -> object:
        """Call a tool by the session, or in the program.

        Raises pydantic.ValidationError for arguments of another form; ToolException where the graph's node
        does not take a message.
        """
        self._latch.check()
        if tool.name in self._inner:
            return await through()
        if self._tools.get(tool.name) is not tool:
            raise self.refuse(
                f"tool {tool.name!r} is made while the graph runs, so its calls cannot be recorded; make it "
                "before, or name it in `in_program`"
            )
        call = wanted if isinstance(wanted, Mapping) and wanted.get("type") == "tool_call" else None
        arguments = arguments_of(tool, call["args"] if call is not None else wanted)
        checked(tool, arguments)
        return await self._answers.of((tool.name, arguments), lambda: self._called(tool, arguments, call))

    async def _called(self, tool: BaseTool, arguments: JsonObject, call: Mapping[str, Any] | None) -> object:
        try:
            result = await called(self._ctx, tool.name, arguments)
        except (Interrupted, NotApproved, CallFailed) as error:
            return self._failed(tool, error, call)
        content: Any = result.text if result.blocks is None else result.blocks
        if call is None:
            return content
        more = {NOTE: result.note} if result.note else {}
        message = ToolMessage(content, tool_call_id=call["id"], name=tool.name, additional_kwargs=more)
        changed = self._changed()
        return Command(update={**changed, "messages": [message]}) if changed else message

    def _failed(
        self,
        tool: BaseTool,
        error: Interrupted | NotApproved | CallFailed,
        call: Mapping[str, Any] | None,
    ) -> object:
        """Return what the framework is told of a failed call. Raises ToolException where it handles that."""
        is_failed, note = isinstance(error, CallFailed), note_of(error)
        if is_failed and (words := handled_words(tool, error.text)) is not None:
            told = with_note(note, words)
            return told if call is None else failed_message(call, told)
        told = with_note(note, error.text if is_failed else str(error))
        if call is None:
            raise ToolException(told) from None
        # A refused call is not to be asked about again, nor an interrupted one made again, by a retry.
        if is_failed and is_of_node(call):
            raise FailedCall(told) from None
        return failed_message(call, told)

    def _changed(self) -> JsonObject:
        """Return the keys of the shared state that have another value than the graph was told."""
        now = {key: self._ctx.state[key] for key in self._keys}
        changed = {key: value for key, value in now.items() if value != self._state[key]}
        self._state |= changed
        return changed
