"""Entries of bundles: one written form, and containment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.bundle_entries import KINDS, common, covers, listed, place_of
from tests.tables import table

NAMES = st.text("ab", min_size=1, max_size=3)
NAME_ENTRIES = st.one_of(NAMES, st.text("ab", max_size=2).map(lambda stem: f"{stem}*"))
PATHS = st.lists(st.sampled_from(["a", "b", "."]), min_size=1, max_size=3).map("/".join)
HOST_NAMES = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3).map(".".join)
HOSTS = st.one_of(st.just("*"), HOST_NAMES, HOST_NAMES.map(lambda name: f"*.{name}"))
ENTRIES = {
    "tools": NAME_ENTRIES,
    "effects": st.sampled_from(["read", "idempotent", "write"]),
    "read": PATHS,
    "hosts": HOSTS,
}
NAMED = {"tools": NAMES, "effects": ENTRIES["effects"], "read": PATHS, "hosts": HOST_NAMES}


@pytest.mark.parametrize("entry", ENTRIES)
@given(data=st.data())
def test_a_list_in_its_one_form_covers_the_same_names(entry: str, data: st.DataObject) -> None:
    given_ = data.draw(st.lists(ENTRIES[entry], max_size=4))
    name = KINDS[entry].written(data.draw(NAMED[entry]))
    written = [KINDS[entry].written(one) for one in given_]
    assert covers(entry, listed(entry, given_), name) == covers(entry, written, name)
    assert listed(entry, listed(entry, given_)) == listed(entry, reversed(given_))


@pytest.mark.parametrize("entry", ENTRIES)
@given(data=st.data())
def test_what_two_lists_have_in_common_is_what_both_cover(entry: str, data: st.DataObject) -> None:
    lists = st.lists(ENTRIES[entry], max_size=4).map(lambda given_: listed(entry, given_))
    one, other = data.draw(lists), data.draw(lists)
    name = KINDS[entry].written(data.draw(NAMED[entry]))
    both = common(entry, one, other)
    assert covers(entry, both, name) == (covers(entry, one, name) and covers(entry, other, name))
    assert both == common(entry, other, one)


def test_a_place_has_one_form() -> None:
    assert str(place_of("API.Example.com")) == "https://api.example.com:443"
    assert str(place_of("http://localhost")) == "http://localhost:80"
    assert str(place_of("127.0.0.1:8080")) == "https://127.0.0.1:8080"
    assert str(place_of("[::1]:8")) == "https://[::1]:8"


NO_HOSTS = (
    "|a b|0177.0.0.1|1.2.3|1.2.3.256|user@host|host/path|ftp://host|host:99999|a..b|-a|*.*.a|a.*|bücher.example"
    "|host?|http://|host#x|0x7f.1"
)


@table("text", NO_HOSTS.split("|"))
def test_a_text_that_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        listed("hosts", [text])


@table("text", ["", "/etc", "../x", "a/../b", "a\0b", "x" * 5_000])
def test_a_path_that_leads_out_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        listed("read", [text])


@table("text", ["", " a", "a*b", "**", "a\n", "a\nb", "x" * 201])
def test_a_text_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        listed("tools", [text])


def test_an_effect_is_one_of_three() -> None:
    with pytest.raises(ValueError, match="not an effect"):
        listed("effects", ["delete"])
    with pytest.raises(ValueError, match="tuple of texts"):
        listed("tools", "read_file")


@pytest.mark.parametrize(
    ("entry", "longest"),
    [
        ("tools", "x" * 200),
        ("tools", "x" * 199 + "*"),
        ("read", "x" * 4_096),
        ("hosts", f"{'a.' * 145}example.co"),
    ],
)
def test_an_entry_may_have_so_many_characters_and_no_more(entry: str, longest: str) -> None:
    assert len(listed(entry, [longest])) == 1
    with pytest.raises(ValueError, match="is no"):
        listed(entry, [f"x{longest}"])


@table(
    ("entry", "narrow", "wide", "is_within"),
    [
        ("tools", "web*", "web*", True),
        ("tools", "web_fetch", "web*", True),
        ("tools", "we", "web*", False),
        ("tools", "web*", "web", False),
        ("read", "docs", "doc", False),
        ("read", "docs/a", "docs", True),
        ("read", "docs", ".", True),
        ("hosts", "a.example.com", "*.example.com", True),
        ("hosts", "example.com", "*.example.com", False),
        ("hosts", "badexample.com", "*.example.com", False),
        ("hosts", "a.example.com", "http://*.example.com", False),
        ("hosts", "a.example.com:8443", "*.example.com", False),
        ("hosts", "http://a.example.com:443", "a.example.com", False),
        ("hosts", "http://a.example.com", "http://*:80", True),
        ("hosts", "a.b", "c.b", False),
    ],
)
def test_an_entry_lies_within_another_if_all_that_it_stands_for_does(
    entry: str, narrow: str, wide: str, is_within: bool
) -> None:
    assert covers(entry, [wide], narrow) is is_within
    assert KINDS[entry].is_within(narrow, wide) is is_within


@table(
    ("entry", "one"),
    [("tools", "a"), ("tools", "a*"), ("read", "a/b"), ("effects", "read"), ("hosts", "a.b")],
)
def test_an_entry_lies_within_itself(entry: str, one: str) -> None:
    assert KINDS[entry].is_within(one, one)
