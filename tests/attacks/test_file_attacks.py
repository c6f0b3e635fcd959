"""Files: paths, links and races that are meant to lead out of the root of a session's files.

Every case is tried with openat2 and part by part.
"""

import contextlib
import ctypes
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from callboard.actors.protocol.errors import FileError
from callboard.actors.protocol.file_area import covers, leads_to
from callboard.runtime.files import whole_files
from callboard.runtime.files.files import Files
from callboard.runtime.files.opening import Opener, by_component, openat2
from tests.effort import effort
from tests.runtime.files.trees import CANARY, make_tree, outside_of, truth, with_opener

T = TypeVar("T")


@pytest.fixture(params=[openat2, by_component], ids=lambda opener: opener.__name__)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    opener: Opener = request.param
    return with_opener(Files(make_tree(tmp_path), write=["."]), opener)


def refusals(files: Files, path: str) -> set[str]:
    """Read, list, walk and write a path, all of which must be refused. Return the reasons."""
    outside = outside_of(files.root.parent)
    reasons: set[str] = set()
    for act in (
        lambda: files.read_bytes(path),
        lambda: files.entries(path),
        lambda: list(files.walk(path)),
        lambda: files.write_bytes(path, b"over"),
    ):
        with pytest.raises(FileError) as caught:
            act()
        assert str(files.root.parent) not in str(caught.value)
        reasons.add(caught.value.reason)
    assert outside_of(files.root.parent) == outside
    return reasons


@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "a/b/../../../root-evil/secret", ".."])
def test_f1_a_path_that_goes_up_is_refused(files: Files, path: str) -> None:
    assert refusals(files, path) == {"bad_path"}


def test_f2_an_absolute_path_is_refused_also_one_into_the_root(files: Files) -> None:
    for path in (files.root.parent / "secret", files.root / "top.txt", "//etc/passwd"):
        with pytest.raises(FileError, match="leave out the first /"):
            files.read_bytes(str(path))


def test_f3_a_sibling_whose_name_begins_like_the_root_is_not_reached(files: Files) -> None:
    assert refusals(files, "../root-evil/secret") == {"bad_path"}
    assert {"missing", "failed"} >= {reason_of(files.narrowed(["root"]), "root-evil/secret")} - {"denied"}
    part = files.narrowed(["docs"], ["docs"])
    assert reason_of(part, "docs-old/old.md") == "denied"


def reason_of(files: Files, path: str) -> str:
    with pytest.raises(FileError) as caught:
        files.read_bytes(path)
    return caught.value.reason


@pytest.mark.parametrize("path", ["link-file", "link-abs", "link-dir", "link-up", "link-inside", "link-loop"])
def test_f4_a_link_at_the_end_is_not_followed(files: Files, path: str) -> None:
    assert refusals(files, path) == {"link"}


@pytest.mark.parametrize(
    "path", ["link-dir/deep/secret", "link-up/secret", "a/link-root/etc/passwd", "link-inside/one"]
)
def test_f5_a_link_on_the_way_is_not_followed(files: Files, path: str) -> None:
    assert refusals(files, path) == {"link"}


