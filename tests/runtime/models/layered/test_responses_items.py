"""The items of a Responses stream, found by every key that their events have."""

from typing import Any

import pytest

from callboard.runtime.models.call_arguments import CONTRADICTED, LOST
from callboard.runtime.models.layered.responses_items import CALL, Item, Items


def call(call_id: str, text: str = "{}", item_id: str = "", name: str = "look") -> dict[str, Any]:
    item = {"type": CALL, "call_id": call_id, "name": name, "arguments": text}
    return {**item, "id": item_id} if item_id else item


def begun(items: Items, item: dict[str, Any], place: int | None = None) -> Item:
    found = items.of(item, place, is_new=True)
    found.begun = item
    return found


@pytest.mark.parametrize("place", [None, 0])
def test_items_of_one_id_are_told_apart_by_the_ids_of_their_calls(place: int | None) -> None:
    items = Items()
    a, b = begun(items, call("a", "", "fc"), place), begun(items, call("b", "", "fc"), place)
    assert a is not b
    assert items.of(call("a", item_id="fc"), place) is a
    assert items.of(call("b", item_id="fc"), place) is b


def test_a_piece_goes_to_the_item_of_its_keys_and_to_none_if_they_name_two() -> None:
    items = Items()
    a, b = begun(items, call("a", "", "fc_0"), 0), begun(items, call("b", "", "fc_1"), 1)
    assert items.at(CALL, {"output_index": 0, "item_id": "fc_0"}) is a
    assert items.at(CALL, {"output_index": 1, "item_id": "new"}) is b
    assert items.at(CALL, {"item_id": "fc_0"}) is a
    assert items.at(CALL, {}) is b
    assert [a.is_unclear, b.is_unclear] == [False, False]
    assert items.at(CALL, {"output_index": 1, "item_id": "fc_0"}) is None
    assert [a.is_unclear, b.is_unclear] == [True, True]


def test_the_last_event_may_have_ids_of_its_own() -> None:
    items = Items()
    for at, text in enumerate(('{"a":1}', '{"a":2}')):
        item = begun(items, call(f"c{at}", "", f"fc_{at}"), at)
        item.pieces.append(text)
    found = items.reconcile([call("new_0", '{"a": 1}', "x"), call("new_1", '{"a": 2}', "y")])
    assert [one.arguments() for one in found] == [('{"a":1}', ""), ('{"a":2}', "")]
    assert [one.written()["call_id"] for one in found] == ["new_0", "new_1"]


def test_a_call_that_only_the_last_event_has_is_taken_unless_another_is_missing_there() -> None:
    (alone,) = Items().reconcile([call("c", '{"a":1}')])
    assert alone.arguments() == ('{"a":1}', "")
    items = Items()
    begun(items, call("c", "", "fc"), 0).pieces.append('{"a":1}')
    found = items.reconcile([call("d", '{"a":2}', "fd")])
    assert [one.arguments().why for one in found] == [CONTRADICTED] * 2


def test_a_last_event_without_calls_contradicts_none() -> None:
    items = Items()
    begun(items, call("c", "", "fc"), 0).pieces.append('{"a":1}')
    (found,) = items.reconcile([])
    assert found.arguments() == ('{"a":1}', "")


def test_a_call_has_no_arguments_only_if_two_events_tell_so() -> None:
    item = begun(Items(), call("c", ""))
    assert item.arguments() == ("", LOST)
    item.done = call("c", "")
    assert item.arguments() == ("", LOST)
    item.last = call("c", "")
    assert item.arguments() == ("{}", "")


def test_two_names_under_the_same_keys_are_a_contradiction() -> None:
    items = Items()
    item = begun(items, call("c", item_id="fc"))
    item.done = call("c", '{"a":1}', "fc", "write")
    items.of(item.done, None)
    assert item.arguments().why == CONTRADICTED
