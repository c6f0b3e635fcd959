from collections.abc import Sequence

from callboard.replay.testing.happens_before import Order, in_conflict
from callboard.replay.testing.world import Step


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
