"""The differences of fallbacks in words: other models, and other settings of the same ones."""

from callboard.actors.protocol.profiles import ModelSpec
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
