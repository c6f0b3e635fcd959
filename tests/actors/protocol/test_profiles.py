"""Profiles, models and prices: the values that are refused, and the facts that follow from the rest."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.profiles import FREE, ModelSpec, Prices, PriceTier, Profile, read_profile
from tests.tables import table

NAMES = ("input_usd", "output_usd", "cache_read_usd", "cache_write_usd")


@table("name", NAMES)
@table("wrong", [-0.01, 1_000_000, float("nan"), float("inf"), True, "3", None])
def test_a_price_that_is_no_amount_of_dollars_is_refused_by_its_name(name: str, wrong: Any) -> None:
    given = dict.fromkeys(NAMES, 1) | {name: wrong}
    with pytest.raises(ValueError, match=rf"^Prices\.{name} is US dollars per million tokens, not "):
        Prices(**given)


def test_a_price_is_a_float_and_one_of_nothing_is_left_out_of_the_log() -> None:
    found = Prices(0, 999_999.9, cache_write_usd=3)
    assert [type(getattr(found, name)) for name in NAMES] == [float] * 4
    assert found.cache_read_usd is FREE
    assert msgspec.json.decode(encode(found)) == {
        "input_usd": 0,
        "output_usd": 999_999.9,
        "cache_write_usd": 3,
    }


def tier(above: Any) -> PriceTier:
    return PriceTier(6, 22.5, above_tokens=above)


@table("above", [-1, True, 1.0, "5", None])
def test_a_tier_begins_above_a_number_of_tokens(above: Any) -> None:
    with pytest.raises(ValueError, match=r"PriceTier\.above_tokens is a number of tokens"):
        tier(above)
    with pytest.raises(ValueError, match="input_usd"):
        PriceTier(-6, 1, above_tokens=0)


@pytest.mark.parametrize("tiers", [(tier(5), tier(5)), (tier(5), tier(4)), [tier(5)], (Prices(1, 2),)])
def test_tiers_are_a_tuple_in_order(tiers: Any) -> None:
    with pytest.raises(ValueError, match="PriceTier"):
        Prices(3, 15, tiers=tiers)


@pytest.mark.parametrize(("tokens", "reached"), [(0, 0), (1, 1), (100, 1), (101, 2)])
def test_a_prompt_has_the_prices_of_the_last_tier_that_it_goes_beyond(tokens: int, reached: int) -> None:
    prices = Prices(3, 15, tiers=(tier(0), tier(100)))
    assert prices.reached(tokens) == (prices, *prices.tiers[:reached])
    assert prices.rates_at(tokens) is prices.reached(tokens)[-1]
    plain = Prices(3, 15)
    assert plain.rates_at(tokens) is plain


SECOND = ModelSpec("second", prices=Prices(1, 2))
FIRST = ModelSpec("first", prices=Prices(3, 4), fallback=(SECOND,))


@dataclass
class Facts:
    """The facts of a model."""

    is_program: bool
    is_free: bool
    unpriced: str


@table(
    ("model", "facts"),
    [
        (FIRST, Facts(False, False, "")),
        (replace(FIRST, prices=None), Facts(False, False, "first")),
        (replace(FIRST, fallback=(replace(SECOND, prices=None),)), Facts(False, False, "second")),
        (ModelSpec("p", kind="program"), Facts(True, True, "")),
        (ModelSpec("f", kind="function"), Facts(False, True, "")),
    ],
)
def test_the_kind_of_a_model_and_its_prices(model: ModelSpec, facts: Facts) -> None:
    assert Facts(model.is_program, model.is_free, model.unpriced) == facts


def test_the_models_of_a_fallback_are_found_by_their_names() -> None:
    assert FIRST.all_specs == (FIRST, SECOND)
    assert [FIRST.spec_named(name) for name in ("", "first", "second", "none")] == [
        FIRST,
        FIRST,
        SECOND,
        FIRST,
    ]
    assert FIRST.made_by == named("first")
    own = Origin("adapter", model="m")
    assert replace(FIRST, origin=own).made_by is own


def test_what_an_agent_is_follows_from_its_profile() -> None:
    def facts(**fields: Any) -> tuple[bool, bool, bool, bool]:
        one = Profile("a", **fields)
        return one.has_contract, one.is_folded, one.is_prepared, one.is_eager

    assert facts() == (False, False, False, False)
    assert facts(input_schema=Json(b"{}")) == (True, True, False, False)
    assert facts(factory="make") == (False, True, True, False)
    assert facts(unavailable="gone") == (False, True, False, False)
    assert facts(context="recall") == (False, False, True, False)
    assert facts(turns="any") == (False, False, False, True)


def test_the_model_of_an_agent_and_of_those_below_it() -> None:
    program, other = ModelSpec("p", kind="program"), ModelSpec("other")

    def models(**fields: Any) -> tuple[str, str]:
        one = Profile("a", **fields)
        return one.own_model(FIRST).name, one.model_below(FIRST).name

    assert models() == ("first", "first")
    assert models(model=other) == ("other", "other")
    assert models(model=program) == ("p", "first")
    assert models(model=program, default_model=other) == ("p", "other")
    assert models(default_model=other) == ("first", "first")  # of a program only
    assert read_profile(bytes(encode(Profile("a", model=other)))) == Profile("a", model=other)


def test_a_price_of_nothing_is_written_as_the_default_however_it_was_computed() -> None:
    nothing = float("0.0")
    assert encode(Prices(1, 2, nothing, 0)) == encode(Prices(1, 2))
