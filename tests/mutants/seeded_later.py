"""Mutants of what comes later: tools that change while calls stand in line, the needs of later requests, an
agent at the last depth, and copies of records that another helper has changed since.
"""

from typing import Final

from tests.mutants.mutant import Mutant

IN_LINE: Final = (
    Mutant(
        "change-lost-before-the-line",
        "A tool's change of tools is lost if further calls of its reply wait for a place.",
        "agent.answers",
        "        state, posts = set_tools(state, returned.tools)\n",
        "        before, (state, posts) = state, set_tools(state, returned.tools)\n"
        "        state = before if state.calls.line.size else state\n",
    ),
    Mutant(
        "change-not-told-from-the-line",
        "The supervisor hears nothing of a change of tools by a call whose answer starts the next one.",
        "agent.answers",
        "        return state, posts + more\n",
        "        return state, more or posts\n",
    ),
    Mutant(
        "line-dropped-by-a-change",
        "A change of tools forgets the calls that wait for a place.",
        "agent.tool_changes",
        "        state = keep_change(state, 0, change.tools)\n    return",
        "        state = replace(keep_change(state, 0, change.tools), waiting=type(state.waiting)())\n    return",
    ),
    Mutant(
        "new-tools-for-the-line",
        "A call that waits for a place runs as the tools are by then.",
        "agent.calls",
        '        return replace(state, calls=put(state.calls, replace(call, stage="tool"))), (call_tool(state, call),)\n',
        "        tools, use = state.next_tools.tools if state.next_tools else (), call.use\n"
        "        spec = next((one for one in tools if one.name == use.name), use.spec)\n"
        "        call = replace(call, use=replace(use, spec=spec))\n"
        '        return replace(state, calls=put(state.calls, replace(call, stage="tool"))), (call_tool(state, call),)\n',
    ),
    Mutant(
        "gone-tools-not-started",
        "A call that waits for a place is refused if its tool is gone by then.",
        "agent.calls",
        "        if refusal := call_refusal(state, call.use):\n            state = answered",
        "        names = {one.name for one in state.next_tools.tools} if state.next_tools else {call.use.name}\n"
        '        if refusal := "gone" * (call.use.name not in names) or call_refusal(state, call.use):\n'
        "            state = answered",
    ),
    Mutant(
        "first-change-of-a-reply-stays",
        "Of two changes by the calls of one reply the first one holds.",
        "agent.tool_changes",
        "    return replace(state, next_tools=NextTools(tools, seq))",
        "    return state if state.next_tools and not seq else replace(state, next_tools=NextTools(tools, seq))",
    ),
    Mutant(
        "change-frees-no-place",
        "A call that changes tools keeps its place, so the line has one place less.",
        "agent.answers",
        "        state, posts = set_tools(state, returned.tools)\n",
        "        state, posts = set_tools(state, returned.tools)\n"
        "        state = replace(state, calls=replace(state.calls, tools=state.calls.tools + 1))\n",
    ),
    Mutant(
        "change-frees-two-places",
        "A call that changes tools gives two places back, so one tool too many runs.",
        "agent.answers",
        "        state, posts = set_tools(state, returned.tools)\n",
        "        state, posts = set_tools(state, returned.tools)\n"
        "        state = replace(state, calls=replace(state.calls, tools=state.calls.tools - 1))\n",
    ),
    Mutant(
        "line-from-its-end",
        "The calls of a reply beyond max_parallel_tools start from the last one on.",
        "agent.calls",
        "    while (first := state.calls.line.first()) is not None and state.calls.tools < places:\n",
        "    while (\n"
        "        first := next(iter([*state.calls.line.items()][::-1]), None)\n"
        "    ) and state.calls.tools < places:\n",
    ),
)

