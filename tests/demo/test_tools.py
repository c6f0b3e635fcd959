"""The tools as a model calls them: what they say, what they refuse, and that they never say too much."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from callboard.demo.bounds import ANSWER_CHARS_MAX
from callboard.demo.facts import Listed
from callboard.demo.tools import TOOL_NAMES, FolderTools
from callboard.runtime.tools.tool import tool
from tests.demo.folders import write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def tools(root: Path, files: dict[str, str]) -> FolderTools:
    root.mkdir(exist_ok=True)
    write(root, files)
    return FolderTools(root)


def size(answer: object) -> int:
    return len(msgspec.json.encode(answer).decode())


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_every_tool_can_be_given_to_an_agent(name: str, root: Path) -> None:
    made = tool(effect="read")(tools(root, {}).all()[name])
    schema = json.loads(bytes(made.input_schema))
    assert made.name == name
    assert made.description
    assert set(schema["properties"]) & {"path", "patterns"}


def test_a_listing_has_folders_first_and_counts_what_is_below_them(root: Path) -> None:
    listing = tools(root, {"b.txt": "12345", "z/one": "", "z/y/two": "", ".git/HEAD": ""}).list_files()
    assert listing.entries == (Listed("z", "folder", files=2), Listed("b.txt", "file", bytes=5))
    assert [skip.path for skip in listing.skipped] == [".git"]
    inner = FolderTools(root).list_files("z")
    assert [entry.path for entry in inner.entries] == ["z/y", "z/one"]


def test_what_is_listed_can_be_asked_for_as_it_is_shown(root: Path) -> None:
    found = tools(root, {"new\nline/a b.txt": "text"})
    folder = found.list_files().entries[0].path
    file = found.list_files(folder).entries[0].path
    assert (folder, file) == ("new\\nline", "new\\nline/a b.txt")
    assert found.read_text(file).text == "text"


def test_files_are_found_by_glob_with_a_count_and_the_shallowest_first(root: Path) -> None:
    found = tools(root, {f"d{n}/{n}.py": "" for n in range(5)} | {"top.py": "", "a/b/c.txt": ""})
    python, text, none = found.find_files(["*.py", "a/**/*.txt", "*.go"], limit=2).patterns
    assert (python.count, python.paths) == (6, ("top.py", "d0/0.py"))
    assert text.paths == ("a/b/c.txt",)
    assert (none.count, none.paths) == (0, ())


def test_code_is_counted_by_language(root: Path) -> None:
    files = {"a.py": "1\n2\n", "b.py": "3", "c.rs": "x", "sub/d.py": "", "data": "x", "Makefile": "a:\n"}
    found = tools(root, files)
    (root / "e.py").write_bytes(b"\0\0")
    census = found.count_code(lines=True)
    counted = [(count.language, count.files, count.lines) for count in census.languages]
    assert counted == [("Python", 4, 3), ("Make", 1, 1), ("Rust", 1, 1)]
    assert (census.files, census.unknown, census.binary, census.folders) == (7, 1, 1, 1)
    assert found.count_code(recursive=False).files == 6
    assert found.count_code("sub").files == 1


def test_a_large_text_is_read_in_parts(root: Path) -> None:
    found = tools(root, {"a.txt": "0123456789"})
    first = found.read_text("a.txt", max_bytes=4)
    assert (first.text, first.next_start, first.bytes) == ("0123", 4, 10)
    last = found.read_text("a.txt", start=8, max_bytes=4)
    assert (last.text, last.next_start) == ("89", 0)
    assert found.read_text("a.txt", start=99).text == ""


def test_text_comes_in_any_encoding_and_without_control_characters(root: Path) -> None:
    found = tools(root, {})
    (root / "utf16.txt").write_bytes("größe\r\n".encode("utf-16"))
    (root / "bom.txt").write_bytes(b"\xef\xbb\xbfplain")
    (root / "latin.txt").write_bytes(b"gr\xf6\xdfe \x1b[31m")
    assert found.read_text("utf16.txt").text == "größe\n"
    assert found.read_text("bom.txt").text == "plain"
    assert found.read_text("latin.txt").text == "gr\ufffd\ufffde \\x1b[31m"


def test_a_search_counts_per_pattern_and_shows_the_first_lines(root: Path) -> None:
    found = tools(
        root, {"a.py": "x = 1\n\nimport os\nimport sys\n", "b.py": "import os\n", "c.txt": "import os\n"}
    )
    imports, nothing = found.search([r"^\s*import \w+", "absent"], ["*.py"], limit=3, per_file=2).patterns
    assert (imports.files, imports.lines, nothing.files) == (2, 3, 0)
    assert [(hit.path, hit.line, hit.text) for hit in imports.hits] == [
        ("a.py", 3, "import os"),
        ("a.py", 4, "import sys"),
        ("b.py", 1, "import os"),
    ]


def test_a_search_can_leave_files_out_and_names_what_it_skipped(root: Path) -> None:
    found = tools(root, {"a.py": "x\n", "gen/b.py": "x\n"})
    (root / "binary.py").write_bytes(b"x\0")
    with (root / "huge.py").open("wb") as file:
        file.truncate(5_000_000)
    answer = found.search(["x"], ["*.py"], without=["gen/**"])
    assert (answer.searched, answer.patterns[0].files) == (1, 1)
    assert [(skip.path, skip.why) for skip in answer.skipped] == [
        ("binary.py", "binary"),
        ("huge.py", "huge: 5000000 bytes"),
    ]


def test_lines_that_end_like_on_windows_are_lines(root: Path) -> None:
    found = tools(root, {})
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    assert [hit.line for hit in found.search(["^two$"], ["*"]).patterns[0].hits] == [2]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("list_files", {"path": "a.txt"}, "is no folder but a file"),
        ("list_files", {"path": "missing"}, "it is not there"),
        ("read_text", {"path": "sub"}, "is a folder; list_files lists it"),
        ("read_text", {"path": "a.txt", "start": -1}, "start must be 0 or more"),
        ("read_text", {"path": "binary"}, "is binary"),
        ("read_text", {"path": "../x"}, "'..' are not followed"),
        ("search", {"patterns": ["("], "files": ["*"]}, "RE2"),
        ("search", {"patterns": [], "files": ["*"]}, "patterns: 0 were given"),
        ("search", {"patterns": ["x"], "files": ["*"] * 61}, "files: 61 were given"),
        ("find_files", {"patterns": ["x"] * 61}, "1 to 60 are taken at once"),
        ("parse_python", {"path": "binary"}, "is binary, no Python source"),
        ("read_config", {"path": "a.txt"}, "read as settings are"),
        ("read_config", {"path": "broken.toml"}, "cannot be parsed"),
    ],
)
def test_what_goes_wrong_is_said_in_a_sentence(
    name: str, arguments: dict[str, object], words: str, root: Path
) -> None:
    found = tools(root, {"a.txt": "x", "sub/b": "", "broken.toml": "= nothing"})
    (root / "binary").write_bytes(b"\0\0")
    with pytest.raises((OSError, ValueError)) as raised:
        found.all()[name](**arguments)
    assert words in str(raised.value)
    assert str(root) not in str(raised.value)


def test_no_answer_is_longer_than_a_model_may_read(root: Path) -> None:
    name = "n" * 200
    deep = "/".join([name] * 10)
    wide = {f"{deep}/{number:03}{name}.py": "import os, sys\n" * 400 for number in range(300)}
    found = tools(root, wide)
    (root / "control.txt").write_bytes((b'\x1b"\\' + b"x" * 30) * 5_000)
    (root / "lots.py").write_text("\n".join(f"from {name}{n} import {name}, b{name}" for n in range(5_000)))
    (root / "lots.toml").write_text("\n".join(f'{name}{n} = "{name}"' for n in range(2_000)))
    answers = [
        found.list_files(deep),
        found.find_files(["*.py"] * 60, limit=10_000),
        found.count_code(lines=True),
        found.search(["import"] * 60, ["*.py"], limit=10_000, per_file=1_000),
        found.read_text("control.txt", max_bytes=10**9),
        found.parse_python("lots.py"),
        found.read_config("lots.toml"),
    ]
    assert max(map(size, answers)) < ANSWER_CHARS_MAX


def test_a_pipe_never_makes_a_tool_wait(root: Path) -> None:
    found = tools(root, {})
    os.mkfifo(root / "pipe.py")
    os.mkfifo(root / "pyproject.toml")

    def use_every_tool() -> None:
        found.list_files()
        found.count_code(lines=True)
        found.search(["x"], ["*"])
        for name in ("parse_python", "read_config", "read_text"):
            for path in ("pipe.py", "pyproject.toml"):
                with pytest.raises(PermissionError, match="FIFO"):
                    found.all()[name](path)

    worker = threading.Thread(target=use_every_tool, daemon=True)
    worker.start()
    worker.join(timeout=5)
    assert not worker.is_alive()


def test_tools_can_be_called_from_many_threads_at_once(root: Path) -> None:
    found = tools(root, {f"d{n}/test_{n}.py": "import os\n'\\d'\n" for n in range(50)})

    def look(number: int) -> tuple[int, int, int]:
        parsed = found.parse_python(f"d{number}/test_{number}.py")
        matches = found.search(["import"], ["*.py"])
        return found.count_code().files, matches.searched, len(parsed.imports)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(look, range(50))) == {(50, 50, 1)}
