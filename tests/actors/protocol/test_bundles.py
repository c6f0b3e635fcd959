"""Bundles: rights only narrow, in any order, and are equal values if they are equal rights."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.bundle_entries import KINDS
from callboard.actors.protocol.bundles import FULL, Allowed, Bundle, Denied, LabelRule, Rights, narrow
from callboard.actors.protocol.codec import encode
from tests.actors.protocol.test_bundle_entries import ENTRIES, HOST_NAMES, NAMES, PATHS

LISTS = {
    entry: st.lists(ENTRIES.get(entry, ENTRIES["tools"]), max_size=3).map(tuple)
    for entry in Allowed.__struct_fields__
    if entry not in ("read", "write", "hosts")
}
WIDE = {**LISTS, **{entry: st.lists(PATHS, max_size=3).map(tuple) for entry in ("read", "write")}}
WIDE["hosts"] = st.lists(ENTRIES["hosts"], max_size=3).map(tuple)
RULES = st.lists(st.builds(LabelRule, NAMES, ENTRIES["tools"]), max_size=2).map(tuple)
RIGHTS = st.builds(
    Rights,
    st.builds(Allowed, **{entry: st.none() | lists for entry, lists in WIDE.items()}),
    st.builds(Denied, **LISTS),
    RULES,
)
USES = st.one_of(
    *(st.tuples(st.just(entry), ENTRIES["effects"] if entry == "effects" else NAMES) for entry in LISTS),
    st.tuples(st.sampled_from(["read", "write"]), PATHS),
    st.tuples(st.just("hosts"), HOST_NAMES),
)


@given(RIGHTS, RIGHTS, USES)
def test_narrowed_rights_permit_what_both_permit(one: Rights, other: Rights, use: tuple[str, str]) -> None:
    entry, name = use[0], KINDS[use[0]].written(use[1])
    both = narrow(one, other)
    assert both.permits(entry, name) == (one.permits(entry, name) and other.permits(entry, name))


@given(RIGHTS, RIGHTS, NAMES, st.lists(NAMES, max_size=2))
def test_a_rule_of_either_holds_in_both(one: Rights, other: Rights, name: str, labels: list[str]) -> None:
    read = tuple(labels)
    found = {one.label_against(name, read), other.label_against(name, read)} - {""}
    assert bool(narrow(one, other).label_against(name, read)) == bool(found)


@given(RIGHTS, RIGHTS, RIGHTS)
def test_narrowing_is_associative_idempotent_and_has_a_neutral_element(
    one: Rights, other: Rights, third: Rights
) -> None:
    assert narrow(narrow(one, other), third) == narrow(one, narrow(other, third))
    assert narrow(one, other).allowed == narrow(other, one).allowed
    assert narrow(one, other).rules == narrow(other, one).rules
    both = narrow(one, other)
    assert narrow(both, both) == narrow(both, one) == both
    assert narrow(both, FULL) == narrow(FULL, both) == both


def test_what_is_not_stated_is_allowed_and_an_empty_list_allows_nothing() -> None:
    assert Rights().permits("tools", "x")
    assert not Rights(Allowed(tools=())).permits("tools", "x")
    assert not Rights(denied=Denied(tools=("x*",))).permits("tools", "xy")


def test_doing_and_delegating_are_two_sets() -> None:
    bundle = Bundle(do=Allowed(tools=()), delegate=Allowed(tools=("search",)), deny=Denied(tools=("rm",)))
    assert not bundle.own.permits("tools", "search")
    assert bundle.below.permits("tools", "search")
    assert not bundle.below.permits("tools", "rm")
    assert Bundle(do=Allowed(tools=("a",))).below == Bundle(do=Allowed(tools=("a",))).own


def test_equal_bundles_have_equal_bytes_and_an_empty_one_has_none() -> None:
    assert encode(Bundle(Allowed(tools=("b", "a")))) == encode(Bundle(Allowed(tools=("a", "b", "a"))))
    assert encode(Bundle(Allowed(), deny=Denied(), when=())) == b"{}"


@pytest.mark.parametrize(("label", "deny"), [("a*", "network"), ("", "network"), ("a", "")])
def test_a_rule_is_for_one_label_and_a_capability(label: str, deny: str) -> None:
    with pytest.raises(ValueError, match=r"is not a name|one label"):
        LabelRule(label, deny)