NEEDS: Final = (
    Mutant(
        "unknown-count-forgets-the-reply",
        "After an answer without a count the need of the next request has no room for that answer.",
        "agent.input_bound",
        "(usage is not None and usage.tokens) or state.context_tokens + size, None",
        "(usage is not None and usage.tokens) or state.context_tokens, None",
    ),
    Mutant(
        "need-without-new-results",
        "The need of a later request has no room for the results in it.",
        "agent.turns",
        "        size = len(said) if prompt != NULL else sum(map(len, results))\n",
        "        size = len(said) if prompt != NULL else 0\n",
    ),
    Mutant(
        "need-without-words",
        "The need of a later request has no room for the words in it.",
        "agent.turns",
        "    size = len(said) if prompt != NULL else sum(map(len, blocks))\n",
        "    size = len(said) if prompt != NULL else sum(map(len, results))\n",
    ),
    Mutant(
        "need-without-a-change",
        "The need of a request has no room for the message that changes its tools.",
        "agent.turns",
        "    return state, history, digest, sent.seqs, len(sent.message)\n",
        "    return state, history, digest, sent.seqs, 0\n",
    ),
    Mutant(
        "need-of-the-request-before",
        "A later request has the need of the conversation before its message.",
        "agent.turns",
        "    need = NOTHING if model.is_free else bound(tokens, model.max_tokens, model.prices)\n",
        "    known = tokens if not state.turn else state.context_tokens\n"
        "    need = NOTHING if model.is_free else bound(known, model.max_tokens, model.prices)\n",
    ),
    Mutant(
        "answer-not-counted",
        "The need of a later request counts the input of the last call, and not its answer.",
        "agent.input_bound",
        "(usage is not None and usage.tokens) or",
        "(usage is not None and usage.input_tokens) or",
    ),
    Mutant(
        "need-without-a-prompt",
        "The need of the first request of a later ask has no room for its prompt.",
        "agent.turns",
        "        size = len(said) if prompt != NULL else sum(map(len, results))\n",
        "        size = len(said) if prompt != NULL and not state.turn else sum(map(len, results))\n",
    ),
    Mutant(
        "need-of-new-tools",
        "The need of a request that begins again has no room for its new tools.",
        "agent.tool_changes",
        "        context_tokens=state.context_tokens + prefix.tokens,\n",
        "        context_tokens=state.context_tokens + (0 if before else prefix.tokens),\n",
    ),
)

LAST_DEPTH: Final = (
    Mutant(
        "depth-zero-is-no-limit",
        "With max_depth=0 agents may delegate.",
        "supervisor.resolving",
        "if parent.depth >= (limits.max_depth or 0):",
        "if limits.max_depth and parent.depth >= limits.max_depth:",
    ),
    Mutant(
        "depth-zero-is-the-default",
        "With max_depth=0 agents may delegate as deep as without a limit.",
        "supervisor.resolving",
        "if parent.depth >= (limits.max_depth or 0):",
        "if parent.depth >= (limits.max_depth or 3):",
    ),
    Mutant(
        "offered-at-depth-zero",
        "With max_depth=0 a model is offered agents to delegate to.",
        "supervisor.contracts",
        "    if depth >= (limits.max_depth or 0):\n",
        "    if limits.max_depth and depth >= limits.max_depth:\n",
    ),
    Mutant(
        "one-level-too-many",
        "Agents nest one level deeper than max_depth says.",
        "supervisor.resolving",
        "if parent.depth >= (limits.max_depth or 0):",
        "if parent.depth > (limits.max_depth or 0):",
    ),
    Mutant(
        "questions-bound-by-depth",
        "At max_depth a program may put no questions to models.",
        "supervisor.resolving",
        "    if request.implicit == NULL:\n        if parent.depth",
        "    if request.implicit == NULL or parent.depth >= (limits.max_depth or 0):\n        if parent.depth",
    ),
)

STALE: Final = (
    Mutant(
        "ancestry-before-the-wake",
        "A turn goes on with records from before it has woken those that wait.",
        "supervisor.turns",
        "    return work.ancestry(record.address) or ancestry\n",
        "    return ancestry\n",
    ),
    Mutant(
        "wake-before-the-grant",
        "A served request wakes others before its own grant is noted, which undoes the wake.",
        "supervisor.turns",
        "        _grant(work, ancestry, wish)\n        wake_along(work, ancestry)\n",
        "        wake_along(work, ancestry)\n        _grant(work, ancestry, wish)\n",
    ),
    Mutant(
        "wake-before-the-settlement",
        "A settlement wakes others before it is noted, which undoes the wake.",
        "supervisor.turns",
        "    work.put_records(ancestry)\n    work.in_flight -= 1\n    wake_along(work, ancestry)\n",
        "    wake_along(work, ancestry)\n    work.put_records(ancestry)\n    work.in_flight -= 1\n",
    ),
)
