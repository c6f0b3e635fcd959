"""The tools by which an MCP client asks an agent: `ask`, `wait` and `cancel`.

An ask that takes longer than its client waits goes on, and `wait` has its answer later. A client that gives
up before `ask` has answered is a cancelled caller of the session, with the same consequences.

Questions to a person, offered to the user of an MCP client that can show a form.

The question ends the call of `ask` or `wait`. The client asks its user, and makes the call again with the
answer (protocol 2026-07-28). The SDK seals the state that goes with it: no client answers another question.
"""

import asyncio
import hashlib
import shlex
from collections.abc import Mapping
from typing import Any, Final

import mcp.types as types
import msgspec
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.session.place_names import is_number
from callboard.cli.mcp_tools import tool_of
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.call_options import OnCancel
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.input_forms import Form, forms_of

RESULT_CHARS: Final = 75_000  # characters of a text, about 25,000 tokens
WAIT_S: Final = 50.0  # seconds: less than the minute after which many clients give up
_WAIT_S_MAX: Final = 3_600.0
Answer = dict[str, object]
BY: Final = "user of the MCP client"
_DECISION: Final = "decision"
_SHOWN_CHARS: Final = 4_000
_DECIDE: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["allow", "refuse"], "description": "Let the call run?"},
        "note": {"type": "string", "description": "A reason, which the agent reads after a refusal."},
    },
    "required": ["decision"],
}


class Asks:
    """The tools.

    log: its path, for hints. on_disconnect: "cancel" ends the ask of a client that gives up.
    """

    def __init__(self, runtime: Runtime, agent: Agent, log: str, on_disconnect: OnCancel) -> None:
        self._runtime = runtime
        self._agent = agent
        self._log = log
        self._on_disconnect: OnCancel = on_disconnect
        self._sessions: dict[str, Session] = {}
        self._put_off: set[str] = set()  # the questions that the client's user did not want to answer
        self._asks: set[asyncio.Task[Outcome]] = set()  # of clients that do not wait any more, too

    def tools(self) -> list[Tool]:
        """Return the tools of a server."""
        about = f" The agent: {self._agent.description}" if self._agent.description else ""
        described = f"{' '.join((self.ask.__doc__ or '').split())}{about}"
        return [tool_of(self.ask, description=described), tool_of(self.wait), tool_of(self.cancel)]

    async def ask(
        self,
        prompt: str,
        session_id: str = "",
        request_id: str = "",
        wait_s: float = WAIT_S,
        ctx: Context | None = None,
    ) -> Answer | types.InputRequiredResult:
        """Give the agent a task and wait for its answer.

        session_id: of an earlier answer, to go on with its conversation; empty for a new one.
        request_id: a name that you choose for this task: the same name again asks nothing twice and returns
        the same answer. wait_s: seconds to wait; a longer task answers `running` and goes on.
        """
        if (answered := await self._answered(ctx)) is not None:
            return await self._waited(answered, answered.outcome, wait_s, ctx=ctx)
        session = await self._session(session_id or _name_of(request_id), prompt)
        work = session.ask(prompt, request_id=request_id or None, on_cancel=self._on_disconnect)
        running = asyncio.create_task(work)
        self._asks.add(running)
        running.add_done_callback(self._ended)
        try:
            return await self._waited(session, running, wait_s, ctx=ctx)
        except asyncio.CancelledError:
            if self._on_disconnect == "cancel":
                running.cancel()  # a cancelled caller of the session
            raise

    async def wait(
        self,
        session_id: str,
        seconds: float = WAIT_S,
        start: int = 0,
        ctx: Context | None = None,
    ) -> Answer | types.InputRequiredResult:
        """Wait for the answer of a task that answered `running` or `needs_approval`.

        start: the character of the text to begin with, for one that was cut.
        """
        await self._answered(ctx)
        session = self._sessions.get(session_id)
        if session is None:
            outcome = await self._runtime.outcome(session_id, agent=self._agent)
            if outcome is not None:
                return _answer(outcome, start)
            session = self._sessions[session_id] = await self._runtime.resume(session_id, self._agent)
        return await self._waited(session, session.outcome, seconds, start, ctx)

    async def cancel(self, session_id: str) -> Answer:
        """Stop the running task of a session, with everything under it."""
        session = self._sessions.get(session_id)
        outcome = await session.cancel("cancelled by the client") if session else None
        if outcome is None:
            raise MisuseError(f"no task of session {session_id!r:.100} runs here")
        return _answer(outcome)

    async def _answered(self, ctx: Context | None) -> Session | None:
        """Take the answer of the client's user, if the call brings one. Return the session that it is for."""
        if ctx is None or ctx.request_state is None:
            return None
        name, _, seq = ctx.request_state.rpartition("#")
        session = self._sessions.get(name)
        if session is None or not is_number(seq):
            raise MisuseError(f"session {name!r:.100} is no longer running here; call wait with it")
        self._settle(session, int(seq), ctx.input_responses or {})
        return session

    def _settle(self, session: Session, seq: int, answers: types.InputResponses) -> None:
        """Answer an open question, or note that the user put it off."""
        for question in session.open_approvals:
            if question.seq == seq and not settle(question, answers):
                self._put_off.add(question.id)

    async def _session(self, name: str, prompt: str) -> Session:
        if name:
            session = await self._runtime.open(self._agent, session_id=name, resume=True, title=prompt)
        else:
            session = await self._runtime.open(self._agent, title=prompt)
        self._sessions[session.session_id] = session
        return session

    def _ended(self, task: "asyncio.Task[Outcome]") -> None:
        self._asks.discard(task)
        _seen(task)

    async def _waited(
        self,
        session: Session,
        running: "asyncio.Future[Outcome]",
        seconds: float,
        start: int = 0,
        ctx: Context | None = None,
    ) -> Answer | types.InputRequiredResult:
        """Wait for an ask, for a question to a person, or for so long."""
        asked = asyncio.create_task(_question(session))
        asked.add_done_callback(_seen)
        try:
            limit_s = min(max(seconds, 0.0), _WAIT_S_MAX)
            both: list[asyncio.Future[Any]] = [running, asked]
            await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if running.done():
            return _answer(await running, start)
        if asked.done() and not asked.cancelled() and (question := asked.result()):
            offers = can_ask(ctx) and question.id not in self._put_off
            return question_for(question) if offers else self._needs_approval(question)
        hint = "it is still running; call wait with this session_id"
        return {"status": "running", "session_id": session.session_id, "hint": hint}

    def _needs_approval(self, question: Approval) -> Answer:
        command = f"callboard approvals --log {shlex.quote(self._log)} --yes {shlex.quote(question.id)}"
        command += " --values JSON" if question.round else ""
        return {
            "status": "needs_approval",
            "session_id": question.session_id,
            "tool": question.tool,
            "arguments": question.arguments_json[:4_000],
            **({"forms": question.forms} if question.round else {}),
            "hint": f"a person decides, in a terminal: {command} (or --no); then call wait",
        }


