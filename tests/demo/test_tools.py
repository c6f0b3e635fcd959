"""The tools as a model calls them: their answers, their refusals, and the limits of their answers' length."""

import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from callboard.demo.inquiry import Line
from callboard.demo.tools import ANSWER_CHARS_MAX, ASIDE, MANIFESTS, PACKAGES, SAMPLES, Folder, language_of
from callboard.runtime.tools.tool import tool
from tests.demo.folders import write
from tests.tables import table


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def tools(root: Path, files: dict[str, str]) -> Folder:
    root.mkdir(exist_ok=True)
    write(root, files)
    return Folder(root)


def test_every_tool_can_be_given_to_an_agent(root: Path) -> None:
    for name, function in tools(root, {}).tools().items():
        made = tool(effect="read")(function)
        assert made.name == name
        assert made.description
        assert set(json.loads(bytes(made.input_schema))["properties"]) & {"depth", "files"}


def test_a_listing_counts_the_files_in_and_below_each_folder(root: Path) -> None:
    found = tools(root, {"b.txt": "12345", "z/one": "", "z/y/two": "", ".git/HEAD": "", "zz/x": ""})
    (root / "empty").mkdir()
    (root / "link").symlink_to(root / "z")
    found = Folder(root)
    assert [(each.path, each.files, each.own) for each in found.list_folders()] == [
        ("z", 2, 1),
        ("zz", 1, 1),
        ("z/y", 1, 1),
    ]
    assert [each.path for each in found.list_folders(depth=1)] == ["z", "zz"]


def test_code_is_counted_by_language(root: Path) -> None:
    found = tools(root, {"a.py": "1\n2\n", "b.py": "3", "c.rs": "x", "sub/d.py": "", "data": "x"})
    (root / "e.py").write_bytes(b"\0\0\n")
    census = Folder(root).count_code(lines=True)
    assert census.languages == {"Python": 4, "Rust": 1, "other": 1}
    assert (census.files, census.lines) == (6, 5)
    assert found.count_code(files="^sub/").files == 1


def test_a_file_that_cannot_be_parsed_says_why(root: Path) -> None:
    found = tools(root, {"a.py": "def f(:\n", "b.py": "import os\n"})
    (root / "c.py").write_bytes(b"\0")
    problems = {file.file: file.problem for file in Folder(root).parse_python("")}
    assert problems["a.py"].startswith("a.py is not the syntax of this Python")
    assert problems["b.py"] == ""
    assert problems["c.py"].startswith("c.py is binary")
    assert [file.file for file in found.parse_python("", containing="^import")] == ["b.py"]


def test_a_limit_that_cuts_is_said(root: Path) -> None:
    found = tools(root, {f"{number}.py": "" for number in range(5)})
    *few, last = found.parse_python("", limit=3)
    assert [file.file for file in few] == ["0.py", "1.py", "2.py"]
    assert last.problem == "the files after the first 3."
    assert len(found.parse_python("", limit=5)) == 5


def test_no_answer_is_longer_than_a_model_may_read(root: Path) -> None:
    name = "n" * 200
    wide = {f"{'/'.join([name] * 10)}/{number:03}{name}.py": "import os, sys\n" for number in range(300)}
    found = tools(root, wide)
    (root / "lots.py").write_text("\n".join(f"import {name}{n}, b{name}" for n in range(5_000)))
    (root / "pyproject.toml").write_text("\n".join(f'{name}{n} = "{name}"' for n in range(2_000)))
    found = Folder(root)
    answers = [
        found.list_folders(depth=11),
        found.count_code(lines=True),
        found.parse_python(r"\.py$"),
        found.read_config(r"\.toml$"),
    ]
    assert max(len(msgspec.json.encode(answer).decode()) for answer in answers) <= ANSWER_CHARS_MAX


def test_no_more_settings_are_looked_for_than_an_answer_has_room_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def place(path: str, key: str, value: str, text: str) -> Line:
        looked.append(key)
        return Line(path, 0, key)

    monkeypatch.setattr("callboard.demo.sources._place", place)
    many = "\n".join(f'name{n} = "{"v" * 400}"' for n in range(2_000))
    settings = tools(root, {"pyproject.toml": many}).read_config(r"\.toml$")
    assert looked == [f"name{n}" for n in range(len(settings) + 1)]
    assert len(settings) > 50


