"""Edits of files and images in the messages of the page, in a browser."""

import base64
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.replay.page.kit import write_page
from tests.replay.page.workshop import AFTER, BEFORE, PATCH, image, png, workshop

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]

ELEMENTS_MAX = 564
SEARCH = "<<<<<<< SEARCH\n:start_line:7\n-------\nkept\nold\n=======\nkept\nnew\n>>>>>>> REPLACE\n"
V4A = "*** Begin Patch\n*** Update File: f\n@@\n kept\n-old\n+new\n*** End Patch\n"
OLD, NEW = "kept\nold", "kept\nnew"
FORMS: dict[str, Any] = {
    "own": {"path": "f", "old_text": OLD, "new_text": NEW},
    "claude-code": {"file_path": "f", "old_string": OLD, "new_string": NEW, "replace_all": True},
    "text-editor": {"command": "str_replace", "path": "f", "old_str": OLD, "new_str": NEW},
    "multi-edit": {"file_path": "f", "edits": [{"old_string": OLD, "new_string": NEW}]},
    "mcp-filesystem": {"path": "f", "edits": [{"oldText": OLD, "newText": NEW}], "dryRun": False},
    "swe-agent": {"path": "f", "search": OLD, "replace": NEW},
    "roo": {"path": "f", "diff": SEARCH},
    "cline": {"path": "f", "diff": f"------- SEARCH\n{OLD}\n=======\n{NEW}\n+++++++ REPLACE"},
    "apply-patch": {"path": "f", "input": V4A},
    "shell": {"path": "f", "command": ["bash", "-lc", f"apply_patch <<'E'\n{V4A}E"]},
    "hosted": {"operation": {"type": "update_file", "path": "f", "diff": "@@\n kept\n-old\n+new\n"}},
    "git": {"path": "f", "patch": "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n kept\n-old\n+new\n"},
    "aider-udiff": {"path": "f", "text": "--- f\n+++ f\n@@ ... @@\n kept\n-old\n+new"},
}
"""Arguments by which a line of a file `f` is changed behind one that is kept, in the forms of many tools."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser() as opened:
        opened.open(write_page(workshop(), tmp_path_factory.mktemp("page")))
        yield opened


@pytest.fixture(autouse=True)
def quiet(tab: Browser) -> Iterator[None]:
    tab.console.clear()
    tab.requests.clear()
    tab.run("callboard.setMode('story')")
    yield
    assert tab.console == []
    assert [one for one in tab.requests if not one.startswith("data:image/")] == []
    assert tab.dialogs == []


def edit_in(tab: Browser, arguments: Any) -> Any:
    return tab.run(f"callboard.editIn({json.dumps(arguments)})")


def sides(lines: list[list[str]]) -> tuple[str, str]:
    """Return the texts that the lines of a difference stand for."""
    before, after = ("\n".join(text for sign, text in lines if sign in (" ", own)) for own in "-+")
    return before, after


def show(tab: Browser, content: list[Any]) -> None:
    """Show a message with this content in the conversation of the host."""
    tab.run(
        f"callboard.states.historyAt = () => [[{{ role: 'user', content: {json.dumps(content)} }}, 6]];"
        " callboard.setMode('story'); callboard.read('host');"
        " new Promise((done) => setTimeout(done, 150)).then(() => { delete callboard.states.historyAt; })"
    )


def use(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a block with a call."""
    return {"type": "tool_use", "id": "1", "name": "edit", "input": arguments}


def reading(tab: Browser) -> str:
    return str(tab.run("document.getElementById('reading').innerText"))


