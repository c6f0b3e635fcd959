"""A check of delegations: one task that a parent gave again after it had failed."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final

from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.diagnosis.finding import Finding, is_at_or_below

TRIES_MIN: Final = 3
"""Tries of one task that are a finding; two are one if they took half of the tokens, and both failed."""

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