def _seen(task: "asyncio.Task[object]") -> None:
    """Mark an error as seen: the client that would hear of it may have left."""
    if not task.cancelled():
        task.exception()


async def _question(session: Session) -> Approval | None:
    """Return the first open question of a session to a person, once there is one."""
    async for question in session.approvals():
        return question
    return None


def _name_of(request_id: str) -> str:
    """Return the session of a request that names none: the same for the same request, in every process."""
    if not request_id:
        return ""
    return f"mcp-{hashlib.blake2b(request_id.encode(), digest_size=10).hexdigest()}"


def _answer(outcome: Outcome, start: int = 0) -> Answer:
    text = outcome.text if outcome.report is None else msgspec.json.encode(outcome.report).decode()
    kept = text[start : start + RESULT_CHARS]
    following = start + len(kept)
    hint = f"the text is cut; call wait with start={following}" if following < len(text) else ""
    return {
        "status": outcome.status,
        "kind": outcome.kind,
        "session_id": outcome.session_id,
        "text": kept,
        **({"detail": outcome.detail} if outcome.detail else {}),
        **({"hint": hint} if hint else {}),
    }


def can_ask(ctx: "Context | None") -> bool:
    """Return whether the client of a call can put a form to its user."""
    if ctx is None or ctx.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    able = ctx.client_capabilities
    return able is not None and able.elicitation is not None


def question_for(question: Approval) -> types.InputRequiredResult:
    """Return the result by which a client asks its user about a call."""
    forms = forms_of(question.forms_json)
    requests: dict[str, types.InputRequest] = {form.name: _form(question, form) for form in forms}
    if not requests:
        message = f"{_who(question)} with {question.arguments_json[:_SHOWN_CHARS]}"
        requests = {_DECISION: _asked(message, _DECIDE)}
    return types.InputRequiredResult(input_requests=requests, request_state=question.id)


def _form(question: Approval, form: Form) -> types.ElicitRequest:
    message = f"{_who(question)}, which asks for input: {form.message}"[:_SHOWN_CHARS]
    if form.schema is not None:
        return _asked(message, form.schema)
    return types.ElicitRequest(params=types.ElicitRequestURLParams(message=message, url=form.url))


def _asked(message: str, schema: dict[str, object]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _who(question: Approval) -> str:
    again = " again, which was interrupted and may have taken effect" if question.is_repeat else ""
    return f"Agent {question.address} wants to call {question.tool}{again} (effect {question.effect})"


def settle(question: Approval, answers: types.InputResponses) -> bool:
    """Answer a question with what the user of a client said. Return False if the user put it off.

    Raises MisuseError for values that do not fit.
    """
    given = {name: one for name, one in answers.items() if isinstance(one, types.ElicitResult)}
    actions = {one.action for one in given.values()}
    if "decline" in actions:
        return question.deny(by=BY)
    if actions != {"accept"}:
        return False
    values = {name: dict(one.content or {}) for name, one in given.items()}
    if question.round:
        return question.approve(by=BY, values=values)
    return _decided(question, values.get(_DECISION, {}))


def _decided(question: Approval, said: Mapping[str, object]) -> bool:
    if said.get("decision") == "allow":
        return question.approve(by=BY)
    return question.deny(str(said.get("note") or ""), by=BY)
