"""The conversation of one agent in the traffic, as the enactment is told of it.

A *round* is one assistant's message with all that came before the next one: the results of its calls, words
of the user, the end of the work. It is enacted when it is complete, so that a message that was written in
pieces is one reply, and words that came beside results are in the request that they were in.

    idle        words are kept, and become the next prompt when the assistant answers
    at work     words are told to the agent before the last result: its next request has both

Rules
  - The result of a call that began a sub-agent is not handed over: its end is the result. Rounds of
    sub-agents come before it. One that has not ended by then ends with the result as its last words.
  - A call without a result is `interrupted`. A result without a call is left out, and named.
  - A reply that the program broke off, or that says nothing, ends the ask as `cancelled`.
  - The ways in which the traffic differs from the events stand beside the next reply (`differs`).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned, ToolStatus
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.imports.enactment import Enactment, text_of
from callboard.runtime.imports.pieces import joined, text_in
from callboard.runtime.imports.traffic import Block, Broken, Part, Returned, Said, Words
from callboard.runtime.models.failures import UNREPORTED
from callboard.runtime.sanitize import to_json

NO_PROMPT: Final = "(The traffic has no message here.)"
NO_RESULT: Final = "The traffic has no result of this call. Whether it took effect is not known."
NO_REPLY: Final = "its last reply is not in the traffic: these are the words that its caller read"
_LARGE: Final = "[Left out: it is too large]"
_DIFFERENCE_CHARS_MAX: Final = 20_000


class Round(msgspec.Struct, gc=False):
    """An assistant's message, and the lines before the next one."""

    said: Said
    then: list[Returned | Words | Broken] = []


