from callboard.runtime.imports.pieces import reasoning_in
from callboard.runtime.imports.traffic import Block
from tests.tables import table

SUMMARY = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]


@table(
    ("item", "text"),
    [
        ({"role": "assistant", "reasoning_content": "So.", "content": "5"}, "So."),
        ({"role": "assistant", "reasoning": "So.", "content": "5"}, "So."),
        ({"role": "assistant", "thinking": "So.", "content": "5"}, "So."),
        ({"role": "assistant", "reasoning": None, "content": "5"}, ""),
        (
            {"role": "assistant", "reasoning_details": [{"type": "reasoning.summary", "summary": "So."}, {}]},
            "So.",
        ),
        ({"role": "assistant", "reasoning": {"effort": "high"}, "content": "5"}, ""),
        ({"role": "user", "reasoning": "So."}, ""),
        ({"type": "reasoning", "summary": SUMMARY, "encrypted_content": "x"}, "One.\n\nTwo."),
        ({"type": "reasoning", "summary": SUMMARY, "content": [{"text": "Whole."}]}, "Whole."),
        ({"type": "reasoning", "summary": [], "encrypted_content": "x"}, ""),
        ({"type": "reasoning", "summary": "text", "content": 3}, ""),
    ],
)
def test_reasoning_is_found_under_the_names_of_services(item: Block, text: str) -> None:
    found = reasoning_in(item)
    assert found == ([{"type": "thinking", "thinking": text, "signature": ""}] if text else [])
