"""A Claude client as the model of a program: each step lasts until the client wants something, or ends.

The client is parked between steps, and lives as long as its run. A request that does not follow the parked
step ends it, and starts another one beside the recorded steps.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, NamedTuple

import msgspec
from claude_agent_sdk import ClaudeAgentOptions, ResultError, ResultMessage, query

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.brains.claude_client import ClientHome
from callboard.runtime.brains.claude_gateway import ClientGateway
from callboard.runtime.brains.claude_run import ClientRun
from callboard.runtime.brains.claude_tools import Call
from callboard.runtime.clock import new_token
from callboard.runtime.failure_text import located_text
from callboard.runtime.models.protocol import DivergedAnswer, ModelAnswer, OnText
from callboard.runtime.programs.asks import Ending, ProgramFailed, run_name, text_of_blocks
from callboard.runtime.programs.history import RecordedRun, answers_from, last_run
from callboard.runtime.programs.model import CRASHED, ProgramModel
from callboard.runtime.programs.replaying import ProgramDiverged, repeat
from callboard.runtime.programs.run import Main, ProgramCrashed, ProgramRun, RunsBefore

TOGETHER_S: Final = 0.03
"""Wishes that come within this time of one another, such as parallel calls, are asks of one step."""

QUIET_S: Final = 0.05
"""A client with open asks that wishes for nothing within this time waits for their answers."""

OptionsOf = Callable[[ClientHome, Call], ClaudeAgentOptions]
"""Makes the options of one client."""

_ENDS: Final[JsonObject] = {
    "error_max_turns": "iteration_cap",
    "error_max_structured_output_retries": "no_report",
}


class _Client:
    """A client that runs, with its gateway and its folder."""

    def __init__(self, run: ClientRun, prompt: str, options_of: OptionsOf, max_tokens: int) -> None:
        self.run = run
        self._prompt, self._options_of, self._max_tokens = prompt, options_of, max_tokens
        self._home: ClientHome | None = None
        self.task = asyncio.ensure_future(self._work())
        self.task.add_done_callback(lambda _: run.moved.set())

    async def _work(self) -> ResultMessage | None:
        token = f"callboard-{new_token()}"
        gateway = ClientGateway(token, self.run.ask)
        self._home = home = ClientHome(await gateway.start(), token, self._max_tokens)
        found = None
        try:
            options = self._options_of(home, self.run.call)
            with contextlib.suppress(ResultError):  # the last message has said so
                async with contextlib.aclosing(_said(self._prompt, options)) as messages:
                    async for said in messages:
                        if isinstance(said, ResultMessage):
                            found = said
            return found
        finally:
            home.kill()
            await gateway.aclose()
            home.remove()

    async def until_rest(self) -> None:
        """Wait until the client wants something, waits for an answer, or has ended."""
        run = self.run
        while not (self.task.done() or run.has_new or run.diverged):
            run.moved.clear()
            try:
                await asyncio.wait_for(run.moved.wait(), QUIET_S if run.is_waiting else None)
            except TimeoutError:
                return
        if run.has_new:
            await asyncio.sleep(TOGETHER_S)

    def kill(self) -> None:
        """End the process at once."""
        if self._home is not None:
            self._home.kill()
        self.task.cancel()

    async def stop(self) -> None:
        """End the process, and wait for its end."""
        self.kill()
        await asyncio.gather(self.task, return_exceptions=True)

    def end(self) -> None:
        """Tell the run how the client has ended."""
        error: BaseException | None = None
        found = None
        if self.task.cancelled():
            error = ProgramCrashed("the client was stopped")
        elif (failed := self.task.exception()) is not None:
            error = self.run.refusal or ProgramCrashed(f"the Claude client: {located_text(failed)}")
        else:
            found = self.task.result()
            error = self.run.refusal or _failure_of(found)
        self.run.end(None if error else _value_of(found), error)


async def _said(prompt: str, options: ClaudeAgentOptions) -> AsyncGenerator[object, None]:
    messages: Any = query(prompt=prompt, options=options)
    async with contextlib.aclosing(messages):  # an iterator by its type, a generator in fact
        async for one in messages:
            yield one


def _value_of(found: ResultMessage | None) -> object:
    assert found is not None  # by _failure_of
    return found.result or "" if found.structured_output is None else found.structured_output


def _failure_of(found: ResultMessage | None) -> BaseException | None:
    if found is None:
        return ProgramCrashed("the Claude client ended without a result")
    if not found.is_error and found.subtype == "success":
        return None
    text = found.result or found.subtype
    return ProgramFailed(
        f"the Claude client ended as {found.subtype}: {text}", _ENDS.get(found.subtype, "failed")
    )


class _Parked(NamedTuple):
    """A run between two steps. length: of the request that it answered."""

    program: ProgramRun
    client: _Client
    length: int


class ClientModel(ProgramModel):
    """The model behind a brain of the Claude Agent SDK. agent: its name. stand_in: for simulations."""

    def __init__(self, agent: str, options_of: OptionsOf, max_tokens: int, stand_in: ProgramModel) -> None:
        super().__init__(agent, _no_main)
        self._stand_in = stand_in
        self._options_of, self._max_tokens = options_of, max_tokens
        self._clients: dict[tuple[str, str], _Parked] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def simulated(self) -> ProgramModel:
        """Return the stand-in of the client."""
        return self._stand_in

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:  # type: ignore[override]  # the port awaits it
        """Run the next step."""
        if request.profile != self._agent:
            why = f"{request.address} has no model: pass Runtime(model=...) for agents that name none"
            return ModelAnswer(failure=ModelFailure("unknown_model", why), usage=ZERO)
        try:
            return await self._step(request)
        except ProgramDiverged as error:
            failure = ModelFailure(CRASHED, str(error))
            return DivergedAnswer(failure=failure, usage=ZERO, model=self.spec.name)
        except ProgramCrashed as error:
            return ModelAnswer(failure=ModelFailure(CRASHED, str(error)), usage=ZERO, model=self.spec.name)

    async def _step(self, request: ModelRequest) -> ModelAnswer:
        parked = self._clients.pop((request.session_id, request.address), None)
        answers = None if parked is None else answers_from(parked.length + 1, request.length, request.message)
        if parked is not None and answers is None:
            await parked.client.stop()
        if parked is None or answers is None:
            program, client, recorded = self._restarted(request)
            answers = recorded.answers
        else:
            program, client = parked.program, parked.client
        try:
            client.run.step = program.steps + 1
            client.run.give(answers)
            if not any(answer.ends for answer in answers):
                await client.until_rest()
            if client.run.diverged is not None:
                raise client.run.diverged
            if client.task.done():
                client.end()
            at, left_out_ms = max(request.at, program.at), max(request.left_out_ms, program.left_out_ms)
            step = program.step(answers, at, None, request.state_of, left_out_ms=left_out_ms)
        except BaseException:
            program.stop()
            await client.stop()
            raise
        if step.ending is None and request.session_id:
            self._clients[request.session_id, request.address] = _Parked(program, client, request.length)
        else:
            program.stop()
            await client.stop()
        return ModelAnswer(
            step.content(), "tool_use" if step.asks else "end_turn", ZERO, model=self.spec.name
        )

    def _restarted(self, request: ModelRequest) -> tuple[ProgramRun, _Client, RecordedRun]:
        """Execute the recorded steps again, and start a client beside them."""
        try:
            recorded = last_run(request.length, request.message)
        except msgspec.ValidationError as error:
            raise ProgramCrashed(f"the recorded replies are not those of a program ({error})") from None
        if recorded is None:
            raise ProgramCrashed("the program was asked for a step without a prompt")
        name = run_name(recorded.number, request.session_id, request.address)
        program, run = _executed_again(recorded, name)
        prompt = text_of(recorded.prompt)
        return program, _Client(run, prompt, self._options_of, self._max_tokens), recorded

    def divergence_in(self, recorded: RecordedRun, run: str, before: RunsBefore) -> ProgramDiverged | None:
        """Execute the recorded steps again without a client.

        A client that has changed is found once it runs: each of its requests is compared with the log.
        """
        try:
            program, _ = _executed_again(recorded, run)
        except ProgramDiverged as error:
            return error
        program.stop()
        return None

    def ended(self, session_id: str, address: str = "") -> None:
        """Stop the client of an agent that ended; without an address, all of a session."""
        for key in [key for key in self._clients if key[0] == session_id and address in ("", key[1])]:
            parked = self._clients.pop(key)
            parked.program.stop()
            parked.client.kill()  # at once: the loop may end before the task below
            task = asyncio.ensure_future(parked.client.stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def aclose(self) -> None:
        """Stop all clients."""
        for session_id, _ in list(self._clients):
            self.ended(session_id)
        await asyncio.gather(*self._stopping, return_exceptions=True)

    @property
    def parked(self) -> int:
        """Return the number of parked runs."""
        return len(self._clients)


def _executed_again(recorded: RecordedRun, name: str) -> tuple[ProgramRun, ClientRun]:
    """Let the program ask what the log says that it asked. Raises ProgramDiverged."""
    run = ClientRun()
    program = ProgramRun(run.main, recorded.steps[0].step.head.run if recorded.steps else name)
    for one in recorded.steps:
        run.give(one.answers)
        run.record(one.step.asks)
        if (ending := one.step.ending) is not None:
            run.end(
                ending.text if ending.value is None else msgspec.json.decode(ending.value), _raised(ending)
            )
        repeat(program, one)
    return program, run


def text_of(prompt: Json) -> str:
    """Return the prompt for a client. Raises ProgramCrashed for one with more than text."""
    blocks = msgspec.json.decode(prompt)
    if isinstance(blocks, list) and any(block.get("type") != "text" for block in blocks):
        raise ProgramCrashed(
            "a Claude client takes a prompt of text alone: describe the rest, or give a tool for it"
        )
    return text_of_blocks(prompt) or "(no prompt)"


def _raised(ending: Ending) -> ProgramFailed | None:
    return None if ending.failure is None else ProgramFailed(ending.text, ending.failure)


def _no_main(prompt: Json, before: RunsBefore) -> Main:
    raise MisuseError("a Claude client is a process of its own, and has no function that could be executed")
