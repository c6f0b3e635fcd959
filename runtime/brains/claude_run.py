"""One run of a Claude client: its wishes become asks of a program, and recorded answers are given again.

The program of the run has no thoughts of its own. In each step it asks for what the client wished for since
the last one; executed again, for what the log says. The client is started again beside it, and its wishes
are matched with the recorded asks by their content and their order.

Rules
  - A wish that matches a recorded ask gets that ask's answer, or waits for it.
  - A new wish while recorded asks are left is a divergence: the client or its options have changed.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, get_args

import msgspec

from callboard.actors.protocol.endings import OwnKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.runtime.brains.common import LATCHED
from callboard.runtime.programs.asks import VALUE_DEPTH_MAX, Answer, Ask, ProgramFailed
from callboard.runtime.programs.kept_requests import Written, reply_message
from callboard.runtime.programs.replaying import ProgramDiverged
from callboard.runtime.programs.run import ProgramRun
from callboard.runtime.sanitize import to_json

_SHOWN_CHARS: Final = 120


class Wish(NamedTuple):
    """A request of the client, or a call of one of its tools. recorded: its id in the log; empty for none."""

    name: str
    input: Json = NULL
    request: Written | None = None
    recorded: str = ""

    @property
    def key(self) -> bytes:
        """Return the digest-like bytes that equal wishes share."""
        if self.request is None:
            return self.name.encode() + b"\0" + _sorted(self.input)
        parts = (*self.request.messages, *self.request.tools, self.request.system)
        return b"\0".join([self.name.encode(), *map(_sorted, parts), str(self.request.max_tokens).encode()])

    def __str__(self) -> str:
        if self.request is None:
            return f"{self.name}({bytes(self.input).decode()[:_SHOWN_CHARS]})"
        return f"a request of {len(self.request.messages)} messages"


def _sorted(value: Json) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(value), order="sorted")


class ClientRun:
    """The wishes of a client, their asks and their answers. moved: set after each wish."""

    def __init__(self) -> None:
        self.moved = asyncio.Event()
        self.diverged: ProgramDiverged | None = None
        self.refusal: ProgramFailed | None = None
        self.step = 0
        self._new: list[tuple[Wish, asyncio.Future[Answer]]] = []
        self._again: list[Wish] = []
        self._wishes: dict[str, Wish] = {}
        self._left: dict[bytes, list[str]] = {}
        self._answers: dict[str, Answer] = {}
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._messages: dict[bytes, Json] = {}
        self._ending: tuple[Any, BaseException | None] | None = None

    @property
    def has_new(self) -> bool:
        """Return True if there are wishes that no step has."""
        return bool(self._new)

    @property
    def is_waiting(self) -> bool:
        """Return True if an ask of the client is open."""
        return any(not future.done() for future in self._waiting.values())

    def end(self, value: object, error: BaseException | None = None) -> None:
        """Let the program return in its next step, or raise."""
        self._ending = value, error

    # --- for the client -----------------------------------------------------------------

    async def ask(self, request: Written) -> Answer:
        """Put a question. Raises ProgramDiverged."""
        messages = tuple(self._messages.setdefault(_sorted(said), said) for said in request.messages)
        return await self._wish(Wish(ASK_MODEL, request=request._replace(messages=messages)))

    async def call(self, name: str, arguments: dict[str, object]) -> Answer:
        """Call a tool. Raises ProgramDiverged."""
        given = to_json(arguments, max_depth=VALUE_DEPTH_MAX, what=f"The arguments of {name}")
        return await self._wish(Wish(name, given))

    async def _wish(self, wish: Wish) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        known = self._left.get(wish.key)
        if known:
            self._attach(known.pop(0), future)
        elif left := [ask for asks in self._left.values() for ask in asks]:
            self.diverged = ProgramDiverged(self.step, self._shown(left[0], wish), str(wish))
        else:
            self._new.append((wish, future))
        self.moved.set()
        if self.diverged is not None:
            raise self.diverged
        return await future

    def _attach(self, ask: str, future: "asyncio.Future[Answer]") -> None:
        if ask in self._answers:
            future.set_result(self._answers[ask])
        else:
            self._waiting[ask] = future

    def _shown(self, ask: str, now: Wish) -> str:
        """Return a recorded ask, and the first message in which it is another one."""
        was = self._wishes[ask]
        if was.request is None or now.request is None:
            return str(was)
        pairs = zip(was.request.messages, now.request.messages, strict=False)
        for place, (one, other) in enumerate(pairs):
            if _sorted(one) != _sorted(other):
                return f"{was}, whose messages[{place}] is {bytes(one).decode()[:_SHOWN_CHARS]}"
        if len(was.request.messages) != len(now.request.messages):
            return str(was)
        return f"{was} with another system prompt, other tools or another max_tokens"

    # --- for the steps ------------------------------------------------------------------

    def give(self, answers: Iterable[Answer]) -> None:
        """Hand answers to the client, and note a refusal that ends the run."""
        for answer in answers:
            self._answers[answer.tool_use_id] = answer
            wish = self._wishes.get(answer.tool_use_id)
            if wish is not None and wish.request is not None:
                self._note_reply(answer)
            future = self._waiting.pop(answer.tool_use_id, None)
            if future is not None and not future.done():
                future.set_result(answer)

    def _note_reply(self, answer: Answer) -> None:
        if answer.reply is not None and not answer.is_error:
            said = Json(reply_message(msgspec.json.decode(answer.value)))
            self._messages.setdefault(_sorted(said), said)
        elif self.refusal is None or answer.status in LATCHED:
            kind: Any = answer.status if answer.status in get_args(OwnKind) else "model_error"
            self.refusal = ProgramFailed(answer.text or f"the question ended as {answer.status}", kind)

    def record(self, asks: Iterable[Ask]) -> None:
        """Let the program ask, in its next step, what the log says that it asked."""
        for ask in asks:
            wish = Wish(ask.name, ask.input, self._request_in(ask), ask.id)
            self._again.append(wish)
            self._wishes[ask.id] = wish
            self._left.setdefault(wish.key, []).append(ask.id)

    def _request_in(self, ask: Ask) -> Written | None:
        """Return the whole request of a recorded question."""
        if ask.name != ASK_MODEL:
            return None
        given = msgspec.json.decode(ask.input, type=_Question)
        messages: list[Json] = []
        for item in given.messages:
            if not bytes(item).startswith(b"["):
                messages.append(Json(bytes(item)))
                self._messages.setdefault(_sorted(messages[-1]), messages[-1])
                continue
            other, start, end = msgspec.json.decode(item, type=tuple[str, int, int])
            messages += self._conversation(other)[start:end]
        like = self._wishes[given.like].request if given.like else None
        if like is not None:
            return like._replace(
                messages=tuple(messages), force_tool=given.force_tool, max_tokens=given.max_tokens
            )
        return Written(
            tuple(messages),
            Json(bytes(given.system)) if given.system else NULL,
            tuple(Json(bytes(tool)) for tool in given.tools),
            Json(bytes(given.settings)) if given.settings else NULL,
            given.force_tool,
            given.max_tokens,
        )

    def _conversation(self, ask: str) -> list[Json]:
        request = self._wishes[ask].request
        assert request is not None  # only questions are referred to
        answer = self._answers.get(ask)
        if answer is None or answer.reply is None:
            return [*request.messages]
        return [*request.messages, Json(reply_message(msgspec.json.decode(answer.value)))]

    # --- the program --------------------------------------------------------------------

    async def main(self, run: ProgramRun) -> object:
        """Ask for the wishes of each step, until the client ends. Raises the error that it ended by."""
        open_asks: set[asyncio.Task[None]] = set()
        while True:
            for wish, future in [*((wish, None) for wish in self._again), *self._new]:
                task = asyncio.create_task(self._asked(run, wish, future))
                open_asks.add(task)
            self._again, self._new = [], []
            if self._ending is not None:
                value, error = self._ending
                for task in open_asks:
                    task.cancel()
                if error is not None:
                    raise error
                return value
            await asyncio.sleep(0)  # the asks of this step are made
            if not open_asks:
                raise RuntimeError("the client has ended without a result")
            _, open_asks = await asyncio.wait(open_asks, return_when=asyncio.FIRST_COMPLETED)

    async def _asked(self, run: ProgramRun, wish: Wish, future: "asyncio.Future[Answer] | None") -> None:
        given = wish.input
        if wish.request is not None and not wish.recorded:
            given = to_json(
                run.requests.arguments(wish.request), max_depth=VALUE_DEPTH_MAX, what="The request"
            )
        ask, answer = run.ask(wish.name, given)
        if wish.request is not None:
            run.requests.ask(ask, wish.request)
        self._wishes[ask] = wish
        if future is not None:
            self._waiting[ask] = future
        try:
            await answer
        finally:
            run.release(ask)


class _Question(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw]
    system: msgspec.Raw = msgspec.Raw(b"")
    tools: list[msgspec.Raw] = []
    settings: msgspec.Raw = msgspec.Raw(b"")
    like: str = ""
    force_tool: str = ""
    max_tokens: int = 0
