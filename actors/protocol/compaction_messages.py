"""The messages of a compaction, and its texts: the line of a cleared result, the words about a summary.

A compaction takes effect, or its summary does not fit the budget. The texts are part of the rules, as those
of `prompts` are.
"""

from typing import Final, Literal, final

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


CLEARED: Final = "[cleared to save context: "
INSTRUCTIONS: Final = (
    "The messages up to here are about to be replaced by a summary that you write now. Apart from the prompt "
    "it is all that remains of them. Write down what you need to go on: what was asked, decisions and their "
    "reasons, facts with their exact names, paths, numbers and ids, what was changed, errors and how they "
    "were solved, and what is left to do. Call no tool. Answer with the summary only."
)
SUMMARY: Final = "Summary of the conversation before, which it replaces:\n"


def request_for_summary(instructions: str) -> str:
    """Return the text that asks for a summary. instructions: of the agent, empty for the usual ones."""
    return instructions or INSTRUCTIONS


def cleared_result(tool: str, size: int, *, is_read: bool) -> str:
    """Return the line that stands for a result. size: its bytes. is_read: the call has no effect."""
    again = (
        "Call it again with the same arguments if you need the result."
        if is_read
        else "The call has been made; do not repeat it for its result."
    )
    return f"{CLEARED}the result of {tool[:100]}, {size:,} bytes. {again}]"
