"""The books of background tasks: starts, ends, waits that fall due, and words in their order."""

import pytest
from msgspec.structs import replace

from callboard.actors.agent.tasks import (
    NO_BACKGROUND,
    NO_CALLS,
    NO_WORDS,
    Background,
    Task,
    Wait,
    Word,
    addresses,
    at_rest,
    begun,
    ended,
    is_due,
    not_started,
    ordinal_of,
    started,
    with_word,
    words_of,
)
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.intmap import IntMap

ONE, TWO = Task(1, 0), Task(2, 3)
NO_TASKS: IntMap[Task] = IntMap()
FIRST, BOTH = NO_TASKS.put(1, ONE), NO_TASKS.put(1, ONE).put(2, TWO)
STARTING = NO_CALLS.put(4, True)
EVERY, NAMED, ANY = Wait(FIRST, is_every=True), Wait(BOTH), Wait(BOTH, is_any=True)
END, OTHER_END, TELL = Word(NULL, 5), Word(NULL, 8), Word(NULL, 6, number=1)


def waits(*open_now: Wait) -> IntMap[Wait]:
    found: IntMap[Wait] = IntMap()
    for call, wait in enumerate(open_now):
        found = found.put(call, wait)
    return found


def words(*said: Word) -> IntMap[Word]:
    found = NO_WORDS
    for word in said:
        found = found.append(word)
    return found


@pytest.mark.parametrize(
    ("address", "ordinal"),
    [
        ("host.1.3", 3),
        ("host.1.12", 12),
        ("host.1", -1),
        ("host.1.3.1", -1),
        ("host.2.3", -1),
        ("host", -1),
        ("host.1.03", -1),
        ("host.1.", -1),
        ("tools", -1),
    ],
)
def test_only_the_address_of_a_child_has_an_ordinal(address: str, ordinal: int) -> None:
    assert ordinal_of("host.1", address) == ordinal


def test_a_start_is_waited_for_by_the_calls_that_wait_for_every_task() -> None:
    before = Background(FIRST, STARTING, waits(EVERY, NAMED))
    after = started(before, 4, 2, TWO)
    assert (after.tasks, after.starting.size) == (BOTH, 0)
    assert [*after.waits.values()] == [replace(EVERY, left=BOTH), NAMED]
    assert addresses("host", after) == ["host.1", "host.2"]


def test_a_call_that_starts_no_task_answers_the_waits_that_have_nothing_left() -> None:
    nothing_left = Wait(NO_TASKS, is_every=True)
    before = Background(FIRST, STARTING, waits(EVERY, nothing_left))
    after, due = not_started(before, 4)
    assert (after, due) == (replace(before, starting=NO_CALLS), [1])
    assert not_started(before, 5) == (before, [])
    assert not_started(before, 5)[0] is before


@pytest.mark.parametrize(
    ("wait", "starting", "left", "due"),
    [
        (NAMED, NO_CALLS, [2], False),
        (ANY, NO_CALLS, [2], True),
        (ANY, STARTING, [2], True),
        (Wait(FIRST), STARTING, [], True),  # of the tasks that it names, none is left
        (EVERY, NO_CALLS, [], True),
        (EVERY, STARTING, [], False),
        (Wait(NO_TASKS.put(2, TWO)), NO_CALLS, [2], False),
        (Wait(NO_TASKS.put(2, TWO), is_any=True), NO_CALLS, [2], False),
    ],
)
def test_the_end_of_a_task_answers_the_waits_for_it_that_it_completes(
    wait: Wait, starting: IntMap[bool], left: list[int], due: bool
) -> None:
    after, answered = ended(Background(BOTH, starting, waits(wait)), 1)
    assert [ordinal for ordinal, _ in after.tasks.items()] == [2]
    (changed,) = after.waits.values()
    assert [ordinal for ordinal, _ in changed.left.items()] == left
    assert changed == replace(wait, left=changed.left)
    assert answered == ([0] if due else [])
    assert is_due(changed, after) == (not left and due)


def test_words_keep_their_order_and_those_of_a_client_are_counted() -> None:
    background = NO_BACKGROUND
    flags = []
    for word in (END, TELL, OTHER_END):
        background = with_word(background, word)
        flags.append((background.has_ends, background.has_tells, background.tells))
    assert flags == [(True, False, 0), (True, True, 1), (True, True, 1)]
    assert background.words == words(END, TELL, OTHER_END)
    only_told = with_word(NO_BACKGROUND, TELL)
    assert (only_told.has_ends, only_told.has_tells) == (False, True)


def test_an_agent_that_has_ended_keeps_ends_and_tasks_and_begins_with_its_words() -> None:
    busy = Background(BOTH, STARTING, waits(NAMED), words(TELL, END, OTHER_END), tells=1)
    assert at_rest(busy) == Background(tasks=BOTH, words=words(END, OTHER_END))
    assert begun(at_rest(busy)) == Background(words=words(END, OTHER_END))
    assert at_rest(NO_BACKGROUND) is NO_BACKGROUND is begun(Background(BOTH))
    assert words_of(words(OTHER_END, TELL), NO_WORDS, words(END)) == words(OTHER_END, END)
