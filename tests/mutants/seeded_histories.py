"""Mutants of conversations that are handed over to sub-agents."""

from typing import Final

from tests.mutants.mutant import Mutant

HISTORY: Final = (
    Mutant(
        "history-not-handed-over",
        "An agent begins without the messages that were made for it.",
        "supervisor.delegating",
        "context=made.content, history=made.history, makers=made.makers",
        "context=made.content",
    ),
    Mutant(
        "history-without-makers",
        "All messages that an agent is handed count as its own model's.",
        "agent.handed_history",
        "origins=origins_of(history.makers),",
        "origins=state.origins,",
    ),
    Mutant(
        "history-of-the-first-maker",
        "The first maker of a history counts as the maker of all of it.",
        "protocol.histories",
        "    for place, origin in makers:",
        "    for place, origin in makers[:1]:",
    ),
    Mutant(
        "history-not-in-the-bound",
        "The need of a first request does not count the messages that were handed over.",
        "agent.handed_history",
        "context_tokens=sum(map(len, messages)),",
        "context_tokens=state.context_tokens,",
    ),
    Mutant(
        "last-results-forgotten",
        "The results at the end of a history are left out.",
        "agent.handed_history",
        "messages[:-1], blocks_of(content_of(messages[-1]))",
        "messages[:-1], ()",
    ),
    Mutant(
        "last-results-twice",
        "The results at the end of a history stand in a message of their own too.",
        "agent.handed_history",
        "messages, last = messages[:-1], blocks",
        "last = blocks",
    ),
    Mutant(
        "calls-for-an-agent-without-tools",
        "An agent without tools reads calls.",
        "agent.handed_history",
        "if not prefix.tools and has_calls(begin.history):",
        "if False:",
    ),
    Mutant(
        "words-for-an-agent-with-tools",
        "Every agent that is handed calls reads them as words.",
        "agent.handed_history",
        "if not prefix.tools and has_calls(begin.history):",
        "if has_calls(begin.history):",
    ),
)
