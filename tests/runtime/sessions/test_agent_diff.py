"""The differences of agents and models in words."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.runtime.sessions.agent_diff import differences

ONE = ModelSpec("a", fallback=(ModelSpec("b"),), fallback_on=("timeout",))


def between(was: ModelSpec, is_now: ModelSpec) -> tuple[str, ...]:
    return differences((), (), was, is_now)


def test_other_models_are_named() -> None:
    other = ModelSpec("a", fallback=(ModelSpec("b"), ModelSpec("c")), fallback_on=("timeout",))
    assert between(ONE, other) == ("the model: it fell back to b, falls back to b, c",)


def test_another_setting_of_the_same_model_is_named_with_it() -> None:
    other = ModelSpec("a", fallback=(ModelSpec("b", 100),), fallback_on=("timeout",))
    assert between(ONE, other) == ("the model, its fallback b: max_tokens was 8192, is 100",)


def test_the_same_fallback_is_no_difference() -> None:
    assert between(ONE, ONE) == ()


# --- profiles -----------------------------------------------------------------------


def spec(name: str, effect: Effect = "read", description: str = "") -> ToolSpec:
    return ToolSpec(name, description, Json(b'{"type":"object"}'), effect)


KID = Profile("kid")
PLAIN = Profile("host", tools=(spec("a"), spec("b")), agents=("kid", "aid"), limits=Limits(max_depth=2))


def told(old: Sequence[Profile], new: Sequence[Profile]) -> tuple[str, ...]:
    """Return the differences between profiles, with one model."""
    before, now = ([Json(encode(one)) for one in profiles] for profiles in (old, new))
    return differences(before, now, ONE, ONE)


def test_agents_that_are_gone_or_new_are_named() -> None:
    assert told((PLAIN, KID), (PLAIN, KID)) == ()
    assert told((PLAIN, KID), (PLAIN,)) == ("agent kid was removed",)
    assert told((PLAIN,), (PLAIN, KID)) == ("agent kid is new",)
    other = replace(PLAIN, description="d")
    found = differences([Json(encode(PLAIN))], [Json(encode(other))], ONE, replace(ONE, name="b"))
    assert found == ("host: its description changed", "the model: name was a, is b")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("description", "d", "its description"),
        ("instructions", "i", "its instructions"),
        ("schema", Json(b'{"type":"object"}'), "its output schema"),
        ("output_type", "app.T", "its output type"),
        ("server_tools", (Json(b"{}"),), "its server tools"),
        ("context", "app.f", "its context function"),
        ("context_in", "system", "the place of its context"),
        ("input_schema", Json(b'{"type":"object"}'), "its contract"),
        ("input_type", "app.In", "the type of its contract"),
        ("schema_arg", "schema", "its argument for a schema"),
        ("factory", "app.make", "its factory"),
        ("unavailable", "no key", "the reason why it is unavailable"),
        ("model_reason", "cheap", "the reason for its model"),
    ],
)
def test_a_field_that_differs_is_named_in_words(field: str, value: object, words: str) -> None:
    assert told((PLAIN,), (replace(PLAIN, **{field: value}),)) == (f"host: {words} changed",)


def test_tools_and_agents_that_are_gone_new_or_moved_are_named() -> None:
    other = replace(PLAIN, tools=(spec("b", "write"), spec("c")), agents=("aid", "kid"))
    assert told((PLAIN,), (other,)) == (
        "host: has tools no more: a",
        "host: has tools now: c",
        "host: tool b: its effect was read, is write",
        "host: may delegate to in another order: aid, kid",
    )
    other = replace(PLAIN, tools=(spec("b"), spec("a", description="d")), agents=("kid",))
    assert told((PLAIN,), (other,)) == (
        "host: has tools in another order: b, a",
        "host: tool a: its description changed",
        "host: may delegate to no more: aid",
    )


def test_limits_and_models_are_told_with_both_values() -> None:
    small, large = ModelSpec("m", 100), ModelSpec("m", 200)
    other = replace(PLAIN, limits=Limits(max_depth=3), model=small)
    assert told((PLAIN,), (other,)) == (
        "host: limit max_depth was 2, is 3",
        "host: its model was its parent's, is m",
    )
    assert told((other,), (replace(other, model=None),)) == ("host: its model was m, is its parent's",)
    changed = replace(other, model=large)
    assert told((other,), (changed,)) == ("host: its model: max_tokens was 100, is 200",)
    handing = replace(PLAIN, default_model=small)
    assert told((PLAIN,), (handing,)) == ("host: its default model was its parent's, is m",)
    assert between(ONE, ModelSpec("a", fallback_on=("timeout",))) == (
        "the model: it fell back to b, falls back to none",
    )
