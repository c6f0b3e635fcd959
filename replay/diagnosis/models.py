"""Checks of model calls and of delegations.

A check of model calls: another model answered than the agent was to ask.

Checks of model calls that used more than they were granted, and of those that told no figures.

A check of delegations: one task that a parent gave again after it had failed.

A guess about sub-agents that ended with a question: their parent neither answered it nor passed it on.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.wishes import wish_in
from callboard.replay.diagnosis.finding import GROUPED, Finding, is_at_or_below
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported


class OtherModels:
    """Agents with replies of another model than their first one: of a fallback, or as the service says.

    A service may have another name for a model, with a date or a version. Its first name for one counts as
    the same model, unless the session knows that name as another model.
    """

    kinds: ClassVar = frozenset({"Begin", "TurnRequested", "CallModel", "ModelReplied"})

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._known: set[str] = set()
        self._usual: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._found: dict[tuple[str, str], tuple[int, int, int, str]] = {}

    def take(self, event: Event) -> None:
        """Take in the model of an agent, a request or a reply."""
        body = event.body
        if type(body) is ModelReplied:
            if body.status != "ok":
                self._failed[event.recipient] = body.failure.code if body.failure is not None else body.status
            else:
                self._reply(event, body)
        elif (turn := body if type(body) is TurnRequested else wish_in(body)) is not None:
            self._asked[event.sender] = turn.model or self._first.get(event.sender, "")
        elif isinstance(body, Begin) and not body.model.is_program:
            self._first[event.recipient] = body.model.name
            self._known |= {body.model.name, *(one.name for one in body.model.fallback)}

    def _reply(self, event: Event, body: ModelReplied) -> None:
        agent = event.recipient
        asked, first = self._asked.get(agent, ""), self._first.get(agent, "")
        name = body.model or asked
        if not first or (asked == first and (name == asked or self._is_same(asked, name))):
            return
        new = event.seq, body.turn, 0, self._failed.get(agent, "")
        seq, turn, count, why = self._found.get((agent, name), new)
        self._found[agent, name] = seq, turn, count + 1, why

    def _is_same(self, asked: str, name: str) -> bool:
        if name.startswith(asked) or asked.startswith(name):
            return True
        return name not in self._known and self._usual.setdefault(asked, name) == name

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each agent and model."""
        for (agent, name), (seq, turn, count, why) in self._found.items():
            turns = f"{count:,} turns from {turn} on" if count > 1 else f"turn {turn}"
            after = f", after {why}" if why else ""
            says = f"{agent} was to ask {self._first[agent]}, and {name} answered {turns}{after}"
            yield Finding("other_model", seq, agent, says, "request {at}")


class AboveNeed:
    """Answers above the need of their call. They are charged in full, so a budget may be exceeded by them."""

    kinds: ClassVar = frozenset({"TurnRequested", "CallModel", "ModelReplied"})

    def __init__(self) -> None:
        self._needs: dict[str, int] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a request or its answer."""
        body = event.body
        if type(body) is not ModelReplied:
            if (turn := body if type(body) is TurnRequested else wish_in(body)) is not None:
                self._needs[event.sender] = turn.need.tokens
        elif body.usage is not None:
            need = self._needs.get(event.recipient, 0)
            if 0 < need < body.usage.tokens:
                who = f"turn {body.turn} of {event.recipient}"
                says = f"{who} used {body.usage.tokens:,} tokens, and {need:,} were the most that it needed"
                self._found.append(Finding("above_need", event.seq, event.recipient, says))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


class ChargedCalls:
    """Asks with several calls that told no figures, and that cost at least as much as all others."""

    kinds: ClassVar = frozenset({"ModelReplied", "AskEnded"})

    def __init__(self) -> None:
        self._lost: list[tuple[int, str]] = []
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a reply without figures, or the sum of an ask."""
        body = event.body
        if isinstance(body, AskEnded):
            self._sum(event.seq, body.usage)
        elif type(body) is ModelReplied and body.usage is None and body.status in ("error", "lost"):
            self._lost.append((event.seq, event.recipient))  # not one of the losers of a race

    def _sum(self, seq: int, usage: Usage) -> None:
        lost, self._lost = self._lost, []
        if len(lost) >= TRIES_MIN and usage.tokens <= 2 * usage.charged_tokens:
            share, (first, agent) = usage.charged_tokens / usage.tokens, lost[0]
            says = (
                f"{share:.0%} of the {usage.tokens:,} tokens of this ask were charged for calls without "
                f"figures, each with its whole reservation; one of {agent} ({first}) was the first"
            )
            self._found.append(Finding("charged_calls", seq, HOST, says, GROUPED + agent))

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


TRIES_MIN: Final = 3
"""Tries of a task, or lost answers, that are a finding; two tries are if they took half of the tokens."""

_SHARE_MIN: Final = 0.5
_ALIKE: Final = 0.6  # the share of words that two prompts of one task have in common
_WORD: Final = re.compile(r"[^\W_]+")


def words_of(body: Delegate) -> frozenset[str]:
    """Return the words of a task's prompt, in one case."""
    return frozenset(_WORD.findall(bytes(body.prompt).decode().casefold()))


