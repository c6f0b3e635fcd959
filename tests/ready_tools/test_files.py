"""The ready file tools, as a model calls them."""

import asyncio
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from callboard import Agent, Files, Runtime, ScriptedModel, ToolContext, call, say
from callboard.errors import ToolError
from callboard.runtime.files.files import Files as FilesClass
from callboard.tools import files as module
from callboard.tools import listing
from callboard.tools.files import (
    FILE_TOOLS,
    READ_ONLY,
    edit_file,
    glob,
    grep,
    list_dir,
    read_file,
    write_file,
)
from tests.runtime.files.trees import make_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


@pytest.fixture
def ctx(root: Path) -> ToolContext:
    return ToolContext(files=Files(root, write=["."]))


def test_each_tool_says_what_it_does_to_files_and_hides_its_context() -> None:
    effects = {tool.name: tool.effect for tool in FILE_TOOLS}
    assert effects == {
        "read_file": "read", "write_file": "idempotent", "edit_file": "write",
        "list_dir": "read", "glob": "read", "grep": "read",
    }  # fmt: skip
    assert {tool.effect for tool in READ_ONLY} == {"read"}
    for tool in FILE_TOOLS:
        schema = msgspec.json.decode(tool.input_schema)
        assert "ctx" not in schema["properties"]
        assert all("description" in one for one in schema["properties"].values()), tool.name
        assert tool.description


# --- read_file --------------------------------------------------------------------


def test_lines_stand_behind_their_numbers(root: Path, ctx: ToolContext) -> None:
    (root / "poem").write_text("one\ntwo\n\nfour\n")
    assert read_file(ctx, "poem") == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"
    assert read_file(ctx, "poem", 2, 1) == "     2\ttwo\n[lines 2 to 2 of 4; go on with offset=3]"
    with pytest.raises(ToolError, match="has 4 lines"):
        read_file(ctx, "poem", 5)
    (root / "nothing").touch()
    assert read_file(ctx, "nothing") == "(the file is empty)"


def test_a_long_file_and_a_long_line_are_cut_with_the_way_to_the_rest(root: Path, ctx: ToolContext) -> None:
    (root / "long").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 5_000)
    first = read_file(ctx, "long")
    assert len(first) < listing.OUTPUT_CHARS_MAX + 200
    last = int(first.splitlines()[-1].partition("offset=")[2].rstrip("]"))
    assert read_file(ctx, "long", last).startswith(f"{last:>6}\ty")
    (root / "wide").write_text("z" * 9_000)
    assert read_file(ctx, "wide").endswith("… [9,000 characters]")


def test_other_encodings_are_read_and_binary_files_are_refused(root: Path, ctx: ToolContext) -> None:
    (root / "wide").write_bytes("é\r\nb\r\n".encode("utf-16"))
    assert read_file(ctx, "wide") == "     1\té\n     2\tb"
    (root / "latin").write_bytes(b"caf\xe9")
    assert "not UTF-8" in read_file(ctx, "latin")
    (root / "image").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(ToolError, match="binary"):
        read_file(ctx, "image")


# --- write_file, edit_file --------------------------------------------------------


def test_a_file_is_written_and_told(root: Path, ctx: ToolContext) -> None:
    assert write_file(ctx, "new/note", "é\nb") == "wrote new/note: 2 lines, 4 bytes"
    assert (root / "new/note").read_bytes() == "é\nb".encode()


def test_an_edit_replaces_the_one_place(root: Path, ctx: ToolContext) -> None:
    (root / "code").write_text("a = 1\nb = 2\n")
    assert edit_file(ctx, "code", "b = 2", "b = 3") == "edited code: 1 place, at line 2"
    assert (root / "code").read_text() == "a = 1\nb = 3\n"
    assert (
        edit_file(ctx, "code", " = ", "=", replace_all=True) == "edited code: 2 places, the first at line 1"
    )
    assert (root / "code").read_text() == "a=1\nb=3\n"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("x", "y", r"occurs 3 times in code, at lines 1, 1, 3: add lines .* replace_all=true"),
        ("nope", "y", "does not contain old_text; nothing was changed"),
        ("X b", "y", "with other upper and lower case"),
        ("x  b", "y", "with other spaces or line breaks"),
        ("", "y", "old_text is empty; use write_file"),
        ("x b", "x b", "are equal"),
    ],
)
def test_an_edit_that_is_not_clear_changes_nothing(
    root: Path, ctx: ToolContext, old: str, new: str, words: str
) -> None:
    (root / "code").write_text("x x b\n\nx\n")
    with pytest.raises(ToolError, match=words):
        edit_file(ctx, "code", old, new)
    assert (root / "code").read_text() == "x x b\n\nx\n"


def test_an_edit_keeps_encoding_and_line_ends(root: Path, ctx: ToolContext) -> None:
    for data in ("a\r\nb\r\nc".encode("utf-16"), b"\xef\xbb\xbfa\r\nb\r\nc"):
        (root / "dos").write_bytes(data)
        edit_file(ctx, "dos", "a\nb", "a\nx")
        encoding = "utf-16" if data[:2] == b"\xff\xfe" else "utf-8-sig"
        assert (root / "dos").read_bytes() == "a\r\nx\r\nc".encode(encoding)
    (root / "latin").write_bytes(b"caf\xe9 x")
    with pytest.raises(ToolError, match="not UTF-8"):
        edit_file(ctx, "latin", "x", "y")


