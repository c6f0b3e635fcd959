"""The messages of a compaction: it takes effect, or its summary does not fit the budget."""

from typing import Literal, final

from callboard.actors.protocol.immutable import Message


@final
class Compacted(Message, frozen=True):
    """A conversation becomes shorter. An agent posts this to itself, and the change takes effect with it.

    upto: the messages that are shortened, counted from the first one. kept: the messages behind them, which
    stay as they are.
    by: `clear` if old results have become one line each, `summary` if a summary stands in place of the
    messages.
    summary: the seq of the `ModelReplied` that holds the summary, 0 for none.
    results: the number of cleared results. thoughts: the number of replies whose thinking has gone.
    before, after: the bounds on the input of the next request, in tokens, without the new message.
    """

    upto: int
    kept: int
    by: Literal["clear", "summary"]
    summary: int = 0
    results: int = 0
    thoughts: int = 0
    before: int = 0
    after: int = 0


@final
class SummaryRefused(Message, frozen=True):
    """The turn of a summary does not fit the budget. Its agent only clears results from now on."""

    turn: int
    detail: str = ""
