"""Sessions with background tasks, and with words for running agents."""

from collections.abc import Mapping, Sequence
from typing import Final

from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import OnFinish
from callboard.actors.protocol.prompts import TASK_CANCEL, TASK_WAIT
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.testing.sessions.faults import NO_FAULTS, Faults, faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile, tell
from callboard.replay.testing.sessions.scripted_replies import Reply, Use, calls, report, task
from tests.mutants.scripts import BAD, GOOD, LOOK, SCHEMA, Line, greedy, race, script

CRASHES = faults("crash", most=1, fault_mixes=0)
"""A crash at every event, each once."""

SO_FAR = Reply("so far")
LAST = Reply("that is all")


def behind(agent: str = "kid", prompt: str = "work", **more: object) -> Use:
    """Build a background delegation."""
    return task(agent, prompt, background=True, **more)


def heard(request: ModelRequest) -> Reply:
    """Answer with the number of ends and of words that this request has brought."""
    last = bytes(request.messages[-1])
    ends, words = last.count(b"has ended:"), last.count(b"while you work")
    return Reply(f"heard {ends} ends and {words} words")


def lead(
    *host: Line,
    kid: Sequence[Line] = (LAST,),
    limits: Limits | None = None,
    host_limits: Limits | None = None,
    on_finish: OnFinish = "wait",
    schema: object = None,
    expects: Sequence[OutcomeKind] = ("answered",),
    is_uncontended: bool = True,
    tells: Sequence[tuple[str, str]] = (),
    chosen: Faults = NO_FAULTS,
    percent: int | None = None,
) -> Scenario:
    """Build a session in which the host starts background tasks of `kid`. tells: text and address."""
    policy = script(host=list(host), kid=list(kid), helper=[LAST])
    people = [
        profile(
            "host",
            ["kid"],
            ["look"],
            background=True,
            on_finish=on_finish,
            limits=host_limits or Limits(),
        ),
        profile("kid", ["helper"], ["look"], background=True),
        profile("helper"),
    ]
    return Scenario(
        people,
        policy if percent is None else greedy(policy, percent),
        [ask(schema=schema)],
        limits or Limits(),
        faults=chosen,
        tells=[tell(text, who, f"t{at}") for at, (text, who) in enumerate(tells)],
        is_uncontended=is_uncontended,
        expects=expects,
    )


def two_tasks() -> Scenario:
    """Build two tasks whose ends wake the host once: a turn for each end would be one too many."""
    return lead(calls(behind(), behind()), SO_FAR, heard, host_limits=Limits(max_iterations=3))


def nested_tasks() -> Scenario:
    """Build a task that starts a task itself."""
    return lead(calls(behind()), SO_FAR, heard, kid=[calls(behind("helper")), SO_FAR, heard])


def cancelled_race() -> Scenario:
    """Build a race in the background that the host cancels, twice, and waits for."""
    both = calls((TASK_CANCEL, {"task": "host.1"}), (TASK_CANCEL, {"task": "host.1"}), (TASK_WAIT, {}))
    raced = race("kid", "kid")
    started = calls((raced[0], {**dict(raced[1]), "background": True}))  # type: ignore[call-overload]  # the arguments of a race are a dict
    return lead(started, both, LAST, kid=[calls(LOOK), LAST])


def first_of_two() -> Scenario:
    """Build a host that waits for the first of two tasks, and then for both."""
    wait = calls((TASK_WAIT, {"any": True}))
    both = calls((TASK_WAIT, {"tasks": ["host.1", "host.2"]}), (TASK_WAIT, {"tasks": ["host.9"]}))
    return lead(calls(behind(), behind()), wait, both, LAST)


def all_of_two() -> Scenario:
    """Build a host that waits for both of its tasks by a call."""
    return lead(calls(behind(), behind()), calls((TASK_WAIT, {})), LAST)


def started_and_awaited() -> Scenario:
    """Build a reply that starts two tasks, one of them in vain, and waits for all."""
    reply = calls(behind(), behind("nobody"), behind(output_schema={"bad": True}), (TASK_WAIT, {}))
    return lead(reply, heard)


def words_anywhere() -> Scenario:
    """Build words for a host that works, waits, is parked or has ended, and for its task."""
    return lead(
        calls(behind()),
        SO_FAR,
        LAST,
        LAST,
        LAST,
        tells=[("hurry", "host"), ("stop", "host.1"), ("slow", "host")],
        is_uncontended=False,
    )


def words_at_the_cap() -> Scenario:
    """Build words for a host that has one turn left for the end of its task."""
    return lead(
        calls(behind()),
        SO_FAR,
        LAST,
        host_limits=Limits(max_iterations=3),
        tells=[("hurry", "host")],
        is_uncontended=False,
    )


def words_without_budget() -> Scenario:
    """Build words at the last word of a host whose budget allows no further turn."""
    return lead(
        Reply("the answer"),
        LAST,
        limits=Limits(tokens=5_000),
        percent=100,
        tells=[("hurry", "host")],
        is_uncontended=False,
    )


