"""Layers: the effective rights are those of all layers, and a refusal names the first that denies."""

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.bundle_entries import KINDS
from callboard.actors.protocol.bundles import FULL, NO_BUNDLE, Allowed, Bundle, Denied, LabelRule, Rights
from callboard.actors.protocol.layers import (
    Layer,
    Refusal,
    added,
    effective,
    file_prefixes,
    layers_below,
    own_layers,
    refusal_of,
    refused_by,
)
from tests.actors.protocol.test_bundles import RIGHTS, USES

SOME = Rights(Allowed(tools=("a", "b")))
LESS = Rights(Allowed(tools=("a",)))


@given(st.lists(RIGHTS, max_size=3), USES)
def test_the_effective_rights_permit_what_every_layer_permits(
    all_of: list[Rights], use: tuple[str, str]
) -> None:
    layers = tuple(Layer(f"agent {n}", rights) for n, rights in enumerate(all_of))
    entry, name = use[0], KINDS[use[0]].written(use[1])
    by = refused_by(layers, entry, name)
    assert (by == "") == effective(layers).permits(entry, name)
    first = next((one.by for one in layers if not one.rights.permits(entry, name)), "")
    assert by == first


def test_a_layer_that_bounds_nothing_or_is_there_is_not_added() -> None:
    one = added((), "agent a", SOME)
    assert added(one, "agent a", SOME) is one
    assert added(one, "agent b", FULL) is one
    assert added(one, "agent b", SOME) == (*one, Layer("agent b", SOME))
    assert own_layers(one, "b", NO_BUNDLE) is one
    assert layers_below(one, "b", NO_BUNDLE) is one


def test_own_rights_are_not_handed_down_where_the_bundle_says_so() -> None:
    bundle = Bundle(do=LESS.allowed, delegate=SOME.allowed)
    assert own_layers((), "a", bundle) == (Layer("agent a", LESS),)
    assert layers_below((), "a", bundle) == (Layer("agent a", SOME),)


def test_a_refusal_for_a_label_names_the_label() -> None:
    rule = Layer("the session", Rights(rules=(LabelRule("secret", "net*"),)))
    deny = Layer("agent a", Rights(denied=Denied(capabilities=("shell",))))
    assert refusal_of((rule, deny), "network", ("other",)) is None
    assert refusal_of((rule, deny), "network", ("other", "secret")) == Refusal("the session", "secret")
    assert refusal_of((rule, deny), "shell", ("secret",)) == Refusal("agent a")


def test_file_prefixes_are_those_of_all_layers() -> None:
    one = Layer("the session", Rights(Allowed(read=("src", "docs"))))
    two = Layer("agent a", Rights(Allowed(read=("src/a", "."), write=())))
    assert file_prefixes((one, two)) == (("docs", "src"), ())
    assert file_prefixes(()) == (None, None)
