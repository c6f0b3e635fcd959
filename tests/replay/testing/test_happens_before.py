"""Steps that a rule does not need: those left out can be lost, and nothing that is shown can."""

from collections.abc import Collection, Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from callboard import Agent, Call, ModelRequest, Reply, call, calls, say, tool
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.happens_before import Order, in_conflict, unneeded_steps
from callboard.replay.testing.monitors import Always, always, at_rest
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.shrink import Shrunk, run_candidate
from callboard.replay.testing.world import MakeWorld, Step, by_strand
from callboard.testing import explore as explore_session
from tests.replay.testing.random_programs import RandomProgram, worlds


def steps(*parts: str) -> Sequence[Step]:
    """Parse steps of the form "sender>recipient cause [touched]"."""
    found = []
    for seq, part in enumerate(parts, 1):
        strand, cause, *touched = part.split()
        sender, recipient = strand.split(">")
        found.append(Step(seq, strand, "deliver", sender, recipient, "", int(cause), tuple(touched)))
    return found


def bits(*indices: int) -> int:
    return sum(1 << index for index in indices)


def test_steps_conflict_if_they_have_one_actor_or_touch_the_same_thing() -> None:
    a, b, c, d = steps("x>a 0", "y>a 0", "x>c 0 inbox", "x>d 0 inbox")
    assert in_conflict(a, b)
    assert not in_conflict(a, c)
    assert in_conflict(c, d)
    assert not in_conflict(*steps("x>a 0 one", "x>b 0 other"))


def test_before_a_step_is_all_that_led_to_it() -> None:
    order = Order(steps("x>a 0", "y>b 0", "a>b 1", "b>c 3"))
    assert order.before == [0, 0, bits(0, 1), bits(0, 1, 2)]


def test_messages_from_two_senders_to_one_actor_race() -> None:
    assert Order(steps("x>a 0", "y>a 0")).races() == [(0, 1)]


def test_a_message_and_its_answer_do_not_race() -> None:
    assert Order(steps("x>a 0", "a>b 1", "b>a 2")).races() == []


def test_a_post_to_oneself_does_not_race_with_its_cause() -> None:
    assert Order(steps("x>a 0", "a>a 1")).races() == []


def test_messages_of_one_channel_do_not_race() -> None:
    assert Order(steps("x>a 0", "x>a 0")).races() == []


def test_only_neighbours_race() -> None:
    order = Order(steps("x>a 0", "y>a 0", "z>a 0"))
    assert order.races() == [(1, 2), (0, 1)]
    assert order.races(since=2) == [(1, 2)]


def test_what_touched_one_thing_races() -> None:
    order = Order(steps("x>a 0 slot", "y>b 0 slot"))
    assert order.races() == [(0, 1)]
    assert order.before == [0, bits(0)]


def test_what_can_be_made_in_place_of_a_step_does_not_follow_it() -> None:
    order = Order(steps("x>a 0", "a>b 1", "y>c 0", "c>a 3"))
    assert order.races() == [(0, 3)]
    assert order.without(0, 3) == [2, 3]
    assert order.initials([2, 3]) == [2]
    assert order.initials([0, 2]) == [0, 2]


def sending(state: object, sender: str, message: str) -> tuple[object, Posts]:
    return state, [("c", "noise"), ("c", "key")]


def collecting(state: tuple[str, ...], sender: str, message: str) -> tuple[tuple[str, ...], Posts]:
    return (*state, message), ()


NOISY = Program({"a": Actor(0, sending), "c": Actor((), collecting)}, [Send("boss", "a", "go")])
NO_KEY = always("c has no key.", lambda world: "key" not in world.states["c"])


def broken_at(world: ProgramWorld, rule: Always, strands: Collection[str], lost: Collection[int]) -> int:
    """Return the step after which the rule is broken, if these messages are lost; 0 for none."""
    for at, strand in enumerate(strands, 1):
        move = by_strand(world.moves()).get(strand)
        if move is None:
            return 0
        world.skip(move) if at in lost else world.make(move)
        if rule.after(world, at, 0) is not None:
            return at
    return 0


