"""Resolving: which agents a delegation names, and whether its parent may begin them.

Names become profiles once, in `resolve`. Then each check of `CHECKS` looks at the same delegation, and the
first that objects gives the denial: an ordinary error result for the parent's model.

Rules
  - An agent delegates to those that its profile names and its rights permit, down to its depth limit.
  - A question of a program to a model begins an implicit agent, whose profile comes with the question. It
    counts neither for depth nor for the number of agents, and no profile has to name it.
  - A program's delegation over max_children stands in line. One that could never fit would stand there
    forever, so it is denied.
  - The racers of a delegation are allowed as a whole or denied as a whole.
  - A resume may change the agents while a delegation waits: for a check, for a context, or in line. So its
    names become profiles again when it goes on (`resolve_again`), and one whose agents are gone, or may not
    begin as they are now, ends with the reason.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.money import MONEY_SINCE, in_dollars
from callboard.actors.protocol.profiles import Profile, read_profile
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.supervisor.budgets import kept_above
from callboard.actors.supervisor.reserve import add
from callboard.actors.supervisor.reserving import bytes_of_result, need_of
from callboard.actors.supervisor.rights import agent_refusal, child_refusal
from callboard.actors.supervisor.state import Delegation, Record, SupervisorState

NAMED_SINCE: Final = 2
"""The rules of a session from which on the error for an unknown agent names those that there are."""

CHECKED_AGAIN_SINCE: Final = 2
"""The rules of a session from which on an agent that has changed is checked again before it begins."""

_NAMES_TOLD: Final = 20

Profiles: TypeAlias = tuple[tuple[Profile, Json], ...]
"""The profile of each racer of a delegation, with its bytes."""


class Wanted(NamedTuple):
    """A delegation whose agents are known.

    profiles: empty if that of an implicit agent cannot be read. size: the bytes of the result that the
    parent's model reads, 0 for all of it. result: the need of these in the parent's next turn.
    """

    request: Delegate
    profiles: Profiles
    size: int
    result: Need


class Denial(NamedTuple):
    """The reason for which a delegation does not begin, in words for the parent's model.

    scope: the place in the ancestry of the budget that leaves nothing, for the kind `budget`.
    """

    kind: OutcomeKind
    detail: str
    scope: int = 0


Check: TypeAlias = Callable[[SupervisorState, list[Record], Wanted], Denial | None]


def resolve(state: SupervisorState, ancestry: list[Record], request: Delegate) -> Wanted | Denial:
    """Return a delegation with its agents, or the reason for which its parent may name none of them."""
    parent, limits = ancestry[-1], ancestry[-1].limits
    if not request.profiles:
        return Denial("denied", "a delegation names at least one agent")
    if request.implicit == NULL:
        if parent.depth >= (limits.max_depth or 0):
            return Denial("denied", f"agents may nest {limits.max_depth} deep, and this one is at that depth")
        for name in request.profiles:
            if name not in parent.profile.agents or name not in state.profiles:
                there_are = _names_told(state, parent.profile)
                return Denial("denied", f"there is no agent '{name[:100]}' to delegate to{there_are}")
            if refusal := agent_refusal(parent, name):
                return Denial("denied", refusal)
    try:
        profiles = profiles_of(state, request)
    except (msgspec.DecodeError, RecursionError):
        profiles = ()
    size = bytes_of_result(ancestry, request)
    return Wanted(request, profiles, size, need_of(ancestry, size))


def _names_told(state: SupervisorState, profile: Profile) -> str:
    """Return the agents that a `task` call of an agent may name, as the end of the error for another name."""
    known = [state.profiles[name][0] for name in profile.agents if name in state.profiles]
    names = [one.name for one in known if not one.has_contract]
    if state.rules < NAMED_SINCE or not names:
        return ""
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return f"; there are: {', '.join(names[:_NAMES_TOLD])}{more}"


def profiles_of(state: SupervisorState, request: Delegate) -> Profiles:
    """Return the profile of each racer. Raises DecodeError for an implicit one that cannot be read."""
    if request.implicit != NULL:
        return ((read_profile(bytes(request.implicit)), request.implicit),) * len(request.profiles)
    return tuple(state.profiles[name] for name in request.profiles)


def resolve_again(
    state: SupervisorState, ancestry: list[Record], delegation: Delegation
) -> Profiles | Denial:
    """Return the agents of a delegation that has waited, or the reason for which it cannot begin any more.

    ancestry: from the host down to the parent.
    """
    request = delegation.request
    assert request is not None
    if request.implicit == NULL:
        for name in request.profiles:
            # Under all rules: no log has another decision here, since the supervisor could not decide.
            if name not in state.profiles:
                return Denial("unavailable", f"agent '{name}' is gone: the session was resumed without it")
    wanted = Wanted(request, profiles_of(state, request), delegation.room, NOTHING)
    checks = CHECKS_OF_PROFILES if state.rules >= CHECKED_AGAIN_SINCE else ()
    return why_denied(state, ancestry, wanted, checks) or wanted.profiles


def why_denied(
    state: SupervisorState, ancestry: list[Record], wanted: Wanted, checks: Iterable[Check] | None = None
) -> Denial | None:
    """Return the first objection to a delegation; None allows it. checks: None for all of them."""
    for check in CHECKS if checks is None else checks:
        if denial := check(state, ancestry, wanted):
            return denial
    return None


def _too_many_agents(state: SupervisorState, ancestry: list[Record], wanted: Wanted) -> Denial | None:
    most, request = ancestry[-1].limits.max_agents or 0, wanted.request
    if request.implicit != NULL or state.agents + len(request.profiles) <= most:
        return None
    return Denial("denied", f"at most {ancestry[-1].limits.max_agents} agents in one session")


def _too_many_children(state: SupervisorState, ancestry: list[Record], wanted: Wanted) -> Denial | None:
    parent = ancestry[-1]
    children = 0 if parent.profile.is_eager else parent.turn_children
    if children + len(wanted.request.profiles) <= (parent.limits.max_children or 0):
        return None
    counted = "racers counted singly" + (", with those in the background" if parent.background else "")
    return Denial("denied", f"at most {parent.limits.max_children} delegations in one turn, {counted}")


def _unfit(state: SupervisorState, ancestry: list[Record], wanted: Wanted) -> Denial | None:
    """Deny if one of the agents is broken, or is given an input of the wrong form."""
    request = wanted.request
    for profile, _ in wanted.profiles:
        if profile.unavailable:
            return Denial("unavailable", profile.unavailable)
        if profile.has_contract != (request.input != NULL):
            form = "the fields of its contract" if profile.has_contract else "a prompt"
            return Denial("denied", f"agent '{profile.name}' takes {form}")
        if profile.has_contract and profile.name != request.profiles[0]:
            return Denial("denied", "agents with different contracts cannot race")
    return None


def _over_budget(state: SupervisorState, ancestry: list[Record], wanted: Wanted) -> Denial | None:
    """Deny if a scope leaves nothing for a sub-agent beside the reserve. The lowest such scope is named."""
    turn, mine = wanted.request.closing, ancestry[-1].kept
    results = add(add(mine.results, mine.ends), wanted.result)
    own = add(turn, results)
    for record, above in kept_above(ancestry):
        budget, spent, need = record.budget, record.spent, add(own, above)
        # Every turn uses a token, hence `>=`. A turn may cost nothing, hence `>` below.
        if budget.tokens is not None and spent.tokens + need.tokens >= budget.tokens:
            amounts = spent.tokens, budget.tokens, turn.tokens, results.tokens, above.tokens
            return Denial("budget", _nothing_left(record.address, amounts, "tokens are"), record.depth)
        if budget.micro_usd is not None and spent.micro_usd + need.micro_usd > budget.micro_usd:
            amounts = spent.micro_usd, budget.micro_usd, turn.micro_usd, results.micro_usd, above.micro_usd
            unit, form = ("micro-dollars are", _counted) if state.rules < MONEY_SINCE else ("is", in_dollars)
            return Denial("budget", _nothing_left(record.address, amounts, unit, form), record.depth)
    return None


def _counted(amount: int) -> str:
    return f"{amount:,}"


def _nothing_left(
    address: str,
    amounts: tuple[int, int, int, int, int],
    unit: str,
    form: Callable[[int], str] = _counted,
) -> str:
    spent, limit, turn, results, above = amounts
    beside = f", closing turns above it up to {form(above)}" if above else ""
    return (
        f"the budget of {address} leaves nothing for a sub-agent: "
        f"{form(spent)} of {form(limit)} {unit} spent, the next turn needs up to {form(turn)}, "
        f"and the results of its delegations up to {form(results)}{beside}"
    )


def _unreadable(state: SupervisorState, ancestry: list[Record], wanted: Wanted) -> Denial | None:
    if wanted.profiles:
        return None
    return Denial("denied", "the profile of the implicit agent cannot be read")


def _unpriced(state: SupervisorState, ancestry: list[Record], wanted: Wanted) -> Denial | None:
    """Deny if a cost limit applies to a model without known prices."""
    is_costed = wanted.request.limits.cost_usd is not None or any(
        record.budget.micro_usd is not None for record in ancestry
    )
    for profile, _ in wanted.profiles:
        unpriced = profile.own_model(ancestry[-1].model).unpriced
        if unpriced and (is_costed or profile.limits.cost_usd is not None):
            return Denial("denied", f"a cost limit applies and the prices of {unpriced} are not known")
    return None


def _forbidden(state: SupervisorState, ancestry: list[Record], wanted: Wanted) -> Denial | None:
    """Deny if one of the agents would begin with a model that it may not use."""
    for profile, _ in wanted.profiles:
        if refusal := child_refusal(ancestry[-1], profile):
            return Denial("denied", refusal)
    return None


CHECKS_OF_PROFILES: Final[tuple[Check, ...]] = (_unfit, _unpriced, _forbidden)
"""The checks that another definition of an agent may fail."""

CHECKS: Final[tuple[Check, ...]] = (
    _too_many_agents,
    _too_many_children,
    _unfit,
    _over_budget,
    _unreadable,
    _unpriced,
    _forbidden,
)
"""In this order: the first objection is the one that the parent's model reads."""
