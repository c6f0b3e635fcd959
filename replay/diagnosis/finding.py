"""A finding of the diagnosis, and the interface of the checks that make them."""

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from callboard.actors.protocol.events import Event

FindingKind: TypeAlias = Literal[
    "failed_ask",
    "failed_below_ok",
    "refused",
    "refused_call",
    "loop",
    "retried",
    "sent_again",
    "in_doubt",
    "repeated_error",
    "changed_approval",
    "other_model",
    "unheard_word",
    "late_report",
    "refused_replies",
    "lost_cache",
    "above_need",
    "cut_answer",
    "empty_answer",
    "other_way",
    "wrong_id",
    "overwritten",
    "late_word",
    "stale_read",
    "defaulted",
    "untold_error",
    "asked_back",
    "repeated_effect",
    "outlier",
    "unused_report",
    "same_answers",
]
"""The kinds of findings, in the order of the report."""

MAYBE: frozenset[FindingKind] = frozenset(
    {
        *("late_word", "stale_read", "defaulted", "untold_error", "repeated_effect", "outlier"),
        *(
            "unused_report",
            "same_answers",
            "sent_again",
            "other_way",
            "wrong_id",
            "overwritten",
            "asked_back",
        ),
    }
)
"""The kinds that are guesses. All others are facts."""


class Finding(NamedTuple):
    """One cause that a person should look at.

    seq: of the event that shows it. agent: the address of the agent it is about. says: one sentence. command:
    the next one to run, a sub-command of `callboard` with `{at}` for SESSION#SEQ and `{session}` for SESSION.
    ends: the agents whose end it tells of, or explains. An end that another finding explains is told with it.
    """

    kind: FindingKind
    seq: int
    agent: str
    says: str
    command: str = "why {at}"
    ends: tuple[str, ...] = ()

    @property
    def is_maybe(self) -> bool:
        """Return whether this is a guess."""
        return self.kind in MAYBE


def is_at_or_below(agent: str, other: str) -> bool:
    """Return whether an agent is another one, or a sub-agent at any depth of it."""
    return agent == other or agent.startswith(f"{other}.")


class Taker(Protocol):
    """A reader of the events of some kinds, in order."""

    kinds: ClassVar[frozenset[str]]

    def take(self, event: Event) -> None:
        """Add the next event."""


class Check(Taker, Protocol):
    """A check of one session. It is given the events of its kinds, in order, and then asked."""

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, after the last event."""