def is_one_task(words: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether two prompts give one task: most words are the same, and all with digits."""
    both, common = words | others, words & others
    # Names and numbers tell one task from its siblings: "refund of A-1", "refund of A-2".
    is_same_subject = not any(any(map(str.isdigit, word)) for word in both - common)
    return is_same_subject and len(common) >= _ALIKE * len(both)


@dataclass
class _Task:
    """A task, and its tries: the addresses of those that have ended, and the seq of the first end."""

    parent: str
    profiles: tuple[str, ...]
    words: frozenset[str]
    seq: int = 0
    tries: list[str] = field(default_factory=list)
    is_failed: bool = False

    def is_again(self, body: Delegate, parent: str, words: frozenset[str]) -> bool:
        """Return whether a delegation gives this task again: it failed, and nearly the same is asked for."""
        is_of_same = (self.parent, self.profiles) == (parent, body.profiles)
        return self.is_failed and is_of_same and is_one_task(self.words, words)


class Retries:
    """Tasks that were given again after they had failed: by which parent, how often, for how many tokens."""

    kinds: ClassVar = frozenset({"Delegate", "DelegationEnded", "ModelReplied"})

    def __init__(self) -> None:
        self._tasks: list[_Task] = []
        self._open: dict[tuple[str, int, int], _Task] = {}
        self._tokens: Counter[str] = Counter()

    def take(self, event: Event) -> None:
        """Take in a delegation, its end, or a reply that was paid."""
        body = event.body
        if type(body) is ModelReplied:
            if body.usage is not None:
                self._tokens[event.recipient] += body.usage.tokens
        elif isinstance(body, Delegate):
            words = words_of(body)
            known = (task for task in self._tasks if task.is_again(body, event.sender, words))
            task = next(known, None) or _Task(event.sender, body.profiles, words)
            task.is_failed = False
            self._open[event.sender, body.turn, body.call] = task
        elif isinstance(body, DelegationEnded):
            self._end(event, body)

    def _end(self, event: Event, body: DelegationEnded) -> None:
        task = self._open.pop((event.recipient, body.turn, body.call), None)
        if task is None or not body.address:
            return
        task.tries.append(body.address)
        if STATUS[body.kind] == "failed" and body.kind != "denied":
            task.is_failed = True
            if not task.seq:
                task.seq = event.seq
                self._tasks.append(task)

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each task."""
        total = sum(self._tokens.values())
        for task in self._tasks:
            tokens = sum(map(self._tokens_below, task.tries))
            share = tokens / total if total else 0
            is_in_vain = task.is_failed and len(task.tries) > 1 and share >= _SHARE_MIN
            if len(task.tries) >= TRIES_MIN or is_in_vain:
                says = (
                    f"{task.parent} gave one task {len(task.tries):,} times, to {', '.join(task.tries)}: "
                    f"{tokens:,} of {total:,} tokens, {share:.0%}"
                )
                yield Finding(
                    "retried", task.seq, task.parent, says, "show {session} --budget", tuple(task.tries)
                )

    def _tokens_below(self, agent: str) -> int:
        return sum(count for one, count in self._tokens.items() if is_at_or_below(one, agent))


_MARK: Final = "?\uff1f\u061f\u037e"  # of Latin, Chinese, Arabic and Greek
_SENTENCE: Final = re.compile(rf"[^.!\u3002\n{_MARK}]+[.!\u3002\n{_MARK}]*")
_CHARS: Final = 80
_QUESTIONS_MIN: Final = (
    0.5  # of an answer that is questions: more offer is no answer than "Done. Shall I go on?"
)


class AskedBack:
    """Sub-agents whose answer is a question that no later delegation and no answer of the parent takes up."""

    kinds: ClassVar = frozenset({"Delegate", "DelegationEnded", "AskEnded"})

    def __init__(self) -> None:
        self._asked: dict[str, list[Finding]] = {}
        self._found: list[Finding] = []

    def take(self, event: Event) -> None:
        """Take in a delegation or an end."""
        body = event.body
        if isinstance(body, Delegate):
            self._asked.pop(event.sender, None)
        elif isinstance(body, DelegationEnded):
            said = _said(event)
            self._end(body.address, said)
            if STATUS[body.kind] == "ok" and (question := _question(said)):
                parent = event.recipient
                says = f"{body.address} ended with a question, which {parent} did not answer: {question}"
                found = Finding(
                    "asked_back",
                    event.seq,
                    body.address,
                    says,
                    GROUPED + parent,
                )
                self._asked.setdefault(parent, []).append(found)
        elif isinstance(body, AskEnded):
            self._end(HOST, body.text)

    def _end(self, agent: str, said: str) -> None:
        asked = self._asked.pop(agent, [])
        if not any(mark in said for mark in _MARK):
            self._found += asked

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        yield from self._found


def _said(event: Event) -> str:
    """Return an answer; of a report that is one text, the text; else nothing."""
    if isinstance(event.body, DelegationEnded) and event.body.kind == "answered":
        return event.body.text
    texts = [leaf for _, leaf in leaves(reported(event), "") if leaf not in (None, False, 0, "")]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else ""


def _question(said: str) -> str:
    """Return the last sentence of an answer that is a question; nothing for another answer."""
    if said.rstrip()[-1:] not in tuple(_MARK):
        return ""
    sentences = [found[0].strip() for found in _SENTENCE.finditer(said)]
    asked = [one for one in sentences if one.endswith(tuple(_MARK))]
    is_question = sum(map(len, asked)) >= _QUESTIONS_MIN * sum(map(len, sentences))
    return " ".join(asked[-1].split())[:_CHARS] if is_question else ""
