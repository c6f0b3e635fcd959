"""Mutants of questions with whole requests: references, heads, bounds, replies.

The sessions `whole_requests` of `scenarios_programs` find them.
"""

from typing import Final

from tests.mutants.mutant import Mutant

WHOLE: Final = (
    Mutant(
        "reply-not-kept",
        "The reply to a whole request does not belong to it, so that no later request may refer to it.",
        "agent.whole_requests",
        "        messages=request.messages.append(said),\n",
        "",
    ),
    Mutant(
        "whole-head-of-the-first",
        "A request that grows another one keeps the digest and the size of its head, also if it has a new one.",
        "agent.whole_requests",
        "    if first is not None and (first.system, first.tools, first.settings) == (system, tools, settings):\n",
        "    if first is not None:\n        system, tools, settings = first.system, first.tools, first.settings\n"
        "        request = replace(request, system=system, tools=tools, settings=settings)\n",
    ),
    Mutant(
        "like-without-settings",
        "A request that is like another one has none of its settings.",
        "agent.whole_requests",
        "        system, tools, settings = like.system, like.tools, like.settings\n",
        "        system, tools = like.system, like.tools\n",
    ),
    Mutant(
        "reference-one-short",
        "A reference leaves out the last message that it names.",
        "agent.whole_requests",
        "[start:end]",
        "[start:max(start + 1, end - 1)]",
    ),
    Mutant(
        "whole-without-its-size",
        "The messages of a whole request do not count in its need.",
        "agent.whole_requests",
        "        tokens=request.tokens + size,\n",
        "        tokens=request.tokens,\n",
    ),
    Mutant(
        "stated-tokens-ignored",
        "The grant of a question reserves the model's own bound, whatever its program states.",
        "agent.asked_requests",
        "    if asked is None or not asked.max_tokens:\n",
        "    if asked is None or asked.max_tokens:\n",
    ),
    Mutant(
        "program-calls-run-below",
        "The agent that carries a whole request makes the calls of the reply itself.",
        "agent.asked_requests",
        "    return state.asked is not None and not prefix_of(state).reports\n",
        "    return False\n",
    ),
    Mutant(
        "wrong-reference-asked",
        "A question that refers to nothing is asked without its request.",
        "agent.delegations",
        "    if asked is not None and asked.messages is not None and request is None:\n",
        "    if False:\n",
    ),
)
