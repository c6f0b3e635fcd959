"""The functions of `Files` beside plain Python on the same files, with openat2 and part by part.

    python benchmarks/files.py [--folder FOLDER] [--rounds 30]

Prints one row of JSON for each function: microseconds of plain Python in CPU time of the thread, and the time
of `Files` as a multiple of it, the least of all rounds. The bounds are 1.5 with openat2 and 2.5 without.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from callboard.runtime.files.files import Files
from callboard.runtime.files.opening import Opener, by_component, openat2

TEXT = "A line of text, as it stands in a file.\n"
SIZES = {"1 line": 1, "4 kB": 100, "100 kB": 2_500}
BOUNDS = {"openat2": 1.5, "by_component": 2.5}
Functions = dict[str, tuple[Callable[[], object], Callable[[Files], object]]]


def make(folder: Path) -> None:
    """Make the files that are read and listed."""
    (folder / "a/b/many").mkdir(parents=True)
    for name, lines in SIZES.items():
        (folder / "a/b" / name).write_text(TEXT * lines)
    for number in range(100):
        (folder / f"a/b/many/{number:03}").write_text(TEXT)


def functions(folder: Path) -> Functions:
    """Return each function by name: in plain Python, and of `Files`."""
    found: Functions = {}
    for size in SIZES:
        path, name = folder / "a/b" / size, f"a/b/{size}"
        found[f"read text, {size}"] = (path.read_text, lambda files, name=name: files.read_text(name))
        found[f"read bytes, {size}"] = (path.read_bytes, lambda files, name=name: files.read_bytes(name))
    whole, new = TEXT * 100, folder / "a/b/new"
    found["write text, 4 kB"] = (
        lambda: replaced(new, whole),
        lambda files: files.write_text("a/b/new", whole),
    )
    found["list 100 files"] = (
        lambda: listed(folder / "a/b/many"),
        lambda files: files.entries("a/b/many"),
    )
    found["walk 104 files"] = (lambda: list(walked(folder)), lambda files: list(files.walk()))
    return found


def replaced(path: Path, text: str) -> None:
    other = path.with_suffix(".tmp")
    other.write_text(text)
    other.replace(path)


def listed(folder: Path) -> list[tuple[str, bool, int]]:
    with os.scandir(folder) as entries:
        return sorted((one.name, one.is_file(), one.stat(follow_symlinks=False).st_size) for one in entries)


def walked(folder: Path) -> Iterator[tuple[str, int]]:
    for above, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(above, name)  # noqa: PTH118  # as the fastest plain program does it
            yield path, os.lstat(path).st_size


def least_s(run: Callable[[], object], times: int) -> float:
    started = time.thread_time()
    for _ in range(times):
        run()
    return (time.thread_time() - started) / times


def main() -> None:
    parser = argparse.ArgumentParser(description="Files beside plain Python.")
    parser.add_argument("--folder", type=Path, help="where to make the files; a temporary folder by default")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    openers: dict[str, Opener] = {"openat2": openat2, "by_component": by_component}
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        make(folder)
        files = {name: Files(folder, write=["."]) for name in openers}
        for name, opener in openers.items():
            files[name]._opener = opener
        for what, (plain, ours) in functions(folder).items():
            times = 200 if "file" not in what else 20
            base, took = float("inf"), dict.fromkeys(openers, float("inf"))
            for _ in range(options.rounds):  # in turn, since machines are noisy
                base = min(base, least_s(plain, times))
                for name in openers:
                    took[name] = min(took[name], least_s(partial(ours, files[name]), times))
            row = {name: round(each / base, 2) for name, each in took.items()}
            held = all(row[name] <= bound for name, bound in BOUNDS.items())
            print(json.dumps({"function": what, "plain_us": round(base * 1e6, 1), **row, "within": held}))


if __name__ == "__main__":
    main()
