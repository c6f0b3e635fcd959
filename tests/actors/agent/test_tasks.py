"""The books of background tasks: their addresses, and words in their order."""

from callboard.actors.agent.tasks import (
    NO_BACKGROUND,
    NOTHING_UNHEARD,
    Background,
    Task,
    Unheard,
    addresses,
    at_rest,
    begun,
    ordinal_of,
    with_word,
    words_of,
)
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.intmap import IntMap
from tests.tables import table

ONE, TWO = Task(1, 0), Task(2, 3)
NO_TASKS: IntMap[Task] = IntMap()
BOTH = NO_TASKS.put(1, ONE).put(2, TWO)
END, OTHER_END, TELL = Unheard(NULL, 5), Unheard(NULL, 8), Unheard(NULL, 6, number=1)


def words(*said: Unheard) -> IntMap[Unheard]:
    found = NOTHING_UNHEARD
    for word in said:
        found = found.append(word)
    return found


@table(
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


def test_tasks_are_named_in_the_order_of_their_starts() -> None:
    assert addresses("host", Background(BOTH)) == ["host.1", "host.2"]


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
    busy = Background(BOTH, words(TELL, END, OTHER_END), tells=1)
    assert at_rest(busy) == Background(tasks=BOTH, words=words(END, OTHER_END))
    assert begun(at_rest(busy)) == Background(words=words(END, OTHER_END))
    assert at_rest(NO_BACKGROUND) is NO_BACKGROUND is begun(Background(BOTH))
    assert words_of(words(OTHER_END, TELL), NOTHING_UNHEARD, words(END)) == words(OTHER_END, END)