def test_a_message_that_must_be_handled_first_and_leads_to_nothing_is_not_shown() -> None:
    found = explore(NOISY.world, [NO_KEY])
    (one,) = found.counterexamples
    assert one.unneeded == (2,)
    text = "\n".join(lines(found))
    assert "noise" not in text
    assert "  1    " in text
    assert "  3    " in text
    assert "step 2: not shown; the rule is broken without what it does" in text


def test_a_rule_of_the_end_leaves_nothing_out() -> None:
    found = explore(NOISY.world, [at_rest("c has no key.", lambda world: "key" not in world.states["c"])])
    assert found.counterexamples[0].unneeded == ()


def test_a_search_that_is_over_leaves_out_what_it_has_found() -> None:
    (one,) = explore(NOISY.world, [NO_KEY], Plan(shrinks=False)).counterexamples
    run = run_candidate(NOISY.world, one.schedule.strands, [NO_KEY], steps=50, completes=False).run
    assert unneeded_steps(NOISY.world, [NO_KEY], run) == (2,)
    assert unneeded_steps(NOISY.world, [NO_KEY], run, kept=[2]) == ()
    assert unneeded_steps(NOISY.world, [NO_KEY], run, is_over=lambda: True) == ()


def shrunk(make_world: MakeWorld[ProgramWorld], rule: Always) -> Shrunk | None:
    found = explore(make_world, [rule], Plan("random", 5))
    return found.counterexamples[0] if found.counterexamples else None


@given(worlds(kinds=("channel", "actor")), st.integers(1, 4), st.sampled_from("ab"))
def test_no_shown_step_can_be_removed_and_no_other_is_needed(
    drawn: RandomProgram, most: int, name: str
) -> None:
    def make_world() -> ProgramWorld:
        world = drawn()
        assert isinstance(world, ProgramWorld)
        return world

    rule = always("It stays small.", lambda world: world.states.get(name, 0) % 10 < most)
    found = shrunk(make_world, rule)
    assume(found is not None)
    assert found is not None
    strands, length = found.schedule.strands, len(found.schedule.strands)
    assert broken_at(make_world(), rule, strands, found.unneeded) == length
    raced = set[int]().union(*found.races)
    for at in range(1, length + 1):
        if at in found.unneeded or at in raced:
            continue
        without = [*strands[: at - 1], *strands[at:]]
        smaller = run_candidate(make_world, without, [rule], steps=found.schedule.steps, completes=False).run
        assert smaller.violation is None or len(smaller.made) >= length, "the schedule needs the step"
        if at < length and _kind_of(make_world(), strands, at) == "deliver":  # the chart needs it, too
            assert broken_at(make_world(), rule, strands, {*found.unneeded, at}) != length


def _kind_of(world: ProgramWorld, strands: Collection[str], at: int) -> str:
    for strand in strands:
        world.make(by_strand(world.moves())[strand])
    return world.trace()[at - 1].kind


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    return "seen"


@tool(effect="write")
def book(place: str) -> str:
    """Book."""
    return "booked"


def test_of_a_session_the_steps_of_another_agent_are_not_shown() -> None:
    kid = Agent("kid", description="Books.", tools=[book])
    other = Agent("other", description="Looks.", tools=[look])

    def policy(request: ModelRequest) -> Reply | Call:
        match request.profile, request.turn:
            case "host", 1:
                asked = [call("task", agent=name, prompt="x") for name in ("other", "kid")]
                return calls(*asked)
            case "kid", 1:
                return call("book", place="here")
            case "other", 1:
                return call("look", place="there")
            case _:
                return say("done")

    host = Agent("host", agents=[kid, other])
    rule = always("Nothing is booked.", lambda world: all(one.tool != "book" for one in world.effects))
    report = explore_session(host, policy, monitors=[rule], check=False)
    text = "\n".join(report.lines(160))
    assert 'book {"place":"here"}' in text
    assert 'look {"place' not in text
    assert "Begin other" not in text
