"""Words for the running agents of a session, each heard in one turn or refused; and cancels of one agent."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from callboard.actors.protocol.client_messages import Cancel, Tell, TellEnded
from callboard.actors.protocol.errors import InvalidPrompt, MisuseError, TellRefused
from callboard.runtime.agent import checked_name
from callboard.runtime.clock import new_request_id
from callboard.runtime.label_names import labels_of
from callboard.runtime.sanitize import clean_text
from callboard.runtime.sessions.detaching import ProcessLife
from callboard.runtime.sessions.instances import profile_at
from callboard.runtime.sessions.session_life import SessionLife
from callboard.runtime.sessions.session_sleep import Rest

TELL_CHARS_MAX: Final = 16_000
"""The longest text for an agent: it goes into a request beside what the agent reads anyway."""


class SessionTells(SessionLife):
    """The part of a session that passes words on to its agents."""

    def __init__(self, session_id: str, rest: Rest, life: ProcessLife) -> None:
        super().__init__(session_id, rest, life)
        self._tells: dict[str, asyncio.Future[TellEnded]] = {}

    async def tell(
        self, address: str, text: str, *, request_id: str | None = None, labels: Sequence[str] = ()
    ) -> int:
        """Say something to a running agent. Return the number of the agent's turn whose model reads it.

        The text goes into the agent's next new request, after the results of its calls. Returns once that
        request is granted, durable by then.

        address: of one agent, such as `host` or `host.1`. text: at most 16,000 characters.
        request_id: a name for these words. The same name again returns the same turn and says nothing.
        labels: of the words, such as `untrusted` (docs/permissions.md).

        Raises TellRefused if there is no such running agent, or if it ends before it reads the text;
        InvalidPrompt for an unusable text, MisuseError for another address than a text or on another event
        loop, SessionEnded after the end, SessionDetached if this process leaves the session, SessionFailed if
        the log cannot be written.
        """
        self._check_loop()
        name = checked_name("request_id", request_id or "") or new_request_id()
        if name not in self._tells:
            body = Tell(name, _address(address), _text(text), labels_of(labels))
            self._stay()
            await self._awake()
            self._submit_tell(body)
        ended = await asyncio.shield(self._tells[name])
        if ended.status == "refused":
            raise TellRefused(f"the message was not read: {ended.detail}")
        return ended.turn

    async def cancel_agent(self, address: str, reason: str = "") -> bool:
        """Stop one running agent and all agents below it. Return False if no such agent runs.

        The agent that delegated to it reads that the delegation was cancelled, and the ask goes on; `host`
        is the agent of the whole ask. Returns once the cancel is durable.

        address: such as `host.1`. Raises MisuseError for another address than a text or on another event
        loop, SessionDetached if this process leaves the session, SessionEnded, SessionFailed.
        """
        self._check_loop()
        name = _address(address)
        await self._awake()
        self._check_open()
        if profile_at(self._board.core.states, name) is None:
            return False
        self._board.submit_for_client(Cancel(clean_text(reason), name))
        await self._board.durable()
        if self._board.error is not None:
            raise self._board.error
        return True

    def _submit_tell(self, body: Tell) -> None:
        if body.request_id in self._tells:  # by another caller, while this one waited for the session
            return
        self._check_open()
        self._board.secrets.refuse_in("request_id", body.request_id)
        self._tells[body.request_id] = self._loop.create_future()
        self._board.submit_for_client(body)

    def _remember_tells(self, tells: Mapping[str, TellEnded | None]) -> None:
        """Take over the words of an earlier process, by request id; None for those without an end."""
        for name, ended in tells.items():
            future = self._tells.setdefault(name, self._loop.create_future())
            if ended is not None and not future.done():
                future.set_result(ended)

    def _end_tell(self, ended: TellEnded) -> None:
        future = self._tells.get(ended.request_id)
        if future is not None and not future.done():
            future.set_result(ended)

    def _may_sleep(self) -> bool:
        return super()._may_sleep() and all(future.done() for future in self._tells.values())

    def _fail_waiters(self, error: BaseException) -> None:
        super()._fail_waiters(error)
        for future in self._tells.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as seen


def _address(address: object) -> str:
    """Return the address of one agent. Raises MisuseError for anything but a text."""
    if not isinstance(address, str):
        raise MisuseError(f"address={address!r:.80}: tell one agent at a time, such as 'host.1'")
    return clean_text(address)[:200]


def _text(text: object) -> str:
    """Return the words as clean text. Raises InvalidPrompt for an empty or too long one."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidPrompt(f"a message to an agent is a text that is not empty, not {text!r:.80}")
    if len(text) > TELL_CHARS_MAX:
        raise InvalidPrompt(
            f"a message to an agent has at most {TELL_CHARS_MAX:,} characters, and this one has "
            f"{len(text):,}; write it to a file that its tools can read, and send the path"
        )
    return clean_text(text)
