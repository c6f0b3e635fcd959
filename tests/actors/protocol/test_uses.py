from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.bundle_entries import KINDS
from callboard.actors.protocol.bundles import Allowed, Denied, LabelRule, Rights
from callboard.actors.protocol.layers import Layer, Layers, effective
from callboard.actors.protocol.refusals import denied
from callboard.actors.protocol.uses import CAPABILITY, Use, refusal_among, use_refusal

NAMES = {
    "read": ["docs/a", "docs", "src/b", "."],
    "write": ["docs/a", "docs", "src/b", "."],
    "hosts": ["https://a.example:443", "https://b.a.example:443", "http://a.example:80"],
    "secrets": ["TOKEN", "KEY"],
    "memory": ["shared", "agent:kid"],
}
WIDE = {"read": ["docs", "src/b"], "write": ["docs"], "hosts": ["*.example", "a.example"], "secrets": ["TO*"]}

uses = st.sampled_from([Use(entry, name) for entry in CAPABILITY for name in NAMES[entry]])
lists = {
    entry: st.none() | st.lists(st.sampled_from(NAMES[entry] + WIDE.get(entry, [])), max_size=3)
    for entry in CAPABILITY
}
layers = st.lists(
    st.builds(Allowed, **lists).map(lambda one: Layer("x", Rights(one))),
    max_size=3,
)


@given(layers, layers, uses)
def test_no_use_is_permitted_that_a_layer_withholds(above: Layers, more: Layers, use: Use) -> None:
    before, after = ((*above,), (*above, *more))
    if not use_refusal(after, use.entry, use.name, ()):
        assert not use_refusal(before, use.entry, use.name, ())
        assert effective(after).permits(use.entry, use.name)
        assert all(one.rights.permits(use.entry, use.name) for one in after)


def test_every_use_is_an_entry_of_bundles() -> None:
    assert set(CAPABILITY) < set(KINDS)


@pytest.mark.parametrize("entry", CAPABILITY)
def test_a_use_needs_its_capability(entry: str) -> None:
    name, capability = NAMES[entry][0], CAPABILITY[entry]
    held = (Layer("the session", Rights(denied=Denied(capabilities=(capability,)))),)
    assert use_refusal(held, entry, name, ()) == f"capability {capability!r} is denied by the session"
    assert not use_refusal((), entry, name, ())


@pytest.mark.parametrize(("labels", "is_denied"), [((), False), (("secret",), True), (("other",), False)])
def test_a_rule_holds_for_a_label_that_the_call_has_read(labels: Sequence[str], is_denied: bool) -> None:
    held = (Layer("agent host", Rights(rules=(LabelRule("secret", "network"),))),)
    said = use_refusal(held, "hosts", "https://a.example:443", tuple(labels))
    assert said == "capability 'network' is denied by agent host once the label 'secret' was read" * is_denied


def test_a_label_that_one_use_brings_counts_from_the_next_one_on() -> None:
    held = (Layer("agent host", Rights(rules=(LabelRule("secret", "network"),))),)
    read, sent = Use("read", "note", labels=("secret",)), Use("hosts", "https://a.example:443")
    refusal = "capability 'network' is denied by agent host once the label 'secret' was read"
    assert refusal_among(held, (sent, read), ()) == ""
    assert refusal_among(held, (read, sent), ()) == refusal
    assert refusal_among(held, (sent,), ("secret",)) == refusal
    assert refusal_among((), (read, sent), ()) == ""


def test_a_refusal_names_the_entry_and_the_capability_that_each_use_needs() -> None:
    nothing = (Layer("x", Rights(Allowed(read=(), write=(), hosts=(), secrets=(), memory=()))),)
    blind = (Layer("x", Rights(Allowed(capabilities=()))),)
    for entry, capability in {
        "read": "files",
        "write": "files",
        "hosts": "network",
        "secrets": "secrets",
        "memory": "memory",
    }.items():
        name = NAMES[entry][0]
        assert use_refusal((), entry, name, ()) == ""
        assert use_refusal(nothing, entry, name, ()) == denied(entry, name, "x")
        assert use_refusal(blind, entry, name, ()) == denied("capabilities", capability, "x", "")
