"""Mutants of the choice of the next model, and of what its call is granted and charged."""

from typing import Final

from tests.mutants.mutant import Mutant

NEXT_MODEL: Final = (
    Mutant(
        "same-model-again",
        "After a listed failure the same model is asked again.",
        "agent.failed_calls",
        "    state = replace(with_model(state, found.fallback.spec), fallback=found.fallback)\n",
        "",
    ),
    Mutant(
        "need-of-the-first-model",
        "The call of a later model reserves the need of the first one.",
        "agent.state",
        "    return bound(state.context_tokens, state.model.max_tokens, state.model.prices)",
        "    spec = state.fallback.specs[0] if state.fallback else state.model\n"
        "    return bound(state.context_tokens, spec.max_tokens, spec.prices)",
    ),
    Mutant(
        "prices-of-the-first-model",
        "The answer of a later model is charged at the prices of the first one.",
        "agent.decider",
        "    usage = reply.usage and priced(reply.usage, state.model.prices)",
        "    spec = state.fallback.specs[0] if state.fallback else state.model\n"
        "    usage = reply.usage and priced(reply.usage, spec.prices)",
    ),
    Mutant(
        "both-models-charged",
        "A failed call is charged once more when the next model is asked.",
        "agent.failed_calls",
        "    return ask_again(state, settled, wait)\n",
        "    used = settled.usage\n"
        "    twice = used and replace(used, input_tokens=2 * used.input_tokens)\n"
        "    return ask_again(state, replace(settled, usage=twice), wait)\n",
    ),
    Mutant(
        "place-at-the-first-model",
        "The call of a later model takes a place of the first one.",
        "supervisor.turns",
        "    model = wanted.model or agent.model.name\n",
        "    model = agent.model.name\n",
    ),
    Mutant(
        "no-wait-after-a-round",
        "After all models have failed the next round begins at once.",
        "agent.fallback",
        "    return Next(replace(fallback, place=soonest, failed=lasting), failed[soonest])",
        "    return Next(replace(fallback, place=soonest, failed=lasting), 0)",
    ),
    Mutant(
        "wait-before-each-model",
        "The next model is asked after a wait.",
        "agent.fallback",
        "            return Next(replace(fallback, place=unasked, failed=tuple(failed)), 0)",
        "            return Next(replace(fallback, place=unasked, failed=tuple(failed)), max(wait_ms, 1))",
    ),
    Mutant(
        "first-model-in-each-turn",
        "Each turn begins with the first model.",
        "agent.fallback",
        "    return replace(fallback, failed=()) if fallback is not None and fallback.failed else fallback",
        "    return replace(fallback, place=0, failed=()) if fallback is not None else None",
    ),
    Mutant(
        "later-model-in-the-next-ask",
        "An ask begins with the model that answered last in the one before.",
        "agent.decider",
        "    model, fallback = first_of(model_of(begin))\n",
        "    model, fallback = first_of(model_of(begin))\n"
        "    if fallback is not None and state.fallback is not None:\n"
        "        model, fallback = state.model, state.fallback\n",
    ),
    Mutant(
        "attempts-of-each-model",
        "Each model has max_model_attempts of its own.",
        "agent.failed_calls",
        "    if made >= (state.limits.max_model_attempts or 1):",
        "    if made >= (state.limits.max_model_attempts or 1) * len(fallback.specs):",
    ),
    Mutant(
        "bad-request-falls-back",
        "The next model is asked after a failure of any kind.",
        "agent.failed_calls",
        "_ask_same_model if kind_of(failure.code) not in kinds_of(state) else",
        "_ask_same_model if state.fallback is None else",
    ),
    Mutant(
        "refusal-falls-back",
        "The next model is asked after a refusal although the fallback does not list refusals.",
        "agent.failed_calls",
        "    if failure in kinds_of(state):",
        "    if state.fallback is not None:",
    ),
    Mutant(
        "refusing-model-again",
        "A model that refused is asked again in the next round.",
        "agent.fallback",
        "    lasting = tuple(NOT_AGAIN if wait == NOT_AGAIN else 0 for wait in failed)",
        "    lasting = ()",
    ),
    Mutant(
        "lost-call-falls-back",
        "After a call that a crash cut off the next model is asked.",
        "agent.failed_calls",
        "        return state, ask_again(replace(state, cut_attempts=state.cut_attempts + 1), settled, 0), "
        "_CUT_OFF",
        "        state = replace(state, cut_attempts=state.cut_attempts + 1)\n"
        '        failure = ModelFailure("overloaded", is_retryable=True)\n'
        "        again = ask_next_model if state.fallback else _ask_same_model\n"
        "        again = again(state, failure, settled) or ask_again(state, settled, 0)\n"
        "        return state, again, failure",
    ),
    Mutant(
        "failures-of-the-turn-before",
        "A model that failed in the turn before counts as failed in this one.",
        "agent.fallback",
        "    return replace(fallback, failed=()) if fallback is not None and fallback.failed else fallback",
        "    return fallback",
    ),
    Mutant(
        "reserved-at-the-first-tier",
        "A call reserves the prices of a short prompt, however long its prompt may be.",
        "protocol.usage",
        "for rates in prices.reached(input_tokens)]",
        "for rates in (prices,)]",
    ),
    Mutant(
        "unbounded-within-a-budget",
        "A call without a bound is granted within a budget.",
        "supervisor.turns",
        "    if request.is_unbounded and (work.state.scopes or budgets.is_limited(ancestry)):",
        "    if False:",
    ),
    Mutant(
        "break-of-the-cache-not-told",
        "A request to another model does not say that it begins again.",
        "agent.failed_calls",
        "        state, again = replace(state, is_anew=False), replace(again, breaks_cache=True)\n",
        "        state = replace(state, is_anew=False)\n",
    ),
    Mutant(
        "wait-of-a-refusal",
        "A refusal is tried again after a wait.",
        "agent.failed_calls",
        "    return wait_ms(failure, rounds, state.rules) if failure.is_retryable else NOT_AGAIN",
        "    return wait_ms(failure, rounds, state.rules)",
    ),
)
