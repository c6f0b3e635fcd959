"""The examples of other frameworks print what their pages say."""

import runpy

import pytest

from tests.pages import ROOT, blocks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["langgraph_agent", "pydantic_ai_agent"])
def test_the_example_prints_what_its_page_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "examples" / f"{name.replace('_', '-')}.md").read_text()
    (printed,) = [block.text for block in blocks(page) if block.language == "text"]
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    told = capsys.readouterr()
    assert (told.out.strip(), told.err) == (printed.strip(), "")
