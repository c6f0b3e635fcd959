"""Mutants of conversations that become shorter."""

from typing import Final

from tests.mutants.mutant import Mutant

CLEARING: Final = (
    Mutant(
        "last-turns-cleared",
        "The results of the last turns are cleared too.",
        "agent.shortening",
        "    upto = starts[-1][1]\n",
        "    upto = state.history.size\n",
    ),
    Mutant(
        "cleared-within-the-cache",
        "A request with cleared results does not say that it begins again.",
        "agent.shortening",
        "        fallback=_books(state, prefix, history),\n        is_anew=True,\n    )\n    return Shorter(kept, upto, count, thoughts)",
        "        fallback=_books(state, prefix, history),\n    )\n    return Shorter(kept, upto, count, thoughts)",
    ),
    Mutant(
        "cleared-for-little",
        "A compaction that frees almost nothing is one.",
        "agent.compacting",
        "_PARTS: Final = 10\n",
        "_PARTS: Final = 1_000\n",
    ),
    Mutant(
        "bytes-freed-as-tokens",
        "A cleared result frees all that its message had, and its line needs nothing.",
        "agent.shortening",
        "    tokens = _bound(state, compaction, prefix, history, state.context_tokens - freed)\n",
        "    tokens = max(1, state.context_tokens - 9_000)\n",
    ),
    Mutant(
        "call-of-a-cleared-result-lost",
        "A cleared result answers no call.",
        "agent.shortening",
        'shorter = tool_result(use_id, text_json(line), parts.get("is_error") == b"true")',
        'shorter = tool_result("", text_json(line), parts.get("is_error") == b"true")',
    ),
)

THINKING: Final = (
    Mutant(
        "half-of-a-reply-cleared",
        "Thinking goes from a reply beside which its service ran a tool.",
        "agent.shortening",
        "    if kinds - THOUGHTS - READ or not kinds - THOUGHTS or not kinds & THOUGHTS:\n",
        "    if not kinds - THOUGHTS or not kinds & THOUGHTS:\n",
    ),
    Mutant(
        "sealed-thinking-cleared",
        "Thinking goes that its service looks for beside the calls.",
        "agent.shortening",
        "    if any(_is_bound(block) for block in blocks if kind_of(block) in THOUGHTS):\n",
        "    if False:\n",
    ),
    Mutant(
        "cleared-thinking-not-told",
        "A compaction does not say whose thinking has gone.",
        "agent.compacting",
        "        thoughts=shorter.thoughts,\n",
        "",
    ),
    Mutant(
        "words-cleared-with-the-thinking",
        "A reply loses its calls with its thinking.",
        "agent.shortening",
        "    kept = [block for block in blocks if kind_of(block) not in THOUGHTS]\n",
        "    kept = [block for block in blocks if kind_of(block) == 'text']\n",
    ),
)

FUNCTIONS: Final = (
    Mutant(
        "function-needs-tokens",
        "A summary by a function is granted like one of a model.",
        "agent.state",
        "    if state.model.is_free:\n        return NOTHING\n",
        "    if state.model.is_program:\n        return NOTHING\n",
    ),
    Mutant(
        "function-is-kept-for",
        "The budget keeps something for a summary by a function.",
        "agent.compacting",
        "    if model is not None and model.is_free:\n",
        "    if False:\n",
    ),
)

SUMMARIES: Final = (
    Mutant(
        "cut-behind-a-reply",
        "The request for a summary ends with a reply whose calls have no results.",
        "agent.compacting",
        "    asked = user_message((*blocks_of(content_of(last)), block))\n",
        "    asked = user_message((block,))\n",
    ),
    Mutant(
        "summary-without-the-prompt",
        "The prompt goes with the messages that are summarised.",
        "agent.shortening",
        "    prompt_blocks = _kept_of_prompt(state, compaction) if is_prompt_folded else ()\n",
        "    prompt_blocks: tuple[Json, ...] = ()\n",
    ),
    Mutant(
        "tail-lost",
        "A message behind the cut is lost.",
        "agent.shortening",
        "    for place in range(cut, state.history.size):\n",
        "    for place in range(cut + 2, state.history.size):\n",
    ),
    Mutant(
        "summary-calls-tools",
        "A summary that calls tools counts.",
        "agent.summaries",
        "    if said.uses or not said.text.strip():\n",
        "    if not said.text.strip():\n",
    ),
    Mutant(
        "longer-summary-counts",
        "A summary that is longer than what it replaces counts.",
        "agent.summaries",
        "    if not frees_enough(state, shorter):\n",
        "    if False:\n",
    ),
    Mutant(
        "summaries-are-counted",
        "A request for a summary is one of the turns of the agent.",
        "agent.compacting",
        "        turn=state.turn + 1,\n",
        "        turn=state.turn + 1,\n        turns_used=state.turns_used + 1,\n",
    ),
    Mutant(
        "two-summaries-for-a-turn",
        "A summary that failed is asked for again at once.",
        "agent.compacting",
        "may_summarise(state) and compaction.summarised != counted and",
        "may_summarise(state) and",
    ),
    Mutant(
        "results-lost-for-a-summary",
        "The results that wait for a summary are lost.",
        "agent.compacting",
        "        cut_attempts=0,\n        unsent=None,\n",
        "        cut_attempts=0,\n        unsent=None,\n        calls=replace(state.calls, answers=IntMap()),\n",
    ),
    Mutant(
        "stopped-with-half",
        "A stop while a summary is asked for leaves the agent with the part that was to be summarised.",
        "agent.compacting",
        "    state = with_refused(restored(state), pending)\n",
        "    state = with_refused(state, pending)\n",
    ),
    Mutant(
        "stop-loses-what-was-refused",
        "A stop while a compaction is under way loses the message that was refused.",
        "agent.compacting",
        "    state = with_refused(restored(state), pending)\n",
        "    state = restored(state)\n",
    ),
    Mutant(
        "compaction-not-named",
        "The next request does not name the compaction.",
        "agent.summaries",
        "    return _go_on(replace(state, fresh=(*state.fresh, seq)), None, pending)\n",
        "    return _go_on(state, None, pending)\n",
    ),
    Mutant(
        "retry-of-a-summary-is-a-turn",
        "The second attempt of a summary is asked for as a turn like any other.",
        "agent.failed_calls",
        "    if state.compaction is not None and state.compaction.saved is not None:\n",
        "    if False:\n",
    ),
)

RESERVED: Final = (
    Mutant(
        "summary-frees-the-turn",
        "A request for a summary frees what is kept for the turn after it.",
        "supervisor.turns",
        "    is_keeping = is_keeping and not request.purpose  # the turn that was kept for is still to come\n",
        "",
    ),
    Mutant(
        "summary-kept-without-room",
        "The need of a summary is kept although the turn before it then does not fit.",
        "supervisor.turns",
        'not budgets.is_limited(ancestry) or budgets.fits(ancestry, both)[0] == "never"',
        "not budgets.is_limited(ancestry)",
    ),
    Mutant(
        "summary-not-kept",
        "Nothing is kept for a summary.",
        "supervisor.turns",
        '    return replace(record, kept=record.kept.plus("summary", request.summary))\n',
        "    return record\n",
    ),
    Mutant(
        "refused-summary-ends-the-agent",
        "An agent whose summary does not fit its budget ends.",
        "supervisor.turns",
        "    if wanted.purpose:\n        _refuse_summary(",
        "    if False:\n        _refuse_summary(",
    ),
)