def test_an_edit_needs_to_read_and_to_write(root: Path) -> None:
    ctx = ToolContext(files=Files(root, read=["a"], write=["docs"]))
    for path in ("a/one", "docs/page.md"):
        with pytest.raises(ToolError, match="may not be"):
            edit_file(ctx, path, "inside", "x")


# --- list_dir, glob, grep ---------------------------------------------------------


def test_a_folder_is_listed_with_kinds_and_sizes(root: Path, ctx: ToolContext) -> None:
    (root / "a" / "two\nlines").touch()
    os.mkfifo(root / "a" / "pipe")
    assert list_dir(ctx, "a").splitlines() == [
        "b/",
        "link-root  link, not followed",
        "one  13 bytes",
        "pipe  no file: a device, a pipe or a socket",
        '"two\\nlines"  0 bytes',
    ]
    assert list_dir(ctx, "empty") == "(nothing found)"


def test_a_long_list_is_cut_and_says_so(
    root: Path, ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATHS_MAX", 3)
    assert list_dir(ctx).endswith("entries; use glob to choose]")
    assert glob(ctx, "**").endswith("[these are the first 3, and there are more; begin in a folder below]")


def test_files_are_found_by_their_paths(ctx: ToolContext) -> None:
    assert glob(ctx, "*.md") == "docs/page.md\ndocs-old/old.md"
    assert glob(ctx, "b/**", "a") == "a/b/c/three\na/b/hard\na/b/two"
    assert glob(ctx, "*.nope") == "(nothing found)"
    with pytest.raises(ToolError, match="no such file"):
        glob(ctx, "*", "nope")


def test_lines_are_found_in_files_and_in_one_file(root: Path, ctx: ToolContext) -> None:
    assert (
        grep(ctx, "inside: a/.*(one|two)$")
        == "a/b/two:1:inside: a/b/two\na/one:1:inside: a/one\n[passed over: 2 binary or large files]"
    )
    assert grep(ctx, "INSIDE", "a/one", ignore_case=True) == "a/one:1:inside: a/one"
    assert grep(ctx, "inside", "docs", "*.txt") == "(nothing found)"
    (root / "code").write_text("1\n2\nx 3\n4\nx 5\n6\n7\n8\n9\nx\n")
    assert grep(ctx, "x", "code", context=1).splitlines() == [
        "code-2-2", "code:3:x 3", "code-4-4", "code:5:x 5", "code-6-6", "--", "code-9-9", "code:10:x", "--",
    ]  # fmt: skip
    assert (
        grep(ctx, "x", "code", limit=1)
        .splitlines()[-1]
        .startswith("[these are the first 1, and there may be more")
    )


@pytest.mark.parametrize("other", ["x", "\u00e4", "\U0001f600"])
def test_a_long_line_is_shown_around_its_first_match(root: Path, ctx: ToolContext, other: str) -> None:
    for before, after in ((0, 0), (0, 5_000), (150, 150), (399, 1), (1_000, 1_000), (5_000, 0)):
        line = other * before + "needle" + other * after
        (root / "long").write_text(f"first\n{line}\nlast\n")
        for lines in (grep(ctx, "needle", "long"), grep(ctx, "needle", "long", context=1)):
            (text,) = (text for text in lines.splitlines() if text.startswith("long:2:"))
            assert "needle" in text
            assert text.removeprefix("long:2:").strip("…") in line
            assert len(text) < 420
            assert (len(line) <= 400) == ("…" not in text)


def test_a_search_that_runs_late_gives_what_it_has(
    root: Path, ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.deadline = time.monotonic() - 1
    assert "there may be more" in grep(ctx, "inside")
    assert "there are more" in glob(ctx, "**")
    ctx.deadline = None
    ctx.cancel()
    with pytest.raises(asyncio.CancelledError):
        grep(ctx, "inside")
    assert module._SPARE_S > 0


@pytest.mark.slow
def test_a_pattern_of_exponential_time_on_10_megabytes_is_answered_and_holds_no_loop(root: Path) -> None:
    (root / "big").write_bytes(b"a" * 9_999_990 + b"!\n")
    (root / "lines").write_bytes(b"aaaa aaaa aaaa!\n" * 600_000)
    model = ScriptedModel(
        {
            "host": [
                call("grep", pattern="(a+)+$", files="{big,lines}"),
                lambda request: say(str(request.conversation[-1]["content"])),
            ]
        }
    )
    host = Agent("host", tools=READ_ONLY)
    beats: list[float] = []

    async def main() -> str:
        async with Runtime(":memory:", model=model, files=FilesClass(root)) as runtime:
            watch = asyncio.create_task(beat(beats))
            outcome = await runtime.run(host, "search")
            watch.cancel()
            return outcome.text

    assert "nothing found" in asyncio.run(main())
    assert len(beats) > 3, "the loop went on meanwhile"


async def beat(beats: list[float]) -> None:
    while True:
        beats.append(time.monotonic())
        await asyncio.sleep(0.005)


def test_tools_of_many_threads_share_one_folder(ctx: ToolContext) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(50):
                write_file(ctx, f"t/{number}", f"{turn}")
                assert read_file(ctx, f"t/{number}") == f"     1\t{turn}"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert glob(ctx, "t/*").count("\n") == 3
