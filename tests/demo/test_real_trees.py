"""Trees that were not written for these tests: installed libraries, the standard library, and a large one."""

import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from callboard.demo.tools import Folder
from tests.demo.folders import write
from tests.demo.play import Play
from tests.steps import counting

STEPS_OF_A_FILE = 600
"""Calls of functions that a file may cost, of all agents and their tools together."""

STDLIB = Path(sysconfig.get_paths()["stdlib"])
TRUTH = {
    "click": {"none"},
    "rich": {"__main__.py"},
    "msgspec": {"none"},
}
"""Libraries as they are installed, without their tests, and their entry points."""


@pytest.mark.parametrize("name", TRUTH)
def test_an_installed_library_has_no_testing_framework(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    play = Play(Folder(Path(spec.origin).parent).tools())
    tester, packager, reader = (play.run(agent).report for agent in ("tester", "packager", "reader"))
    assert tester is not None
    assert packager is not None
    assert reader is not None
    assert tester["answer"] == "none"
    assert {packager["answer"], reader["answer"]} <= TRUTH[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_json", "test_asyncio", "test_importlib", "test_email"])
def test_the_standard_library_tests_itself_with_unittest(name: str) -> None:
    root = STDLIB / "test" / name
    if not root.is_dir():
        pytest.skip("the Python of this system comes without its own tests")
    report = Play(Folder(root).tools()).run("tester").report
    assert report is not None
    assert (report["answer"], report["basis"]) == ("unittest", "used")


@pytest.mark.slow
def test_a_tree_of_five_thousand_files_is_explained_with_a_bounded_number_of_steps_for_each_file(
    tmp_path: Path,
) -> None:
    body = '"""A part."""\nimport os\n\n\nclass Part:\n    def run(self):\n        return os\n\n' * 20
    files = {f"src/app/p{n // 100}/m{n}.py": body for n in range(3_000)}
    files |= {
        f"tests/t{n // 100}/test_m{n}.py": "import pytest\n\n\ndef test_m():\n    pass\n"
        for n in range(1_000)
    }
    files |= {f"web/c{n // 100}/c{n}.ts": "export const one = 1;\n" * 50 for n in range(990)}
    files |= {"pyproject.toml": '[project]\nname = "app"\n[project.scripts]\napp = "app.main:main"\n'}
    write(tmp_path, files)
    with counting() as steps:
        text = Play(Folder(tmp_path).tools()).run("host").text
    assert steps.made < STEPS_OF_A_FILE * len(files)
    assert "Testing framework: pytest (used)" in text
    assert "Entry point: app = app.main:main" in text
    assert "src/app: Python; files: 3,000" in text
