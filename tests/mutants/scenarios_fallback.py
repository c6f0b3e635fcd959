"""Sessions of agents that ask several models, each of which may fail anywhere.

The models differ in all that a request for a turn depends on: prices, the length of an answer, their place.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.failures import PASSING
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Prices, PriceTier
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.actors.session.capacity import Capacity
from callboard.replay.testing.sessions.capacity_world import SharedScenario
from callboard.replay.testing.sessions.faults import Faults, faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Policy, Reply, calls, report, task
from tests.mutants.scripts import DONE, LOOK, SCHEMA, script

PRICES: Final = Prices(input_usd=3, output_usd=15)
SECOND: Final = ModelSpec("second", 40, prices=Prices(input_usd=4, output_usd=40))
THIRD: Final = ModelSpec("third", 250, prices=Prices(input_usd=5, output_usd=5))
EVERY_KIND: Final = (*PASSING, "context_full", "refusal")

IMAGE: Final = Json(b'[{"type":"image","source":{"type":"url","url":"https://example.org/a.png"}}]')

BUSY: Final = Reply(failure=ModelFailure("overloaded_error", is_retryable=True), usage=None)
LIMITED: Final = Reply(
    failure=ModelFailure("rate_limit_error", is_retryable=True, retry_after_ms=90_000),
)
FULL: Final = Reply(failure=ModelFailure("context_full"))
GARBAGE: Final = Reply(failure=ModelFailure("garbage", is_retryable=True))
REFUSAL: Final = Reply("I will not.", stop_reason="refusal")


def failing(policy: Policy, which: Callable[[ModelRequest], Reply | None]) -> Policy:
    """Change a policy: a call fails so if `which` has a failure for it."""
    return lambda request: which(request) or policy(request)


def _of(table: Mapping[tuple[str, int], Reply]) -> Callable[[ModelRequest], Reply | None]:
    return lambda request: table.get((request.model.name, request.attempt))


FAMILY: Final = script(
    host=[calls(task("kid"), task("kid")), calls(LOOK), DONE],
    kid=[calls(LOOK), report({"n": 1})],
)


def _people(limits: Limits = Limits()) -> list:  # type: ignore[type-arg]  # noqa: B008  # limits never change
    return [
        profile("host", ["kid"], ["look"], prices=PRICES, fallback=[SECOND], limits=limits),
        profile(
            "kid",
            [],
            ["look"],
            schema=SCHEMA,
            prices=PRICES,
            fallback=[SECOND, THIRD],
            fallback_on=EVERY_KIND,
        ),
    ]


def anywhere() -> Scenario:
    """Build a family in which each model may fail at any call, in any way."""
    chosen = faults(
        "error", "overloaded", "timeout", "garbage", "refusal", "full", "unmetered", "greedy", "jump",
        most=6, fault_mixes=15, seed=31,
    )  # fmt: skip
    return Scenario(_people(), FAMILY, [ask(), ask(request_id="r2")], closes=True, faults=chosen)


def first_fails() -> Scenario:
    """Build a family whose first model is always busy, within budgets that the second one's needs fill."""
    policy = failing(FAMILY, lambda request: BUSY if request.model.name == "scripted" else None)
    limits = Limits(tokens=40_000, cost_usd=0.2, max_result_chars=50, max_parallel_calls=2)
    chosen = faults("overloaded", "greedy", "unmetered", "cancel", most=4, fault_mixes=7, seed=7)
    asks = [ask(), ask(request_id="r2")]
    return Scenario(_people(), policy, asks, limits, closes=True, faults=chosen)


def rounds() -> Scenario:
    """Build calls for which all models fail, once or until no attempt is left, each in its own way."""
    table = {
        ("scripted", 1): LIMITED, ("second", 2): FULL, ("third", 3): BUSY, ("third", 4): BUSY,
        ("scripted", 5): REFUSAL,
    }  # fmt: skip
    kid, host = _of(table), _of({("scripted", 1): LIMITED, ("second", 2): BUSY})
    policy = failing(FAMILY, lambda request: kid(request) if request.profile == "kid" else host(request))
    chosen = faults("overloaded", "refusal", "full", "crash", most=3, fault_mixes=7, seed=5)
    return Scenario(_people(), policy, [ask(), ask(request_id="r2")], faults=chosen)


def refused_by_all() -> Scenario:
    """Build agents that every model refuses, for good; for the host that is the end at once."""
    policy = failing(FAMILY, lambda request: REFUSAL if request.profile == "kid" else None)
    chosen = faults("refusal", "overloaded", most=2, fault_mixes=0)
    return Scenario(_people(), policy, [ask()], faults=chosen)