class Thread:
    """The conversation of one agent.

    enacted: of its session. address: of the agent; empty until its parent's call has begun it. prefix: of the
    ids of asks. children: the conversations of sub-agents, by the ids of the calls that begin them.
    rounds: the number of the assistant's messages that were taken. marks: of each enacted one, the seq of
    the last event, and True if no ask ran then. left_out: the number of messages that came after its end.
    """

    def __init__(self, enacted: Enactment, address: str = "", prefix: str = "") -> None:
        self._enacted = enacted
        self.address = address
        self.children: dict[str, Thread] = {}
        self._prefix = prefix
        self._asks = 0
        self._tells = 0
        self._round: Round | None = None
        self._waiting: list[Round] = []
        self._words: list[Block] = []
        self._words_at = 0
        self.differs: list[str] = []
        self.left_out = 0
        self.has_ended = False
        self._last_id = ""
        self.rounds = 0
        self.marks: list[tuple[int, bool]] = []

    @property
    def is_host(self) -> bool:
        """Return True for the conversation with the user."""
        return self.address == "host"

    # --- the parts ------------------------------------------------------------------

    def take(self, part: Part) -> None:
        """Take the next part."""
        if isinstance(part, Said):
            self._take_said(part)
        elif self._round is not None:
            self._round.then.append(part)
        else:
            self._before_any(part)

    def _take_said(self, said: Said) -> None:
        if self._round is not None and said.id and said.id == self._round.said.id:
            joined(
                self._round.said, said, has_result=any(isinstance(one, Returned) for one in self._round.then)
            )
            return
        self.complete()
        if said.id and said.id == self._last_id:  # its first pieces were taken for the whole
            self.left_out += 1
            self._differ(f"a later piece of {said.id}: {text_in(said.blocks)}")
            return
        self._last_id = said.id
        self._round = Round(said, [])
        self.rounds += 1

    def _before_any(self, part: Returned | Words | Broken) -> None:
        if isinstance(part, Returned):
            self._enact_result(part)
        elif isinstance(part, Words):
            self._keep(part)
        else:
            self._break_off(part)

    def _keep(self, words: Words) -> None:
        if not self.is_host and not self._asks:  # the prompt of a sub-agent, which its parent gave it
            self._asks = 1
            return
        self._words_at = max(self._words_at, words.at)
        self._words += words.blocks

    # --- rounds ---------------------------------------------------------------------

    def complete(self) -> None:
        """Enact the round under way, or let it wait until the agent begins."""
        if self._round is not None:
            self._waiting.append(self._round)
            self._round = None
        self.run()

    def settle(self) -> None:
        """Enact the message under way if it has ended, or a call of it has a result."""
        if self._round is not None and (self._round.said.stop_reason or self._round.then):
            self.complete()

    def run(self, upto: int | None = None) -> None:
        """Enact the rounds that wait. upto: those that began up to this time; None for all."""
        while self._waiting and self.address and (upto is None or self._waiting[0].said.at <= upto):
            self._enact(self._waiting.pop(0))

    @property
    def next_at(self) -> int | None:
        """Return the time of the first round that waits; None for none."""
        return self._waiting[0].said.at if self._waiting and self.address else None

    @property
    def under_way(self) -> Said | None:
        """Return the message that is not complete yet; None for none."""
        return None if self._round is None else self._round.said

    def finish(self) -> None:
        """Enact all that was taken: no more comes for now."""
        self.complete()
        for child in [*self.children.values()]:
            child.finish()
        if self.is_host and self._words:
            self._ask(self._words_at)

    def _enact(self, one: Round) -> None:
        self._enact_round(one)
        self.marks.append((self._enacted.seq, not self._enacted.is_running))

    def _enact_round(self, one: Round) -> None:
        said = one.said
        if self.has_ended:
            self.left_out += 1
            return
        if not self._is_ready(said.at):
            self.has_ended = True
            self.left_out += 1
            return
        uses = [block for block in said.blocks if block.get("type") == "tool_use"]
        is_cut = not uses and any(isinstance(part, Broken) for part in one.then)
        if (is_cut or _is_blank(said)) and self.is_host:
            self._cut(one)
            return
        self._reply(said, uses)
        self._after(one, [str(use.get("id")) for use in uses])

    def _is_ready(self, at: int) -> bool:
        """Bring the agent to its model call. Return False for a sub-agent that has ended."""
        for call in self._enacted.open_calls(self.address):
            self._enacted.give(at, self.address, call, ToolReturned(0, 0, "interrupted", text_of(NO_RESULT)))
        for call, child in [*self._enacted.children_of(self.address).items()]:
            self.children[call].complete()
            if self._enacted.is_live(child):
                self._end_child(at, call, child, NO_RESULT)
        if not self._enacted.waits_for_reply(self.address) and self.is_host:
            self._ask(self._words_at or at)
        elif self._words and self.is_host:
            self._differ(f"these words came with the request: {text_in(self._words)}")
            self._words = []
        return self._enacted.waits_for_reply(self.address)

    def _ask(self, at: int) -> None:
        self._asks += 1
        blocks, self._words = self._words, []
        self._words_at = 0
        if not blocks:
            self._differ("no message of the user came before this reply")
        prompt = _prompt(blocks)
        self._enacted.ask(at, f"{self._prefix}{self._asks}", prompt)

    def _reply(self, said: Said, uses: list[Block]) -> None:
        replied = self._replied(said)
        self._enacted.reply(said.at, self.address, replied, [str(use.get("id")) for use in uses])
        for call, child in [*self._enacted.children_of(self.address).items()]:
            thread = self.children.get(call)
            if thread is None:
                thread = self.children[call] = Thread(self._enacted)
            thread.address = child

    def _replied(self, said: Said) -> ModelReplied:
        differs, self.differs = (*self.differs, *said.differs), []
        usage = UNREPORTED if said.usage is None else said.usage
        if said.failure:
            failure = ModelFailure("recorded_failure", said.failure[:1_000])
            return ModelReplied(
                0, status="error", usage=ZERO, failure=failure, model=said.model, differs=differs
            )
        return ModelReplied(
            0,
            content=_json(said.blocks or [{"type": "text", "text": ""}]),
            stop_reason=said.stop_reason,
            usage=usage,
            model=said.model,
            differs=differs,
        )

    def _cut(self, one: Round) -> None:
        """Enact a reply that was broken off before it had a call."""
        usual = Broken(one.said.at, "")
        broken = next((part for part in one.then if isinstance(part, Broken)), usual)
        at = max(one.said.at, broken.at)
        self._enacted.cancel(at, broken.words or "broken off", self.address, self._replied(one.said))
        for part in one.then:
            if isinstance(part, Words):
                self._keep(part)
            elif isinstance(part, Broken) and part.words:
                self._keep(Words(part.at, [{"type": "text", "text": part.words}]))

    # --- after a reply ----------------------------------------------------------------

    def _after(self, one: Round, uses: list[str]) -> None:
        """Enact the lines after a reply, in their order, with the rounds of sub-agents between."""
        last = _last_result(one.then)
        for place, part in enumerate(one.then):
            self._run_children(part.at)
            if isinstance(part, Returned):
                if place == last:
                    self._tell_all(one.then[place + 1 :], part.at)
                self._enact_result(part)
            elif isinstance(part, Broken):
                self._break_off(part)
            elif place > last and self._is_told(one.then, place):
                continue
            elif self._is_at_work(uses):
                self._tell(part, part.at)
            else:
                self._keep(part)

    def _is_told(self, then: list[Returned | Words | Broken], place: int) -> bool:
        """Return True for words behind the last result that were told before it."""
        return _last_result(then) >= 0 and not any(isinstance(one, Broken) for one in then[:place])

    def _tell_all(self, rest: Iterable[Part], at: int) -> None:
        for part in rest:
            if isinstance(part, Broken):
                return
            if isinstance(part, Words):
                self._tell(part, at)

    def _tell(self, words: Words, at: int) -> None:
        text = text_in(words.blocks)
        if not text.strip():
            return
        self._tells += 1
        self._enacted.tell(at, f"{self.address}-{self._prefix}w{self._tells}", self.address, text)

    def _is_at_work(self, uses: list[str]) -> bool:
        enacted = self._enacted
        is_live = any(map(enacted.is_live, enacted.children_of(self.address).values()))
        return bool(uses) and (is_live or bool(enacted.open_calls(self.address)))

    def _run_children(self, upto: int) -> None:
        """Enact the rounds of all sub-agents that began up to a time, in the order of their times."""
        while True:
            ready = [one for one in self.family() if one.next_at is not None and one.next_at <= upto]
            if not ready:
                return
            first = min(ready, key=lambda one: one.next_at or 0)
            first._enact(first._waiting.pop(0))

    def family(self) -> list["Thread"]:
        """Return the threads of all sub-agents below this one."""
        return [one for child in self.children.values() for one in (child, *child.family())]

    def _enact_result(self, part: Returned) -> None:
        child = self._enacted.child_of(self.address, part.call)
        if child:
            self._end_child(part.at, part.call, child, text_in(part.content), is_error=part.is_error)
            return
        status: ToolStatus = "error" if part.is_error else "ok"
        given = ToolReturned(0, 0, status, _output(part.content))
        if not self._enacted.give(part.at, self.address, part.call, given):
            self._differ(f"a result without an open call, {part.call}: {text_in(part.content)}")

    def _end_child(self, at: int, call: str, child: str, text: str, *, is_error: bool = False) -> None:
        """End the sub-agent of a call, if it has not ended. text: that its caller read."""
        thread = self.children[call]
        thread.complete()
        enacted = self._enacted
        said = thread.said_last
        del enacted.children_of(self.address)[call]
        if not enacted.is_live(child):
            if said != text:
                self._differ(f"the result of {call} was: {text}")
            return
        for grandchild_call, grandchild in [*enacted.children_of(child).items()]:
            thread._end_child(at, grandchild_call, grandchild, NO_RESULT)
        for one in enacted.open_calls(child):
            enacted.give(at, child, one, ToolReturned(0, 0, "interrupted", text_of(NO_RESULT)))
        if enacted.waits_for_reply(child):
            last = Said(at, [{"type": "text", "text": text or NO_RESULT}], usage=ZERO)
            if is_error:
                last.failure = text or "it failed"
            thread.differs.append(NO_REPLY)
            enacted.reply(at, child, thread._replied(last))
        thread.has_ended = True

    def _break_off(self, part: Broken) -> None:
        if self.is_host and self._enacted.is_running:
            self._enacted.cancel(part.at, part.words or "broken off")
        if part.words:
            self._keep(Words(part.at, [{"type": "text", "text": part.words}]))

    @property
    def said_last(self) -> str:
        """Return the last text of the agent; empty before its first reply."""
        return self._enacted.last_text(self.address)

    def _differ(self, how: str) -> None:
        self.differs.append(how[:_DIFFERENCE_CHARS_MAX])


def _is_blank(said: Said) -> bool:
    """Return True for a reply with neither words nor calls: it was broken off before them."""
    if said.failure:
        return False
    kinds = {block.get("type") for block in said.blocks}
    return "tool_use" not in kinds and not text_in([one for one in said.blocks if one.get("text")]).strip()


def _last_result(then: list[Returned | Words | Broken]) -> int:
    """Return the place of the last result; -1 for none."""
    return max((place for place, one in enumerate(then) if isinstance(one, Returned)), default=-1)


def _json(value: object) -> Json:
    try:
        return to_json(value)
    except InvalidPrompt:
        return to_json([{"type": "text", "text": _LARGE}])


def _output(content: str | list[Block]) -> Json:
    try:
        return to_json(content)
    except InvalidPrompt:
        return text_of(_LARGE)


def _prompt(blocks: list[Block]) -> Json:
    if not blocks:
        return text_of(NO_PROMPT)
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        return _output(str(blocks[0].get("text")))
    return _output(blocks)