def test_one_call_reads_only_so_many_bytes_and_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callboard.demo.tools.SCAN_BYTES_MAX", 7)
    first, second = tools(root, {"a.py": "x = 1", "b.py": "y = 2"}).parse_python("")
    assert (first.problem, second.problem) == ("", "b.py: enough was read before.")


def test_a_pattern_that_is_not_one_is_an_error(root: Path) -> None:
    with pytest.raises(re.error):
        tools(root, {}).parse_python("", containing="(")


def test_a_pipe_never_makes_a_tool_wait(root: Path) -> None:
    tools(root, {})
    os.mkfifo(root / "pipe.py")
    os.mkfifo(root / "pyproject.toml")
    found = Folder(root)

    def use_every_tool() -> None:
        found.list_folders()
        found.count_code(lines=True)
        assert not [*found.parse_python(""), *found.read_config("")]

    worker = threading.Thread(target=use_every_tool, daemon=True)
    worker.start()
    worker.join(timeout=5)
    assert not worker.is_alive()


def test_tools_can_be_called_from_many_threads_at_once(root: Path) -> None:
    found = tools(root, {f"d{n}/test_{n}.py": "import os\n'\\d'\n" for n in range(50)})

    def look(number: int) -> tuple[int, int]:
        (parsed,) = found.parse_python(f"^d{number}/")
        return found.count_code().files, len(parsed.imports)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(look, range(50))) == {(50, 1)}


@table(
    ("name", "language"),
    [
        ("a.py", "Python"),
        ("A.PY", "Python"),
        ("x.py/data", "other"),
        (".gitignore", "other"),
        (".py", "other"),
        ("archive.tar.gz", "other"),
        ("a.R", "R"),
        ("page.test.tsx", "TypeScript"),
        ("README.md", "Markdown"),
    ],
)
def test_a_language_is_known_by_a_files_name(name: str, language: str) -> None:
    assert language_of(name) == language


@pytest.mark.parametrize(
    ("names", "programs", "is_foreign"),
    [
        (["a.md", "b.md", "c.py", "d.py", "e.go"], ("Python", "Go"), False),
        (["a.go", "b.go", "c.py"], ("Go", "Python"), True),
        (["a.md", "b.ipynb", "c"], (), False),
        (["a.py", "b.py"], ("Python",), False),
    ],
)
def test_a_folder_is_foreign_if_most_programs_are_not_in_python(
    names: list[str], programs: tuple[str, ...], is_foreign: bool, root: Path
) -> None:
    census = tools(root, dict.fromkeys(names, "")).count_code()
    assert (census.programs, census.is_foreign) == (programs, is_foreign)


@table(
    ("path", "aside", "sample"),
    [
        ("src/app/main.py", False, False),
        ("tests/app/main.py", True, False),
        ("tests/data/main.py", True, True),
        ("x/fixtures/a/main.py", True, True),
        ("scripts/release.py", True, False),
        (".github/run.py", True, False),
        (".hidden.sh", True, False),
        ("tests.py", False, False),
        ("Examples/one.py", True, False),
        ("contest/one.py", False, False),
    ],
)
def test_places_aside_are_known_by_their_folders(path: str, aside: bool, sample: bool) -> None:
    assert (bool(re.search(ASIDE, path)), bool(re.search(SAMPLES, path))) == (aside, sample)


def test_manifests_are_known_by_their_whole_names() -> None:
    names = ["setup.py", "a/pyproject.toml", "xsetup.py", "setup.py.bak", "pyproject.toml/x", "Pipfile.lock"]
    assert [name for name in names if re.search(PACKAGES, name)] == ["setup.py", "a/pyproject.toml"]
    names += [
        "requirements.txt",
        "a/dev-requirements.txt",
        "requirements/x.txt",
        "requirements/a/x.txt",
        "x.txt",
    ]
    assert [name for name in names if re.search(MANIFESTS, name)] == [
        "setup.py",
        "a/pyproject.toml",
        "requirements.txt",
        "a/dev-requirements.txt",
        "requirements/x.txt",
    ]
