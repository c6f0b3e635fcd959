"""Mutants of shared state, of contexts, and of tools that change."""

from typing import Final

from tests.mutants.mutant import Mutant

STATE: Final = (
    Mutant(
        "state-of-the-run",
        "A call is given the state as of its run, and not of its request.",
        "session.port_gate",
        "return self.open[request.seq].shared",
        "return self.shared",
    ),
    Mutant(
        "state-forgotten-by-resume",
        "A gate keeps no state for calls that were open before.",
        "session.port_gate",
        "opened.shared = self.shared\n",
        "opened.shared = NO_STATE\n",
    ),
    Mutant(
        "add-replaces",
        "An update of a key that adds takes the place of the number.",
        "session.shared_state",
        "total=self.total + (integer_of(value) or 0)",
        "total=integer_of(value) or 0",
    ),
    Mutant(
        "append-before",
        "A further item of a list replaces the last one.",
        "session.shared_state",
        "items=self.items.append(value)",
        "items=self.items.put(max(0, self.items.size - 1), value)",
    ),
    Mutant(
        "first-value-of-a-sum-lost",
        "A key that adds begins with 1.",
        "session.shared_state",
        "total=integer_of(key.first) or 0)",
        "total=1 + (integer_of(key.first) or 0))",
    ),
    Mutant(
        "only-the-first-update",
        "Of several updates of one call only the first counts.",
        "session.shared_state",
        "for update in body.state_update:",
        "for update in body.state_update[:1]:",
    ),
)

CONTEXT: Final = (
    Mutant(
        "begins-without-the-context",
        "A delegation begins with the first answer it waits for.",
        "supervisor.contexts",
        "if delegation.waits > 1:",
        "if False:",
    ),
    Mutant(
        "failed-context-is-none",
        "A context that failed is an empty one.",
        "supervisor.contexts",
        'if made.status != "ok":',
        "if False:",
    ),
    Mutant(
        "failed-context-is-a-denial",
        "A delegation whose context failed ends as denied.",
        "supervisor.contexts",
        'delegation, "unavailable", detail=why)',
        'delegation, "denied", detail=why)',
    ),
    Mutant(
        "context-for-every-racer",
        "Every racer begins with the context of the first profile.",
        "supervisor.delegating",
        "contexts.get(profile.name))",
        "next(iter(contexts.values()), None))",
    ),
    Mutant(
        "context-not-handed-over",
        "The child does not read its context.",
        "agent.decider",
        "prompt=prompt_of(begin)",
        "prompt=begin.prompt",
    ),
    Mutant(
        "context-of-another-delegate",
        "The port is asked about the event before the Delegate.",
        "supervisor.delegating",
        "profile=name, request=seq, timeout_ms=timeout",
        "profile=name, request=seq - 1, timeout_ms=timeout",
    ),
    Mutant(
        "context-not-in-the-system-prompt",
        "The context that belongs into the system prompt is read nowhere.",
        "agent.request_prefix",
        'if begin.context == NULL or prefix.profile.context_in != "system":',
        "if True:",
    ),
    Mutant(
        "every-context-in-the-system-prompt",
        "A context stands in the system prompt also where it belongs before the prompt.",
        "agent.request_prefix",
        'if begin.context == NULL or prefix.profile.context_in != "system":',
        "if begin.context == NULL:",
    ),
    Mutant(
        "context-twice",
        "A context in the system prompt stands before the prompt too.",
        "agent.request_prefix",
        "return begin.prompt if is_in_system else joined(begin.context, begin.prompt)",
        "return joined(begin.context, begin.prompt)",
    ),
    Mutant(
        "context-before-the-instructions",
        "The system prompt begins with the context.",
        "agent.request_prefix",
        "joined(prefix.system, begin.context)",
        "joined(begin.context, prefix.system)",
    ),
    Mutant(
        "context-in-place-of-the-instructions",
        "The context is the whole system prompt.",
        "agent.request_prefix",
        "joined(prefix.system, begin.context)",
        "begin.context",
    ),
    Mutant(
        "context-behind-the-prompt",
        "The context stands behind the prompt.",
        "agent.request_prefix",
        "joined(begin.context, begin.prompt)",
        "joined(begin.prompt, begin.context)",
    ),
    Mutant(
        "context-not-in-the-bound",
        "The bound of a request does not count a context in the system prompt.",
        "agent.request_prefix",
        "return with_tools(replace(prefix, system=system), prefix.profile.tools)",
        "return replace(with_tools(replace(prefix, system=system), prefix.profile.tools), tokens=prefix.tokens)",
    ),
    Mutant(
        "first-context-only",
        "The contexts of further profiles of a race are not made.",
        "supervisor.delegating",
        "for profile, _ in profiles if profile.is_prepared",
        "for profile, _ in profiles[:1] if profile.is_prepared",
    ),
    Mutant(
        "last-context-only",
        "Of the contexts of a race only the last one is kept.",
        "supervisor.contexts",
        "contexts = (*delegation.contexts, (made.profile, made))",
        "contexts = ((made.profile, made),)",
    ),
    Mutant(
        "context-does-not-wait-for-the-schema",
        "A delegation with a context begins before its schema is accepted.",
        "supervisor.delegating",
        "waits=is_unchecked + len(prepared)",
        "waits=len(prepared)",
    ),
)

