"""Hypothesis strategies for the core: values of any message class, made from the types of its fields.

Nothing is written by hand for a class, so a new message or field is covered as soon as it exists. Lone
surrogates and NUL are left out: the boundary lets none in, and bodies are text.
"""

import types
import typing
from functools import cache
from typing import Any, TypeVar, get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from callboard.actors.protocol.bundles import Allowed, Denied, LabelRule
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.profiles import Prices, PriceTier

S = TypeVar("S", bound=msgspec.Struct)

MESSAGES: tuple[type[msgspec.Struct], ...] = get_args(AnyMessage)
"""Every message class."""

LARGEST = 2**53
"""Larger integers lose digits in JSON readers that use doubles."""

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-LARGEST, LARGEST),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
json_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
"""Anything that can be written as JSON."""

json_bytes = st.one_of(
    json_values.map(msgspec.json.encode),
    json_values.map(lambda value: msgspec.json.format(msgspec.json.encode(value), indent=1)),
).map(Json)
"""Foreign JSON: the same value may come in different bytes."""


@cache
def messages(kind: type[S]) -> SearchStrategy[S]:
    """Build a strategy for the messages of a class."""
    fields: dict[str, SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        if _hint(kind, field.name) == tuple[kind, ...]:  # type: ignore[valid-type]  # a class, made by now
            # Not recursive: the parts of the same class have no such parts.
            inner = st.builds(kind, **fields)
            fields[field.name] = st.just(()) | st.lists(inner, max_size=2).map(tuple)
            continue
        made = _limits(field.name) if kind is Limits else values(_hint(kind, field.name))
        if field.default is not msgspec.NODEFAULT:
            made = st.just(field.default) | made
        fields[field.name] = made
    return st.builds(kind, **fields)


def any_message() -> SearchStrategy[msgspec.Struct]:
    """Build a strategy for messages of every class."""
    return st.sampled_from(MESSAGES).flatmap(messages)


def _hint(kind: type, name: str) -> Any:
    return typing.get_type_hints(kind)[name]


def _limits(name: str) -> SearchStrategy[Any]:
    made: SearchStrategy[Any] = st.integers(1, LARGEST - 1)
    if name.endswith("_s") or name == "cost_usd":
        made = st.floats(0.001, 1e9)
    return st.none() | made


_rates = [st.floats(0, 1_000) | st.integers(0, 100)] * 4
price_tiers = st.lists(st.integers(0, LARGEST - 1), max_size=3, unique=True).flatmap(
    lambda starts: st.tuples(
        *(st.builds(PriceTier, *_rates, above_tokens=st.just(start)) for start in sorted(starts))
    )
)
prices = st.builds(Prices, *_rates, tiers=st.just(()) | price_tiers)


_entry_names = st.sampled_from(["a", "ab", "a*", "b*", "look"])
_entries: dict[str, SearchStrategy[str]] = {
    "effects": st.sampled_from(["read", "idempotent", "write"]),
    "read": st.sampled_from([".", "a", "a/b", "c//d/"]),
    "write": st.sampled_from([".", "a", "a/b", "c//d/"]),
    "hosts": st.sampled_from(["a.example", "*.example", "http://127.0.0.1:8", "[::1]"]),
}
_lists = {
    entry: st.lists(_entries.get(entry, _entry_names), max_size=2).map(tuple)
    for entry in Allowed.__struct_fields__
}
allowed = st.builds(Allowed, **{entry: st.none() | lists for entry, lists in _lists.items()})
denied = st.builds(Denied, **{entry: _lists[entry] for entry in Denied.__struct_fields__})
label_rules = st.builds(LabelRule, st.sampled_from(["a", "b"]), _entry_names)


def values(hint: Any) -> SearchStrategy[Any]:
    """Build a strategy for the values of a type that a message may hold."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(part) for part in parts])
    if origin is tuple and parts[-1] is Ellipsis:
        return st.lists(values(parts[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*[values(part) for part in parts])
    if origin is typing.Literal:
        return st.sampled_from(parts)
    if hint is Prices:
        return prices
    if hint is PriceTier:
        return st.builds(PriceTier, *_rates, above_tokens=st.integers(0, LARGEST - 1))
    if hint in (Allowed, Denied, LabelRule):
        return {Allowed: allowed, Denied: denied, LabelRule: label_rules}[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return messages(hint)
    return _SCALARS[hint]


_SCALARS: dict[Any, SearchStrategy[Any]] = {
    int: st.integers(-LARGEST, LARGEST),
    str: texts,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    type(None): st.none(),
    msgspec.Raw: json_bytes,
}
