"""Sessions that share the capacity of one runtime: one scenario for each way in which places come and go.

The first two are small enough to try every order. A model's name is `scripted` unless a profile says other.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.session.capacity import Capacity
from callboard.replay.testing.sessions.capacity_world import SharedScenario
from callboard.replay.testing.sessions.faults import Faults, faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from tests.mutants.scripts import BUSY, DONE, by_place, race, script

ONE_CALL: Final = {"scripted": Capacity(calls=1)}
CANCEL: Final = faults("cancel", most=1, fault_mixes=0)
DETACH: Final = faults("detach", most=1, fault_mixes=0)
DETACH_TWICE: Final = faults("detach", most=2, fault_mixes=0)
CANCEL_AND_DETACH: Final = faults("cancel", "detach", most=2, fault_mixes=0)
CRASH: Final = faults("crash", most=1, fault_mixes=0)
KIDS: Final = script(host=[calls(task("kid"), task("kid")), DONE])
PEOPLE: Final = (profile("host", ["kid"]), profile("kid"))


def alone(given: Faults | None = None) -> Scenario:
    """Build a session of one call."""
    return Scenario([profile("host")], script(), [ask()], faults=given or Faults())


def family(given: Faults | None = None, limits: Limits = Limits(), policy=KIDS) -> Scenario:  # type: ignore[no-untyped-def]  # noqa: B008  # a policy of any kind; limits never change
    """Build a session with two children that want their calls at once."""
    return Scenario(PEOPLE, policy, [ask(limits=limits)], faults=given or Faults())


def on(model: str, who: Profile, max_tokens: int = 100) -> Profile:
    """Give a profile another model."""
    return replace(who, model=ModelSpec(model, max_tokens))


def pair() -> SharedScenario:
    """Build two sessions for one call."""
    return SharedScenario({"a": alone(), "b": alone()}, ONE_CALL)


def stop_while_waiting() -> SharedScenario:
    """Build a session that may be cancelled at any moment, beside one that is not."""
    return SharedScenario({"a": alone(), "b": alone(CANCEL)}, ONE_CALL)


def crash_of_one() -> SharedScenario:
    """Build a session whose process may end at any moment and lose any part of its log, beside another."""
    return SharedScenario({"a": alone(CRASH), "b": alone()}, ONE_CALL)


def detach() -> SharedScenario:
    """Build a session that may be detached at any moment, and come back, beside one that is not."""
    return SharedScenario({"a": alone(DETACH), "b": alone()}, ONE_CALL)


def stop_and_detach() -> SharedScenario:
    """Build a session that is cancelled, and whose new process may be the first to stop its agent."""
    return SharedScenario({"a": alone(CANCEL_AND_DETACH)}, ONE_CALL)


def detach_twice() -> SharedScenario:
    """Build a session whose second process may detach while its call waits for a place, beside another."""
    return SharedScenario({"a": alone(DETACH_TWICE), "b": alone()}, ONE_CALL)


def leave() -> SharedScenario:
    """Build a session that may leave the runtime at any moment, with all of its log, and come back."""
    return SharedScenario({"a": alone(), "b": alone()}, ONE_CALL, leaves=("a",))


def crash_of_all() -> SharedScenario:
    """Build a process that ends at any moment, and whose sessions are all resumed at once."""
    return SharedScenario({"a": alone(), "b": alone()}, ONE_CALL, crashes=1)


def two_models() -> SharedScenario:
    """Build a session whose child uses the model of the other session's host."""
    own = script(host=[calls(task("kid")), DONE])
    mixed = Scenario([profile("host", ["kid"]), on("other", profile("kid"))], own, [ask()])
    other = Scenario([on("other", profile("host"))], script(), [ask()])
    return SharedScenario(
        {"a": mixed, "b": other}, {"scripted": Capacity(calls=1), "other": Capacity(calls=1)}
    )


def above_the_bucket() -> SharedScenario:
    """Build calls that need more than the bucket holds, with a usage that is known or not."""
    unknown = script(host=[Reply("done", usage=None, percent=None)])
    large = Scenario([profile("host", max_tokens=500)], unknown, [ask()])
    small = Scenario([profile("host", max_tokens=10)], script(), [ask(), ask(request_id="r2")])
    return SharedScenario({"a": large, "b": small}, {"scripted": Capacity(tokens_per_minute=150)})


SMALL: Final = (
    pair,
    stop_while_waiting,
    detach,
    stop_and_detach,
    detach_twice,
    leave,
    crash_of_all,
    two_models,
    above_the_bucket,
)
"""Scenarios of one or two sessions in which every order can be tried."""


def turns() -> SharedScenario:
    """Build four sessions, of which one wants most of the calls."""
    many = script(host=[calls(*[task("kid")] * 4), DONE])
    return SharedScenario(
        {"a": family(policy=many), "b": family(), "c": alone(), "d": alone()}, {"scripted": Capacity(calls=2)}
    )


