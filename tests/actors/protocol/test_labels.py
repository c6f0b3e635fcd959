"""Sets of labels: united in one order, each once."""

from callboard.actors.protocol.labels import NO_LABELS, Labels, united
from tests.tables import table


@table(
    ("sets", "labels"),
    [
        ((), ()),
        (((), ()), ()),
        ((("a",),), ("a",)),
        ((("b", "a"), ()), ("a", "b")),
        (((), ("c",), ("a", "c"), ("b",)), ("a", "b", "c")),
    ],
)
def test_united_labels_are_those_of_all_sets_in_one_order(sets: tuple[Labels, ...], labels: Labels) -> None:
    assert united(*sets) == labels
    assert united(*reversed(sets)) == labels


def test_no_labels_are_one_object() -> None:
    assert united((), ()) is NO_LABELS
