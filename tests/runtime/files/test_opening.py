import ctypes
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files import opening
from callboard.runtime.files.opening import (
    FOLDER,
    LISTED,
    READ,
    Opener,
    best_opener,
    by_component,
    joined,
    openat2,
    relative,
    shown,
)
from tests.runtime.files.trees import open_files
from tests.tables import table


@pytest.fixture
def folder(root: Path) -> int:
    return os.open(root, FOLDER)


def code_of(opener: Opener, folder: int, path: str, flags: int = READ) -> int:
    try:
        os.close(opener(folder, path, flags))
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.parametrize("path", ["top.txt", "a/b/c/three", "ä/ß/ö", "-rf", "two\nlines"])
def test_a_file_below_the_folder_is_opened(folder: int, opener: Opener, path: str) -> None:
    file = opener(folder, path, READ)
    assert os.read(file, 100) == b"inside: " + path.encode()
    os.close(file)


@pytest.mark.parametrize(
    "path", ["link-file", "link-dir/deep/secret", "link-up/secret", "link-inside/one", "link-loop"]
)
def test_a_link_is_not_followed_wherever_it_leads(folder: int, opener: Opener, path: str) -> None:
    assert code_of(opener, folder, path) == errno.ELOOP
    assert code_of(opener, folder, path, LISTED) in (errno.ELOOP, errno.ENOTDIR)


def test_the_two_ways_answer_alike(folder: int) -> None:
    for path in (".", "a", "a/b", "nope", "nope/x", "top.txt/x", "pipe", "a/link-root", "hard", "x" * 300):
        for flags in (READ, LISTED, FOLDER):
            codes = [code_of(opener, folder, path, flags) for opener in (openat2, by_component)]
            assert codes[0] == codes[1], (path, flags)


def test_opening_leaves_no_descriptor_behind(folder: int, opener: Opener) -> None:
    before = len(open_files())
    for path in ("a/b/c/three", "a/b/nope/x", "link-dir/deep", "a/one/x", "."):
        code_of(opener, folder, path)
    assert len(open_files()) == before


def test_a_fifo_is_opened_without_waiting(folder: int, opener: Opener) -> None:
    assert code_of(opener, folder, "pipe") == 0


def test_openat2_is_used_where_it_is_allowed(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert best_opener(folder) is openat2

    def filtered(*_: object) -> int:
        raise OSError(errno.EPERM, "a container's filter")

    monkeypatch.setattr(opening, "openat2", filtered)
    assert best_opener(folder) is by_component


def test_an_interrupted_call_is_made_again(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [errno.EINTR, errno.EAGAIN]
    real = opening._syscall()

    def sometimes(*arguments: Any) -> int:
        return fails(codes.pop()) if codes else real(*arguments)

    monkeypatch.setattr(opening, "_syscall", lambda: sometimes)
    assert code_of(openat2, folder, "top.txt") == 0
    monkeypatch.setattr(opening, "_syscall", lambda: lambda *_: fails(errno.EAGAIN))
    assert code_of(openat2, folder, "top.txt") == errno.EAGAIN


def fails(code: int) -> int:
    ctypes.set_errno(code)
    return -1


@table(
    ("given", "wanted"),
    [
        ("a/b", "a/b"),
        ("./a//b/", "a/b"),
        (".", "."),
        ("", "."),
        ("./", "."),
        ("...", "..."),
        ("a\\b", "a\\b"),
    ],
)
def test_a_path_has_one_form(given: str, wanted: str) -> None:
    assert relative(given) == wanted


@table(
    ("given", "words"),
    [
        ("../a", "may not contain `..`"),
        ("a/..", "may not contain `..`"),
        ("/etc/passwd", "leave out the first /"),
        ("a\0b", "may not contain NUL"),
        ("a" * 5_000, "5,000 characters"),
        ("\ud800", "not Unicode text"),
        (3, "not int"),
    ],
)
def test_another_path_is_refused_with_the_reason(given: str, words: str) -> None:
    with pytest.raises(FileError, match=words) as caught:
        relative(given)
    assert caught.value.reason == "bad_path"


def test_a_name_that_could_forge_a_line_is_shown_as_json() -> None:
    assert shown("a b") == "a b"
    assert shown("a\nb") == '"a\\nb"'
    assert shown("\u202egpj") == '"\\u202egpj"'
    assert shown(" a") == '" a"'
    assert len(shown("a" * 5_000)) < 250


def test_a_name_of_the_root_has_no_folder_before_it() -> None:
    assert joined(".", "a") == "a"
    assert joined("a", "b") == "a/b"
