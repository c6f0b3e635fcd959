"""A folder with inviting traps, and a checker that says what a path in it really is."""

import os
import stat
from pathlib import Path

from callboard.runtime.files.files import Files
from callboard.runtime.files.opening import Opener

CANARY = b"CANARY: this file lies outside"


def with_opener(files: Files, opener: Opener) -> Files:
    files._opener = opener
    return files


def make_tree(base: Path) -> Path:
    """Make `base/root` with files, folders and traps, and secrets beside it. Return the root."""
    root = base / "root"
    for folder in ("a/b/c", "docs", "docs-old", "drafts", "empty", "ä/ß"):
        (root / folder).mkdir(parents=True)
    for name in ("top.txt", "a/one", "a/b/two", "a/b/c/three", "docs/page.md", "docs-old/old.md", "ä/ß/ö"):
        (root / name).write_bytes(b"inside: " + name.encode())
    for odd in ("-rf", "two\nlines", "*", "~", "%2e%2e", "..."):
        (root / odd).write_bytes(b"inside: " + odd.encode())
    for outside in ("secret", "root-evil/secret", "far/deep/secret"):
        (base / outside).parent.mkdir(parents=True, exist_ok=True)
        (base / outside).write_bytes(CANARY)
    _set_traps(base, root)
    return root


def _set_traps(base: Path, root: Path) -> None:
    for name, target in {
        "link-file": "../secret",
        "link-abs": str(base / "secret"),
        "link-dir": "../far",
        "link-up": "..",
        "link-inside": "a",
        "link-loop": "link-loop",
        "link-dangling": "../not-there-yet",
        "a/link-root": "/",
        "a/b/link-proc": "/proc/self/root",
        "docs/link-fd": "/proc/self/fd",
        "link-zero": "/dev/zero",
    }.items():
        (root / name).symlink_to(target)
    os.link(base / "secret", root / "hard")
    os.link(base / "secret", root / "a" / "b" / "hard")
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "docs" / "pipe")


def outside_of(base: Path) -> dict[str, tuple[bytes, int]]:
    """Return all files beside the root, with their content and permissions."""
    found = {}
    for folder, names, files in os.walk(base):
        if Path(folder) == base:
            names.remove("root")
        for name in files:
            path = Path(folder) / name
            found[str(path)] = (path.read_bytes(), stat.S_IMODE(path.lstat().st_mode))
    return found


def truth(root: Path, path: str) -> str:
    """Say what a path is, by looking at each part: file, hard, folder, link, other, missing or no path."""
    if "\0" in path or path.startswith("/") or ".." in path.split("/"):
        return "no path"
    if len(path) > 4_096 or "\ud800" in path:
        return "no path"
    current = root
    kind = "folder"
    for part in [part for part in path.split("/") if part not in ("", ".")]:
        if kind != "folder":
            return "missing"
        current = current / part
        kind = _kind(current)
    return kind


def _kind(path: Path) -> str:
    try:
        found = path.lstat()
    except OSError:
        return "missing"
    if stat.S_ISLNK(found.st_mode):
        return "link"
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    if not stat.S_ISREG(found.st_mode):
        return "other"
    return "hard" if found.st_nlink > 1 else "file"


def open_files() -> list[Path]:
    """Return the descriptors that this process has open."""
    return list(Path("/proc/self/fd").iterdir())