def words_in_a_wait() -> Scenario:
    """Build words for a host that waits for a task by a call, and then cancels it."""
    return lead(
        calls(behind()),
        calls((TASK_WAIT, {})),
        calls((TASK_CANCEL, {"task": "host.1"})),
        LAST,
        LAST,
        kid=[calls(LOOK), calls(LOOK), LAST],
        tells=[("hurry", "host")],
        is_uncontended=False,
    )


def one_of_two_cancelled() -> Scenario:
    """Build two tasks, of which the host cancels the second."""
    cancel = calls((TASK_CANCEL, {"task": "host.2"}))
    return lead(calls(behind(), behind()), cancel, LAST, LAST, kid=[calls(LOOK), LAST])


def words_taken_back() -> Scenario:
    """Build words in a turn that waits for the only slot when its ask is cancelled, and another ask."""
    made = lead(
        calls(behind(), behind()),
        calls(LOOK),
        LAST,
        limits=Limits(max_parallel_calls=1),
        tells=[("hurry", "host")],
        chosen=faults("cancel", most=1, fault_mixes=0),
    )
    return Scenario(
        made.profiles,
        made.policy,
        [ask(), ask("more", request_id="r2")],
        made.limits,
        faults=made.faults,
        tells=made.tells,
    )


def one_slot() -> Scenario:
    """Build tasks and a parked host that share one slot for model calls."""
    return lead(calls(behind(), behind()), SO_FAR, heard, limits=Limits(max_parallel_calls=1))


def small_budget() -> Scenario:
    """Build tasks that use all that their host leaves them: its turn for their ends must still fit."""
    return lead(
        calls(behind(), behind()),
        SO_FAR,
        LAST,
        kid=[calls(LOOK)] * 8,
        limits=Limits(tokens=15_000, max_iterations=10),
        percent=100,
        is_uncontended=False,
        expects=("answered",),
    )


def report_with_tasks() -> Scenario:
    """Build a host that reports, wrongly first, while its task runs."""
    return lead(
        calls(behind()),
        calls(BAD),
        calls(GOOD),
        kid=[calls(LOOK)] * 3,
        schema=SCHEMA,
        expects=("reported",),
    )


def silent_with_report() -> Scenario:
    """Build a host that owes a report, falls silent while its task runs, and again after it."""
    return lead(calls(behind()), SO_FAR, SO_FAR, report({"n": 1}), schema=SCHEMA, expects=("reported",))


def cancels_at_the_end() -> Scenario:
    """Build a host whose last word ends its tasks, and a second ask that reads of it."""
    made = lead(
        calls(behind()),
        LAST,
        heard,
        kid=[calls(LOOK)] * 4,
        on_finish="cancel",
        is_uncontended=False,
        expects=("answered", "answered"),
    )
    return Scenario(
        made.profiles,
        made.policy,
        [ask(), ask("more", request_id="r2")],
        expects=made.expects,
        faults=faults("cancel", "crash", fault_mixes=7, seed=3),
    )


def no_turn_left() -> Scenario:
    """Build a host without a turn for the end of its task."""
    return lead(calls(behind()), SO_FAR, host_limits=Limits(max_iterations=2), expects=("iteration_cap",))


def crowded() -> Scenario:
    """Build a host that starts one task more than it may have, turn after turn."""
    return lead(
        calls(behind(), behind()),
        calls(behind()),
        SO_FAR,
        heard,
        kid=[calls(LOOK), calls(LOOK), LAST],
        host_limits=Limits(max_children=2),
        is_uncontended=False,
    )


def rough_tasks() -> Scenario:
    """Build tasks and words under cancels, crashes and failing actors."""
    return lead(
        calls(behind(), behind("kid", output_schema=SCHEMA), task("kid")),
        calls((TASK_WAIT, {"any": True}), LOOK),
        SO_FAR,
        LAST,
        kid=[calls(behind("helper"), LOOK), SO_FAR, report({"n": 1})],
        tells=[("hurry", "host"), ("stop", "host.1")],
        is_uncontended=False,
        expects=(),
        chosen=faults("cancel", "crash", "detach", "crashes", "overloaded", fault_mixes=15, seed=11),
    )


def failing() -> Scenario:
    """Build a host whose actor may fail on words and on ends of tasks, during its calls and before them."""
    return lead(
        calls(behind(), behind()),
        calls(("none", {})),
        LAST,
        LAST,
        tells=[("hurry", "host"), ("slow", "host")],
        is_uncontended=False,
        expects=(),
        chosen=faults("crashes", most=2, fault_mixes=0),
    )


SMALL = (
    two_tasks, nested_tasks, cancelled_race, first_of_two, all_of_two, started_and_awaited, words_anywhere,
    words_at_the_cap, words_without_budget, words_in_a_wait, words_taken_back, one_of_two_cancelled,
    one_slot, small_budget, report_with_tasks, silent_with_report, no_turn_left, crowded,
)  # fmt: skip
"""Those small enough to be explored to the end."""

BACKGROUND: Final[Mapping[str, Scenario]] = {
    one.__name__: one() for one in (*SMALL, cancels_at_the_end, rough_tasks, failing)
}
"""By name, in the order in which runs are made."""