def tagged() -> SharedScenario:
    """Build a crowd of one tag beside sessions of another one and of none, some of which may go."""
    many = script(host=[calls(*[task("kid")] * 3), DONE])
    chosen = faults("cancel", "detach", most=1, fault_mixes=3, seed=13)
    return SharedScenario(
        {
            "a": family(policy=many),
            "b": family(),
            "c": family(chosen),
            "d": family(policy=many),
            "e": alone(chosen),
        },
        {"scripted": Capacity(calls=1, fair_by="of:*")},
        leaves=("b",),
        tags={"a": ("of:x", "x"), "b": ("of:x",), "c": ("of:y", "of:x"), "d": ("of:y",), "e": ("of",)},
    )


def stops() -> SharedScenario:
    """Build races whose losers wait for a place, hold one, or are called when they are stopped."""
    racing = script(
        host=[calls(race("kid", "kid", "kid")), DONE],
        kid=[by_place(DONE, DONE, calls(("none", {})))],
    )
    chosen = faults("cancel", "close", "jump", "unstarted", most=3, fault_mixes=7, seed=3)
    late = Limits(deadline_s=5)
    return SharedScenario(
        {"a": family(chosen, late, racing), "b": family(chosen, late, racing), "c": family()},
        {"scripted": Capacity(calls=2)},
    )


def retries() -> SharedScenario:
    """Build calls that fail and are made again, within budgets, a slot and a bucket."""
    policy = script(
        host=[calls(task("kid"), task("kid")), DONE],
        kid=[lambda request: Reply(failure=BUSY, usage=None) if request.attempt == 1 else DONE],
    )
    people = [profile("host", ["kid"]), profile("kid", max_tokens=50)]
    chosen = faults("timeout", "overloaded", "twice", "greedy", "unmetered", fault_mixes=7, seed=9)
    limits = Limits(max_parallel_calls=1, tokens=4_250, max_result_chars=50)
    busy = Scenario(people, policy, [ask(), ask(request_id="r2")], limits, closes=True, faults=chosen)
    return SharedScenario({"a": busy, "b": busy}, {"scripted": Capacity(calls=1, tokens_per_minute=700)})


def crashes() -> SharedScenario:
    """Build families whose processes die, alone or together, with all that they hold and wait for."""
    chosen = faults("crash", "detach", "fence", "refuse", "crashes", most=2, fault_mixes=7, seed=5)
    return SharedScenario(
        {"a": family(chosen), "b": family(chosen), "c": family()}, {"scripted": Capacity(calls=2)}, crashes=1
    )


def families_leave() -> SharedScenario:
    """Build families that may leave the runtime with several requests and places, and come back."""
    many = script(host=[calls(*[task("kid")] * 4), DONE])
    return SharedScenario({"a": family(policy=many), "b": alone()}, ONE_CALL, leaves=("a",))


def buckets() -> SharedScenario:
    """Build three sessions that wait for tokens and for calls, with a need above the bucket among them."""
    used = script(
        host=[calls(task("kid"), task("kid")), Reply("done", percent=100)], kid=[Reply("x", percent=50)]
    )
    large = Scenario([profile("host", ["kid"]), profile("kid", max_tokens=900)], used, [ask()])
    chosen = faults("cancel", "timeout", "error", "jump", most=3, fault_mixes=7, seed=11)
    late = Limits(deadline_s=50)
    return SharedScenario(
        {"a": large, "b": family(chosen, late, used), "c": family(chosen, late)},
        {"scripted": Capacity(calls=3, tokens_per_minute=800)},
    )


def parked() -> SharedScenario:
    """Build agents that wait for a budget which one in line for a place reserves until its deadline."""
    greedy = replace(calls(task("late"), task("kid"), task("kid")), percent=100)
    policy = script(host=[greedy, DONE])
    people = [
        profile("host", ["late", "kid"]),
        profile("late", limits=Limits(deadline_s=1)),
        profile("kid", limits=Limits(deadline_s=3)),
    ]
    tight = Scenario(
        people,
        policy,
        [ask()],
        Limits(tokens=4_860, max_result_chars=50),
        faults=faults("jump", most=2, fault_mixes=0),
    )
    return SharedScenario({"a": tight, "b": family()}, ONE_CALL)


def one_ask_after_the_other() -> SharedScenario:
    """Build sessions that ask again after an ask that is cancelled anywhere."""
    chosen = faults("cancel", most=4, fault_mixes=0)
    asks = [ask(request_id=f"r{n}") for n in range(4)]
    return SharedScenario({"a": Scenario([profile("host")], script(), asks, faults=chosen)}, ONE_CALL)


def one_ask_after_a_detach() -> SharedScenario:
    """Build sessions that ask again after an ask that is cancelled, detached, or both."""
    asks = [ask(), ask(request_id="r2")]
    one = Scenario([profile("host")], script(), asks, faults=CANCEL_AND_DETACH)
    return SharedScenario({"a": one, "b": one}, ONE_CALL)


SHARED: Final[Mapping[str, SharedScenario]] = {
    one.__name__: one()
    for one in (
        *SMALL,
        crash_of_one,
        turns,
        tagged,
        stops,
        retries,
        crashes,
        families_leave,
        buckets,
        parked,
        one_ask_after_the_other,
        one_ask_after_a_detach,
    )
}
"""By name, in the order in which runs are made."""