def table(tab: Browser, text: str) -> list[list[str]]:
    """Show a text and return the cells of its table, by row."""
    show(tab, [{"type": "text", "text": text}])
    cells: list[list[str]] = tab.run(
        "[...document.querySelectorAll('#reading tr')].map((row) =>"
        " [...row.children].map((cell) => cell.innerText))"
    )
    return cells


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\nend", [["a", "b"], ["1", "2"]]),
        ("words\na | b\n--- | ---\n1 | 2", [["a", "b"], ["1", "2"]]),
        ("| a | b |\n|--|--|\n| 1 |\n| 1 | 2 | 3 |", [["a", "b"], ["1", ""], ["1", "2"]]),
        (r"| a | b |" "\n|--|--|\n" r"| x \| y | `1` |", [["a", "b"], ["x | y", "1"]]),
        ("| a |\n|--|\n| <img src=x onerror=alert(1)> |", [["a"], ["<img src=x onerror=alert(1)>"]]),
        ("a | b\nc | d", []),
        ("| a | b |\n|---|\n| 1 | 2 |", []),
        ("a\n---\nb", []),
    ],
)
def test_a_table_in_markdown_is_drawn_as_one(tab: Browser, text: str, cells: list[list[str]]) -> None:
    assert table(tab, text) == cells
    assert tab.dialogs == []


def test_a_table_of_too_many_cells_stays_text_and_hangs_nothing(tab: Browser) -> None:
    rows = "\n".join(f"| {n} | b |" for n in range(200))
    assert table(tab, f"| a | b |\n|--|--|\n{rows}\n\nbehind it") == []
    assert "| 199 | b |" in reading(tab)
    assert "behind it" in reading(tab)
    assert table(tab, "|" * 100_000 + "\n" + "|-" * 100_000) == []
    assert table(tab, "a | b\n" + "-" * 100_000 + " x") == []


@pytest.mark.parametrize("form", FORMS)
def test_an_edit_of_every_form_is_told_by_its_lines(tab: Browser, form: str) -> None:
    found = edit_in(tab, FORMS[form])
    assert [line for line in found["lines"] if line[0] != "@"] == [[" ", "kept"], ["-", "old"], ["+", "new"]]
    assert "f" in (found["path"], *(text.rpartition(": ")[2] for _, text in found["lines"]))
    told = {"path", "file_path"} | {name for name in FORMS[form] if name not in (found["rest"] or {})}
    assert not set(found["rest"] or {}) & told


def test_arguments_beside_an_edit_are_still_shown(tab: Browser) -> None:
    assert edit_in(tab, FORMS["claude-code"])["rest"] == {"replace_all": True}
    assert edit_in(tab, FORMS["text-editor"])["rest"] == {"command": "str_replace"}


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"path": "f", "content": "a\nb"}, [["+", "a"], ["+", "b"]]),
        ({"command": "create", "path": "f", "file_text": "a"}, [["+", "a"]]),
        ({"command": "insert", "path": "f", "insert_line": 2, "insert_text": "a"}, [["+", "a"]]),
        ({"command": "str_replace", "path": "f", "old_str": "a"}, [["-", "a"]]),
    ],
)
def test_a_new_file_an_insertion_and_a_deletion_have_one_side(
    tab: Browser, arguments: Any, lines: list[list[str]]
) -> None:
    assert edit_in(tab, arguments)["lines"] == lines


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "src", "search": "total"},
        {"before": "2026-01-01", "after": "2025-01-01"},
        {"subject": "a", "content": "b"},
        {"old": "a"},
        {"text": "a - b\n+ c"},
        [1], None, "plain", {"path": None, "old_str": 1, "new_str": [2]},
    ],
)  # fmt: skip
def test_other_arguments_are_no_edit(tab: Browser, arguments: Any) -> None:
    assert edit_in(tab, arguments) is None


def test_the_lines_of_a_difference_stand_for_both_texts(tab: Browser) -> None:
    random = Random(7)
    texts = ["\n".join(random.choices("abc\r", k=random.randrange(9))) for _ in range(600)]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    found = tab.run(
        f"{json.dumps(pairs)}.map(([one, other]) =>"
        " callboard.editIn({ path: 'f', old_text: one, new_text: other })?.lines ?? [])"
    )
    for (before, after), lines in zip(pairs, found, strict=True):
        assert sides(lines) == (before, after)
        kept = sum(sign == " " for sign, _ in lines)
        assert kept >= sum(
            a == b for a, b in zip(before.split("\n"), after.split("\n"), strict=False)
        ) * bool(before and after)


