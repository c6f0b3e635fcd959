from callboard import AnthropicModel, OpenAIModel
from callboard.runtime.models.windows import window_of
from tests.tables import table


@table(
    ("name", "tokens"),
    [
        ("claude-sonnet-4-5-20250929", 200_000),
        ("claude-opus-4-6", 1_000_000),
        ("claude-sonnet-5", 1_000_000),
        ("gpt-4o-2024-08-06", 128_000),
        ("gpt-5-mini", 400_000),
        ("gpt-5.4", 1_050_000),
        ("o3", 200_000),
        ("gemini-3-flash", 1_000_000),
        ("gpt-5-image", 0),
        ("mine", 0),
    ],
)
def test_the_windows_of_common_models_are_known(name: str, tokens: int) -> None:
    assert window_of(name) == tokens


def test_a_window_may_be_stated_instead() -> None:
    assert AnthropicModel("claude-sonnet-5").spec.context_tokens == 1_000_000
    assert AnthropicModel("claude-sonnet-5", context_tokens=50_000).spec.context_tokens == 50_000
    assert AnthropicModel("mine").spec.context_tokens == 0
    assert OpenAIModel("gpt-5-mini", context_tokens=9_000).spec.context_tokens == 9_000