def processes() -> Scenario:
    """Build fallbacks under way when the process ends, in either way, at any event."""
    policy = failing(FAMILY, _of({("scripted", 1): BUSY, ("second", 2): BUSY}))
    chosen = faults("crash", "detach", "overloaded", most=3, fault_mixes=7, seed=17)
    return Scenario(_people(), policy, [ask(), ask(request_id="r2")], closes=True, faults=chosen)


def small(given: Faults | None = None) -> Scenario:
    """Build one agent whose first model fails, small enough to try every order."""
    policy = failing(script(host=[calls(LOOK), DONE]), _of({("scripted", 1): BUSY}))
    host = profile("host", [], ["look"], prices=PRICES, fallback=[SECOND])
    return Scenario([host], policy, [ask()], faults=given or Faults())


def crashes() -> Scenario:
    """Build the same with a crash at any event and any part of the log lost."""
    return small(faults("crash", most=1, fault_mixes=0))


def attempts() -> Scenario:
    """Build agents with few attempts for all models together."""
    policy = failing(FAMILY, lambda request: BUSY if request.attempt < 4 else None)
    return Scenario(
        _people(Limits(max_model_attempts=3)), policy, [ask()], faults=faults("overloaded", fault_mixes=0)
    )


def tiers() -> Scenario:
    """Build calls of all that they may use, whose prompts are long enough for dearer prices."""
    tier = PriceTier(input_usd=30, output_usd=150, above_tokens=1_100)
    prices = Prices(input_usd=3, output_usd=15, tiers=(tier,))
    policy = script(
        host=[calls(task("kid"), task("kid")), DONE],
        kid=[replace(calls(LOOK), percent=100), replace(DONE, percent=100)],
    )
    people = [
        profile("host", ["kid"], prices=prices),
        profile("kid", [], ["look"], prices=prices, max_tokens=60),
    ]
    limits = Limits(cost_usd=0.13, max_result_chars=50)
    return Scenario(people, policy, [ask()], limits, faults=faults("overloaded", fault_mixes=0))


def images() -> Scenario:
    """Build agents that are shown images by their address, with models that state the most tokens, or not."""

    def shows(address: str, call: CallTool) -> ToolReturned:
        return ToolReturned(call.turn, call.call, output=IMAGE)

    policy = script(
        host=[calls(task("seer"), task("stater"), task("guesser")), DONE],
        seer=[calls(LOOK), DONE],
        stater=[calls(LOOK), calls(LOOK), DONE],
        guesser=[calls(LOOK), DONE],
    )
    stated = ModelSpec("scripted", 60, image_tokens=500, checks_usage=True)
    guess = ModelSpec("scripted", 60, image_tokens=500)
    people = [
        profile("host", ["seer", "stater", "guesser"]),
        replace(profile("seer", [], ["look"]), model=ModelSpec("scripted", 60)),
        replace(profile("stater", [], ["look"]), model=stated),
        replace(
            profile("guesser", [], ["look"]),
            model=replace(guess, fallback=(ModelSpec("second", 60),), fallback_on=PASSING),
        ),
    ]
    chosen = faults("overloaded", "greedy", "unmetered", "crash", most=3, fault_mixes=7, seed=9)
    limits = Limits(tokens=30_000, max_result_chars=50)
    return Scenario(people, policy, [ask()], limits, tool=shows, faults=chosen)


def at_a_limit() -> SharedScenario:
    """Build sessions whose models have one place each, and whose first one is busy."""
    policy = failing(script(host=[calls(LOOK), DONE]), _of({("scripted", 1): BUSY, ("second", 2): BUSY}))
    chosen = faults("overloaded", "cancel", most=2, fault_mixes=7, seed=3)
    one = Scenario(
        [profile("host", [], ["look"], prices=PRICES, fallback=[replace(SECOND, max_tokens=400)])],
        policy,
        [ask(), ask(request_id="r2")],
        faults=chosen,
    )
    capacity = {"scripted": Capacity(calls=1), "second": Capacity(calls=1, tokens_per_minute=900)}
    return SharedScenario({"a": one, "b": one}, capacity)


FALLBACK: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (anywhere, first_fails, rounds, refused_by_all, processes, crashes, attempts, tiers, images)
}
"""By name, in the order in which runs are made."""

HUNTED: Final[Mapping[str, Scenario | SharedScenario]] = {**FALLBACK, "at_a_limit": at_a_limit()}
"""The same with the one that shares the capacity of a runtime: those in which mutants are hunted."""
