"""Mutants of results that are given again."""

from typing import Final

from tests.mutants.mutant import Mutant

KEYS: Final = (
    Mutant(
        "result-of-the-wider",
        "A result is found by agents with other rights.",
        "agent.cache_keys",
        "encode(effective(state.permissions)), form]",
        "form]",
    ),
    Mutant(
        "result-of-other-arguments",
        "A result is found whatever the arguments are.",
        "agent.cache_keys",
        "encode(spec), _sorted(arguments), ",
        "encode(spec), ",
    ),
    Mutant(
        "result-of-another-tool",
        "A result is found by calls of another tool, or of another version.",
        "agent.cache_keys",
        "parts = [encode(spec), ",
        "parts = [",
    ),
    Mutant(
        "result-of-another-length",
        "A result is found by agents that read less, or more, of a result.",
        "agent.cache_keys",
        'b"%d" % (state.limits.max_tool_output_chars or 0)',
        'b""',
    ),
    Mutant(
        "result-of-another-instance",
        "The instances that a factory makes find the results of each other.",
        "agent.cache_keys",
        "        parts.append(state.address.encode())\n",
        "        pass\n",
    ),
)

RESULTS: Final = (
    Mutant(
        "result-of-another-state",
        "The shared state that a tool has read may change.",
        "session.cached_results",
        "return found if is_same else None",
        "return found",
    ),
    Mutant(
        "state-not-kept",
        "A result is kept without the values that its tool has read.",
        "session.cached_results",
        "for key in body.state_read if key in shared.cells}",
        "for key in ()}",
    ),
    Mutant(
        "result-outlives-effects",
        "A result outlives the calls of tools with an effect.",
        "session.cached_results",
        "if not wanted.over_writes and (self._running or self._effect_at > found.call):",
        "if False:",
    ),
    Mutant(
        "effect-under-way-ignored",
        "A result is given again while a tool with an effect runs, if that began before it.",
        "session.cached_results",
        "(self._running or self._effect_at > found.call)",
        "self._effect_at > found.call",
    ),
    Mutant(
        "end-of-an-effect-ignored",
        "A result that was read during an effect is given again after it.",
        "session.cached_results",
        "            self._running.discard(request.seq)\n            self._effect_at = event.seq\n",
        "            self._running.discard(request.seq)\n",
    ),
    Mutant(
        "begin-of-an-effect-ignored",
        "The calls of tools with an effect are not taken in.",
        "session.port_gate",
        "            self.results.on_call(event)",
        "            pass",
    ),
    Mutant(
        "effects-before-the-first-result",
        "A tool with an effect that runs at the first call of a cached tool is not seen.",
        "session.port_gate",
        "CachedResults(one.seq for one in calls if has_effect(one))",
        "CachedResults()",
    ),
    Mutant(
        "result-never-too-old",
        "A result is given again whatever its age is.",
        "session.cached_results",
        "if wanted.ttl_ms and now_ms - found.at >= wanted.ttl_ms:",
        "if False:",
    ),
    Mutant(
        "age-since-the-last-use",
        "A result that is given again counts as new.",
        "session.cached_results",
        'body.status == "ok" and not body.cached_from and not changed',
        'body.status == "ok" and not changed',
    ),
    Mutant(
        "labels-not-given-again",
        "A result is given again without its labels.",
        "session.cached_results",
        "        labels=origin.labels,\n",
        "",
    ),
    Mutant(
        "errors-given-again",
        "The answer of a call that failed is given again.",
        "session.cached_results",
        'body.status == "ok" and not body.cached_from',
        "not body.cached_from",
    ),
    Mutant(
        "updates-given-again",
        "The result of a call that changed the shared state is given again.",
        "session.cached_results",
        "body.state_update or body.tools is not None or body.checkpoints",
        "body.tools is not None or body.checkpoints",
    ),
    Mutant(
        "everything-outlives-effects",
        "A request for an earlier result never asks about effects.",
        "agent.cache_keys",
        "rules.ttl_ms, rules.over_writes)",
        "rules.ttl_ms, True)",
    ),
)