@contextlib.contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Swap two names again and again, atomically, while the block runs."""
    swap = ctypes.CDLL(None).renameat2
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            swap(-100, bytes(one), -100, bytes(other), 2)  # RENAME_EXCHANGE

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_f6_no_swap_of_a_folder_and_a_link_leaks_or_changes_a_file(files: Files) -> None:
    base = files.root.parent
    (base / "root/swapped/deep").mkdir(parents=True)
    (base / "root/swapped/deep/secret").write_bytes(b"inside")
    (base / "root/other").symlink_to("../far")
    outside = outside_of(base)
    seen: set[bytes] = set()
    refused: set[str] = set()
    with swapping(base / "root/swapped", base / "root/other"):
        turns = effort(3_000, 120_000)
        for turn in range(turns * 100):
            if turn >= turns and b"inside" in seen and "link" in refused:
                break  # on a loaded machine one of the two may not be met for long
            try:
                seen.add(files.read_bytes("swapped/deep/secret"))
                seen.update(entry.path.encode() for entry in files.entries("swapped/deep"))
                if turn % 10 == 0:
                    files.write_bytes("swapped/deep/secret", b"inside")
                    files.write_bytes("swapped/deep/new/file", b"inside")
            except FileError as error:
                refused.add(error.reason)
    assert seen <= {b"inside", b"swapped/deep/secret", b"swapped/deep/new"}
    assert b"inside" in seen, "the folder was never there"
    assert refused <= {"link", "missing", "changed", "failed"}
    assert "link" in refused, "the link was never there"
    assert outside_of(base) == outside


def test_f7_a_file_with_a_second_name_is_neither_read_nor_written(files: Files) -> None:
    assert reason_of(files, "hard") == "hard_link"
    with pytest.raises(FileError, match="3 names"):
        files.write_bytes("hard", b"over")
    assert (files.root.parent / "secret").read_bytes() == CANARY


def test_f8_a_pipe_holds_nothing_up(files: Files) -> None:
    assert refusals(files, "pipe") <= {"special", "failed"}


def test_f9_devices_and_made_up_files_are_refused(files: Files, tmp_path: Path) -> None:
    for path in ("link-zero", "a/b/link-proc/etc/passwd", "docs/link-fd/0"):
        assert refusals(files, path) == {"link"}
    devices = with_opener(Files("/dev"), files._opener)
    assert reason_of(devices, "zero") == "special"
    process = with_opener(Files("/proc/self"), files._opener)
    assert reason_of(process, "root/etc/passwd") == "link"
    assert reason_of(process, "exe") == "link"


def test_f10_a_file_of_a_tebibyte_is_refused_by_its_size(files: Files) -> None:
    with (files.root / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match="1,099,511,627,776 bytes, and at most 10,000,000"):
        files.read_bytes("huge")


def test_f11_odd_names_are_names(files: Files) -> None:
    for name in ("-rf", "two\nlines", "*", "~", "%2e%2e", "..."):
        assert files.read_bytes(name) == b"inside: " + name.encode()
        files.write_bytes(name, b"inside: " + name.encode())
    assert refusals(files, "a\0/../../secret") == {"bad_path"}
    assert reason_of(files, "x" * 5_000) == "bad_path"
    assert reason_of(files, "x" * 300) == "bad_path"
    with pytest.raises(FileError) as caught:
        files.read_bytes("no\nsuch\x1b[2Jfile")
    assert str(caught.value) == '"no\\nsuch\\u001b[2Jfile": there is no such file'


def test_f12_unicode_names_are_compared_as_they_are(files: Files) -> None:
    assert files.read_bytes("ä/ß/ö") == "inside: ä/ß/ö".encode()
    assert reason_of(files, "a\u0308/ß/ö") == "missing"  # a and a mark: another name, on Linux
    assert reason_of(files, "\uff0e\uff0e/secret") == "missing"  # full-width dots are no ..
    assert reason_of(files, "..\u2215secret") == "missing"
    with pytest.raises(FileError, match="u202e"):
        files.read_bytes("\u202egnp.exe")


def test_f13_a_name_in_other_letters_is_no_prefix(files: Files) -> None:
    part = files.narrowed(["docs"], ["docs"])
    for path in ("DOCS/page.md", "Docs/page.md", "doCs-old/old.md"):
        assert reason_of(part, path) == "denied"  # also where the file system would find the file


def test_f14_a_write_goes_through_no_link_that_appears_after_the_check(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = whole_files._new_file
    target = files.root / "top.txt"

    def late(folder: int) -> tuple[str, int]:
        target.unlink()
        target.symlink_to("../secret")
        return real(folder)

    monkeypatch.setattr(whole_files, "_new_file", late)
    files.write_bytes("top.txt", b"new")
    assert not target.is_symlink()
    assert target.read_bytes() == b"new"
    assert (files.root.parent / "secret").read_bytes() == CANARY


# --- random paths ---------------------------------------------------------------------

PARTS = (
    *(
        "..",
        ".",
        "",
        "a",
        "b",
        "c",
        "docs",
        "drafts",
        "docs-old",
        "one",
        "two",
        "three",
        "top.txt",
        "page.md",
    ),
    *(
        "link-file",
        "link-abs",
        "link-dir",
        "link-up",
        "link-inside",
        "link-loop",
        "link-dangling",
        "link-root",
    ),
    *(
        "link-proc",
        "link-fd",
        "link-zero",
        "hard",
        "pipe",
        "deep",
        "secret",
        "root",
        "root-evil",
        "far",
        "etc",
    ),
    *(
        "passwd",
        "self",
        "environ",
        "proc",
        "ä",
        "ß",
        "ö",
        "-rf",
        "two\nlines",
        "*",
        "~",
        "%2e%2e",
        "...",
        ".. ",
    ),
    *("a\0", "\\..", "..\\", "\uff0e\uff0e", "new", "empty", "DOCS", "x" * 256, " a", "a ", "\ud800"),
)


def random_path(chance: random.Random, base: Path) -> str:
    parts = chance.choices(PARTS, k=chance.randint(1, 6))
    text = "/".join(parts)
    roll = chance.random()
    if roll < 0.05:
        return f"{base}/{text}"
    if roll < 0.1:
        return "/" + text
    return text * 400 if roll < 0.11 else text


AREAS = (
    (["."], ["."]),
    (["a", "docs"], ["docs", "drafts"]),
    (["a/b/c", "link-dir", "hard"], ["new", "link-up"]),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("opener", [openat2, by_component], ids=lambda opener: opener.__name__)
def test_no_random_path_escapes(opener: Opener, tmp_path: Path) -> None:
    """Compare each answer with a checker that looks at every part of the path."""
    root = make_tree(tmp_path)
    outside = outside_of(tmp_path)
    chance = random.Random(16)
    whole = with_opener(Files(root, write=["."]), opener)
    parts = [whole.narrowed(read, write) for read, write in AREAS]
    read = 0
    for turn in range(effort(2_000, 100_000)):
        files, path = chance.choice(parts), random_path(chance, tmp_path)
        read += agrees_on_reading(files, root, path)
        agrees_on_listing(files, root, path)
        if turn % 4 == 0:
            agrees_on_writing(files, root, path)
        if turn % 5_000 == 0:
            assert outside_of(tmp_path) == outside
    assert outside_of(tmp_path) == outside
    assert read > 10, "hardly a path led to a file"


def one_form(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", ".")) or "."


def agrees_on_reading(files: Files, root: Path, path: str) -> bool:
    may = truth(root, path) == "file" and covers(files.area.read, one_form(path))
    data = answer(lambda: files.read_bytes(path), root, path)
    assert may == (data is not None), path
    assert data in (None, may and (root / one_form(path)).read_bytes())
    return may


def agrees_on_listing(files: Files, root: Path, path: str) -> None:
    form, area = one_form(path), files.area.read
    may = truth(root, path) == "folder" and (covers(area, form) or leads_to(area, form))
    entries = answer(lambda: files.entries(path), root, path)
    assert may == (entries is not None), path
    real = {str(one.relative_to(root)) for one in (root / form).iterdir()} if may else set()
    wanted = {name for name in real if covers(area, name) or leads_to(area, name)}
    assert {entry.path for entry in entries or ()} == wanted, path


def agrees_on_writing(files: Files, root: Path, path: str) -> None:
    form, kind = one_form(path), truth(root, path)
    may = kind in ("file", "missing") and covers(files.area.write, form)
    content = b"inside: " + form.encode() if may and kind == "file" else b"inside: new"
    is_written = answer(lambda: written(files, path, content), root, path)
    assert may or not is_written, path
    assert is_written or not may or kind == "missing", path  # below a file, or with a name that is too long
    if is_written:
        assert (root / form).read_bytes() == content
        if kind == "missing":
            remove(root, form)


def written(files: Files, path: str, content: bytes) -> bool:
    files.write_bytes(path, content)
    return True


def answer(act: Callable[[], T], root: Path, path: str) -> T | None:
    """Return the result of an operation; None for a refusal, which tells nothing of the machine."""
    try:
        found = act()
    except FileError as error:
        text = str(error)
    else:
        assert CANARY not in repr(found).encode()
        return found
    assert "CANARY" not in text
    assert str(root.parent) not in text or str(root.parent) in path  # the words repeat the path
    return None


def remove(root: Path, form: str) -> None:
    """Remove a file that was made, and the folders that were made for it."""
    (root / form).unlink()
    for folder in (root / form).parents:
        if folder == root or any(folder.iterdir()) or folder.name in ("empty", "drafts"):
            return
        folder.rmdir()


def test_the_checker_knows_the_traps(tmp_path: Path) -> None:
    root = make_tree(tmp_path)
    for path, kind in {
        "a/b/two": "file", "hard": "hard", "pipe": "other", "a": "folder", "link-dir": "link",
        "nope": "missing", "link-dir/deep/secret": "missing", "../secret": "no path", "/etc": "no path",
    }.items():  # fmt: skip
        assert truth(root, path) == kind, path
    assert (root / "hard").samefile(tmp_path / "secret")
