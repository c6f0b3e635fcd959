"""A guess about sub-agents that ended with a question: their parent neither answered it nor passed it on."""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.json_values import leaves
from callboard.replay.reports import reported

_MARK: Final = "?\uff1f\u061f\u037e"  # of Latin, Chinese, Arabic and Greek
_SENTENCE: Final = re.compile(rf"[^.!\u3002\n{_MARK}]+[.!\u3002\n{_MARK}]*")
_CHARS: Final = 80
_SHARE_MIN: Final = 0.5  # of an answer that is questions: more offer is no answer than "Done. Shall I go on?"


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
                    f"events {{session}} --grouped --actor {parent}",
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
    is_question = sum(map(len, asked)) >= _SHARE_MIN * sum(map(len, sentences))
    return " ".join(asked[-1].split())[:_CHARS] if is_question else ""