@pytest.mark.parametrize(
    "piece",
    ["x\n", "<<<<<<< SEARCH\n", "=======\n", "--- a\n+++ b\n", "@@ -1 +1 @@\n", "*** Update File: f\n"],
)  # fmt: skip
def test_a_text_of_a_megabyte_never_hangs_the_page(tab: Browser, piece: str) -> None:
    for size in (199_000, 1_000_000):
        text = f"{json.dumps(piece)}.repeat({size // len(piece)})"
        tab.run(
            f"callboard.editIn({{ path: 'f', old_text: {text}, new_text: 'y' + {text} }});"
            f"callboard.editIn({{ diff: {text} }});"
            "0"
        )
    show(tab, [use({"path": "f", "old_text": piece * 200_000, "new_text": "y"})])
    assert "show" in reading(tab)
    assert tab.run("document.querySelectorAll('*').length") <= ELEMENTS_MAX


def test_edits_stand_in_the_conversation_and_in_the_message(tab: Browser) -> None:
    tab.run("callboard.read('host')")
    lines = "[...document.querySelectorAll('%s .lines .%s')].map((one) => one.textContent)"
    gone = ("def total(orders):", "        result += order.price", "    assert total([]) == 0")
    assert tab.run(lines % ("#reading", "before")) == [f"\N{MINUS SIGN} {line}" for line in gone]
    seqs = [event.seq for event in workshop().events if event.kind == "CallTool"]
    tab.run(f"callboard.detail.show('message'); callboard.select({seqs[0]})")
    assert "+ def total_cents(orders):" in tab.run(lines % ("#detail", "after"))


def test_each_side_of_an_edit_can_be_copied(tab: Browser) -> None:
    tab.run("callboard.setMode('story'); callboard.read('host')")
    tab.run(
        "Object.defineProperty(navigator, 'clipboard',"
        " { configurable: true, value: { writeText: async (text) => { globalThis.copied = text; } } })"
    )
    copied = []
    for name in ("before", "after"):
        button = f"document.querySelector('#reading .edit [title=\"Copy the text {name}\"]')"
        copied.append(tab.run(f"({button}.click(), globalThis.copied)"))
    assert copied == [BEFORE, AFTER]


def test_a_long_difference_is_folded_and_hides_only_equal_lines(tab: Browser) -> None:
    lines = [f"line {n}" for n in range(400)]
    new = [*lines[:200], "other", *lines[201:]]
    show(tab, [use({"path": "f", "old_text": "\n".join(lines), "new_text": "\n".join(new)})])
    assert "line 7" not in reading(tab)
    assert "f \N{MINUS SIGN}1 +1" in reading(tab)
    tab.run(
        "document.querySelector('#reading details').open = true; new Promise((done) => setTimeout(done, 50))"
    )
    for text in ("\N{MINUS SIGN} line 200", "+ other", "  line 199", "197 equal lines"):
        assert text in reading(tab)


def test_a_patch_in_an_answer_or_a_result_has_its_colours(tab: Browser) -> None:
    show(tab, [{"type": "text", "text": f"Look:\n```\n{SEARCH}```"}, {"type": "document", "text": PATCH}])
    lines = "[...document.querySelectorAll('#reading .lines .after')].map((one) => one.textContent)"
    assert tab.run(lines) == ["+ new", "+     assert total_cents([]) == 0"]


# --- images ---------------------------------------------------------------------------


