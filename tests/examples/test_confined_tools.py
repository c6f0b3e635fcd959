import runpy

import pytest

from tests.pages import ROOT


def test_the_example_uses_what_it_may_and_labels_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "confined_tools.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "authorization: Bearer [secret:KEY]" in said
    assert "a-key-that-is-in-no-log" not in said
    assert "host 'http://169.254.169.254:80' is denied by agent host" in said
    assert "writing 'config' is denied by agent host" in said
    assert "read notes/page untrusted" in said
