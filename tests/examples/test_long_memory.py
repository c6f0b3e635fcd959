import runpy

import pytest

from tests.pages import ROOT


def test_the_example_recalls_what_its_user_said_in_another_session(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(ROOT / "examples" / "long_memory.py"), run_name="__main__")
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("] Ann drinks her tea without milk.")
    assert said[1].endswith("] 安在北京大学工作。")
    assert said[2:] == ["bob: Which tea? (nothing found)", "verified without the memory"]