TOOLS: Final = (
    Mutant(
        "tools-of-the-living-only",
        "Later agents of a profile begin with its old tools.",
        "supervisor.tool_changes",
        "name: changed_profile(known, change.tools)}",
        "name: work.state.profiles[name]}",
    ),
    Mutant(
        "tools-of-the-later-only",
        "Living agents of a profile keep their tools.",
        "supervisor.tool_changes",
        "if record.profile.name == name:",
        "if False:",
    ),
    Mutant(
        "tools-of-the-host-forgotten",
        "A change for the host does not outlive the ask.",
        "supervisor.asks",
        "if state.host_tools is not None:",
        "if False:",
    ),
    Mutant(
        "old-tools-after-the-profile",
        "The tools of the host alone stay when its profile is changed later.",
        "supervisor.tool_changes",
        "    if name == work.state.host_name:\n        work.update_session(host_tools=None)\n",
        "",
    ),
    Mutant(
        "change-joins-a-paused-turn",
        "A change is told between a paused turn and its continuation.",
        "agent.turns",
        "names, told, ends = state.fresh, 0, 0\n",
        """state, change = take_change(state)
        names, told, ends = state.fresh + change.seqs, 0, 0
        history, digest, tokens = state.history, state.digest, state.context_tokens
        if change.message is not None:
            history, digest = history.append(change.message), rolled(digest, change.message)
            tokens += len(change.message)
""",
    ),
    Mutant(
        "break-not-told",
        "A request with other tools does not say that it breaks the cache.",
        "agent.tool_changes",
        "is_anew=state.turn > 0,",
        "is_anew=False,",
    ),
    Mutant(
        "removal-not-told",
        "The model is not told that a tool is gone.",
        "agent.tool_changes",
        "for block in (*gone, *new))",
        "for block in new)",
    ),
    Mutant(
        "change-without-its-event",
        "A request does not name the event that changed its tools.",
        "agent.tool_changes",
        "seqs = (seq,) if seq and blocks else ()",
        "seqs: tuple[int, ...] = ()",
    ),
    Mutant(
        "effect-of-now",
        "A call that waits for a person runs with the effect that its tool has now.",
        "agent.calls",
        "    use, spec = call.use, _spec_of(call.use)\n    cache",
        "    use, spec = call.use, _spec_of(call.use)\n"
        "    tools = state.next_tools.tools if state.next_tools else ()\n"
        "    effect = next((one.effect for one in tools if one.name == use.name), spec.effect)\n"
        "    spec = replace(spec, effect=effect)\n"
        "    cache",
    ),
    Mutant(
        "old-tools-in-the-next-ask",
        "An ask with other tools keeps those of before.",
        "agent.tool_changes",
        "return keep_change(replace(state, prefix=kept), 0, prefix.profile.tools)",
        "return replace(state, prefix=kept)",
    ),
    Mutant(
        "old-messages-for-another-prefix",
        "Messages about tools stay when the request begins again.",
        "agent.tool_changes",
        "    if before is not None and before.is_changed:\n        history, origins = without_system(history, origins)\n",
        "",
    ),
    Mutant(
        "change-of-another-agent",
        "A tool that sets tools of another agent changes its own agent, too.",
        "agent.tool_changes",
        "if state.address == change.address or prefix_of(state).profile.name == change.profile:",
        "if True:",
    ),
)