def images(tab: Browser) -> list[Any]:
    found = tab.run(
        "Promise.all([...document.querySelectorAll('#reading img')].map((one) =>"
        " one.decode().catch(() => 0).then(() => [one.naturalWidth, one.naturalHeight, one.alt])))"
    )
    return list(found)


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "gif"])
def test_a_raster_image_is_drawn_with_its_size_in_its_alternative_text(tab: Browser, kind: str) -> None:
    data = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    if kind != "gif":
        canvas = "Object.assign(document.createElement('canvas'), { width: 30, height: 20 })"
        data = tab.run(f"{canvas}.toDataURL('image/{kind}')").partition(",")[2]
    width, height = (1, 1) if kind == "gif" else (30, 20)
    show(tab, [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"type": "image", "data": data, "mimeType": f"image/{kind}"},
        {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{data}"}},
        {"type": "input_image", "image_url": f"data:image/{kind};base64,{data}"},
    ])  # fmt: skip
    found = images(tab)
    assert [one[:2] for one in found] == [[width, height]] * 4
    for *_, alt in found:
        assert alt.startswith(f"{kind.upper()} image, {width} \N{MULTIPLICATION SIGN} {height}, ")
        assert alt.endswith(", of event 6")


def test_what_is_no_raster_image_is_told_in_words(tab: Browser) -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    show(tab, [image(svg, "image/svg+xml"), image(svg), image(b"\x89PNG no more"), image(b"", "image/png"),
               {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%%%"}},
               {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
               {"type": "image_url", "image_url": {"url": "javascript:alert(3)"}},
               {"type": "document", "source": pdf}])  # fmt: skip
    assert images(tab) == []
    texts = reading(tab)
    assert texts.count("an SVG, shown as text") == 2
    assert texts.count("<script>alert(2)</script>") == 2
    assert texts.count("its data is broken") == 2
    for words in ("https://example.org/a.png", "javascript:alert(3)", "document, application/pdf, 6 bytes"):
        assert words in texts


def test_an_image_with_broken_data_says_so(tab: Browser) -> None:
    show(tab, [image(png(9, 9)[:24] + bytes(40)), {"type": "text", "text": "after it"}])
    tab.run("new Promise((done) => setTimeout(done, 200))")
    assert "its data is broken" in reading(tab)
    assert "after it" in reading(tab)


def test_an_image_of_very_many_pixels_is_drawn_only_on_demand(tab: Browser) -> None:
    huge = bytearray(png(4, 4))
    huge[16:24] = (30_000).to_bytes(4, "big") * 2
    show(tab, [image(bytes(huge))])
    assert tab.run("document.querySelector('#reading img').getAttribute('src')") is None
    assert "show this large image" in reading(tab)


def test_many_images_and_edits_have_few_elements_and_all_can_be_seen(tab: Browser) -> None:
    show(tab, [image(png(8, 8)), use(FORMS["own"])] * 60)
    assert tab.run("document.querySelectorAll('*').length") <= ELEMENTS_MAX
    more = "[...document.querySelectorAll('#reading .turn .more')].at(-1)"
    while tab.run(f"Boolean({more})"):
        tab.run(f"{more}.click()")
    assert tab.run("document.querySelectorAll('#reading img').length") == 60
    assert tab.run("document.querySelectorAll('#reading .edit').length") == 60


def test_an_image_far_below_is_not_drawn_before_it_is_near(tab: Browser) -> None:
    lines = {"type": "text", "text": "\n".join("x" for _ in range(90))}
    show(tab, [lines, lines, image(png(8, 8))])
    source = "document.querySelector('#reading img').getAttribute('src')"
    assert tab.run(source) is None
    tab.run(
        "document.querySelector('#reading img').scrollIntoView();"
        " new Promise((done) => setTimeout(done, 200))"
    )
    assert tab.run(source) == f"data:image/png;base64,{base64.b64encode(png(8, 8)).decode()}"


def test_an_image_is_named_in_a_row_and_not_spelled_out(tab: Browser) -> None:
    tab.run("callboard.setMode('story')")
    rows = tab.run("document.getElementById('list').textContent")
    assert "[image, image/png, " in rows
    assert "iVBOR" not in rows
