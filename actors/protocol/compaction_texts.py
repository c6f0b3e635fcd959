"""The texts of a compaction: the line that stands for a cleared result, and the words about a summary.

These texts are part of the rules, as those of `prompts` are.
"""

from typing import Final

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
