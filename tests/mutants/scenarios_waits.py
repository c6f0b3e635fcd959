"""Sessions with calls that wait for tasks by name, tasks that are denied before they begin, and words told
one after the other.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.prompts import TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults, faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, tell
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, calls, task
from tests.mutants.scenarios_background import LAST, SO_FAR, behind, heard
from tests.mutants.scripts import BUSY, LOOK, PRICES, REFUSED, SCHEMA, Line, race, script

LONG: Final = (calls(LOOK), calls(LOOK), LAST)


def wait(*names: str, first: bool = False) -> Use:
    """Build a call that waits for these tasks; without names for all. first: until the first has ended."""
    return TASK_WAIT, {"tasks": list(names), "any": first} if names else {"any": first}


def cancel(name: str) -> Use:
    """Build a call that cancels a task."""
    return TASK_CANCEL, {"task": name}


def _waiting(
    *host: Line,
    tells: Sequence[tuple[str, str]] = (),
    chosen: Faults = NO_FAULTS,
) -> Scenario:
    """Build a host with three kinds of tasks: `kid` ends soon, `slow` later, and `boss` has a task itself."""
    policy = script(
        host=list(host),
        kid=[LAST],
        slow=list(LONG),
        boss=[calls(behind("kid"), behind("slow")), calls(wait("host.3.1", "host.1")), SO_FAR, heard],
    )
    people = [
        profile("host", ["kid", "slow", "boss"], ["look"], background=True),
        profile("kid", [], ["look"]),
        profile("slow", [], ["look"]),
        profile("boss", ["kid", "slow"], background=True),
    ]
    told = [tell(text, who, f"t{at}") for at, (text, who) in enumerate(tells)]
    return Scenario(
        people,
        policy,
        [ask()],
        faults=chosen,
        tells=told,
        expects=("answered",),
    )


START: Final = calls(behind("kid"), behind("slow"), behind("slow"))


def some_of_three() -> Scenario:
    """Build a host that waits for two of three tasks, for the first of two, and for one that has ended."""
    return _waiting(
        START,
        calls(wait("host.1", "host.3")),
        calls(wait("host.2", "host.3", first=True)),
        calls(wait("host.9", "host.2", first=True)),
        calls(wait("host.9", "host.2")),
        heard,
    )


def first_of_named() -> Scenario:
    """Build a host that waits for the first of two of its three tasks, and the other is the fastest."""
    return _waiting(
        START, calls(wait("host.2", "host.3", first=True)), calls(wait("host.1", "host.2")), heard
    )


def waits_side_by_side() -> Scenario:
    """Build replies with several waits, also beside tasks that they start, or start in vain."""
    return _waiting(
        START,
        calls(wait("host.1"), wait("host.2", "host.3"), wait("host.1", "host.3", first=True)),
        calls(behind("slow"), wait("host.2"), wait("host.3", first=True)),
        calls(behind("slow", output_schema=REFUSED), wait("host.4"), behind("kid"), wait()),
        heard,
    )


def starts_and_names() -> Scenario:
    """Build a reply that starts a task and waits for an earlier one, which ends first."""
    return _waiting(
        calls(behind("kid")),
        calls(behind("slow"), wait("host.1")),
        calls(wait("host.1", "host.1.1", first=True), task("kid")),
        heard,
    )


def names_of_others() -> Scenario:
    """Build agents that name tasks of others: of a child, of a parent, and none at all."""
    return _waiting(
        calls(behind("slow"), behind("kid"), behind("boss")),
        calls(wait("host.3.1"), wait("host")),
        calls(wait("host.3.2", "host.1")),
        calls(cancel("host.3.1"), cancel("host.3"), wait("host.2")),
        heard,
    )


def words_at_named_waits() -> Scenario:
    """Build words for a host that waits for tasks by name, and cancels one."""
    return _waiting(
        calls(behind("slow"), behind("slow")),
        calls(wait("host.1")),
        calls(cancel("host.2"), wait("host.1", "host.2")),
        calls(wait("host.1", "host.9")),
        LAST,
        LAST,
        tells=[("hurry", "host"), ("slow down", "host")],
        chosen=faults("cancel", "crash", "crashes", most=1, fault_mixes=3, seed=5),
    )


def words_at_a_cancel() -> Scenario:
    """Build words for a host that cancels its tasks, one after the other."""
    return _waiting(
        calls(behind("slow"), behind("slow"), behind("slow")),
        calls(cancel("host.1")),
        calls(cancel("host.2")),
        calls(cancel("host.3"), wait("host.3")),
        LAST,
        tells=[("hurry", "host"), ("slow down", "host"), ("go on", "host")],
    )


# --- tasks that are denied before they begin --------------------------------------------


def _denied(*, is_priced: bool, chosen: Faults = NO_FAULTS) -> Scenario:
    """Build a host whose tasks are denied by the checks of their schemas and contexts, within a budget."""
    policy = script(
        host=[
            calls(behind("kid", output_schema=REFUSED), behind("kid"), LOOK),
            calls(behind("odd"), behind("kid", output_schema={**SCHEMA, "title": "a"}), task("kid")),
            calls(_race_behind(REFUSED), behind("odd")),
            calls(wait()),
            calls(behind("kid", output_schema=REFUSED), LOOK),
            heard,
        ],
        kid=[LAST],
    )
    prices = PRICES if is_priced else None
    people = [
        profile("host", ["kid", "odd"], ["look"], background=True, prices=prices),
        profile("kid", [], ["look"], prices=prices),
        profile("odd", context="c", prices=prices),
    ]
    limits = Limits(cost_usd=1.0) if is_priced else Limits(tokens=60_000)
    return Scenario(people, policy, [ask()], limits, context=no_context, faults=chosen)


def _race_behind(schema: object) -> Use:
    name, arguments = race("kid", "kid", schema=schema)
    assert isinstance(arguments, dict)
    return name, {**arguments, "background": True}


def no_context(view: object) -> str:
    """Fail to make a context."""
    raise ValueError("no context")


def denied_tasks() -> Scenario:
    """Build denied tasks within a budget of tokens."""
    return _denied(is_priced=False)


def denied_and_priced() -> Scenario:
    """Build denied tasks within a budget of dollars, by checks that may fail, in processes that may end."""
    return _denied(
        is_priced=True,
        chosen=faults("cancel", "unchecked", "unmade", "crash", "detach", "crashes", most=2, fault_mixes=7),
    )


# --- words, one after the other ---------------------------------------------------------


def words_in_line() -> Scenario:
    """Build words for agents whose requests wait for the only slot: some are told after each wish."""
    policy = script(
        host=[calls(behind("slow"), behind("slow")), calls(LOOK), calls(LOOK), SO_FAR, LAST, LAST, LAST],
        slow=list(LONG),
    )
    people = [
        profile("host", ["slow"], ["look"], background=True),
        profile("slow", [], ["look"]),
    ]
    return Scenario(
        people,
        policy,
        [ask()],
        Limits(max_parallel_calls=1),
        tells=[tell(f"word {n}", "host", f"t{n}") for n in range(5)],
    )


def words_at_retries() -> Scenario:
    """Build words for an agent whose calls fail at first, so that some are told between two attempts."""
    made = script(host=[calls(LOOK), calls(LOOK), calls(LOOK), LAST, LAST, LAST])

    def policy(request: ModelRequest) -> Reply:
        return Reply(failure=BUSY, usage=None) if request.attempt == 1 else made(request)

    people = [profile("host", [], ["look"])]
    told = [tell(f"word {n}", "host", f"t{n}") for n in range(4)]
    return Scenario(people, policy, [ask()], tells=told, faults=faults("cancel", most=1, fault_mixes=0))


WAITS: Final[Mapping[str, Scenario]] = {
    one.__name__: one()
    for one in (
        some_of_three,
        first_of_named,
        waits_side_by_side,
        starts_and_names,
        names_of_others,
        words_at_named_waits,
        words_at_a_cancel,
        denied_tasks,
        denied_and_priced,
        words_in_line,
        words_at_retries,
    )
}
"""By name, in the order in which runs are made."""
