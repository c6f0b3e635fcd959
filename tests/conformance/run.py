"""Pykka's own test suite, run on our actor class: the reference for the behaviour of an actor.

The suite comes with the sdist of the installed version. It has a table of runtimes, `RUNTIMES`, and runs
nearly every test once for each. `LoopActor` is added to the table, beside Pykka's own runtime. Everything
is downloaded to, and run in, a temporary folder.

    python tests/conformance/run.py [argument of pytest ...]

Exits 0 if no test fails for `LoopActor` but those in `ALLOWED`, which may hold at most `ALLOWED_MAX`.
"""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ALLOWED: dict[str, str] = {}
"""Tests that may fail, each with the reason why it needs a thread per actor. No test does."""

ALLOWED_MAX = 5
SUITE_TIMEOUT_S = 300
OURS, THEIRS = "callboard", "threading"

TABLE_USED = '@pytest.fixture(scope="session", params=RUNTIMES.values())'
ENTRY = f"""
import asyncio

from callboard.runtime.scheduling.loop_actor import LoopActor, LoopFuture

# Pykka's tests run on threads of their own and block; so the loop gets one too.
_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, daemon=True).start()


class _LoopActor(LoopActor):
    event_loop = _loop


RUNTIMES["{OURS}"] = pytest.param(
    Runtime(
        name="{OURS}",
        actor_class=_LoopActor,
        event_class=threading.Event,
        future_class=LoopFuture,
        sleep_func=time.sleep,
    ),
    id="{OURS}",
)


"""


class Result(NamedTuple):
    """One test of the suite: its name, its runtime or "", and `passed`, `failed` or `skipped`."""

    name: str
    runtime: str
    verdict: str


def main(pytest_arguments: list[str]) -> int:
    """Fetch the suite, run it and print the results. Return the exit code."""
    version = importlib.metadata.version("pykka")
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        folder = Path(name)
        suite = fetch(version, folder)
        add_entry(suite / "tests" / "conftest.py")
        results = run(suite, folder, pytest_arguments)
    print(summary(version, results))
    complaints = judge(results)
    for complaint in complaints:
        print(f"not conformant: {complaint}")
    return 1 if complaints else 0


def fetch(version: str, folder: Path) -> Path:
    """Fetch and unpack the sdist. Return its folder."""
    pip("download", "--dest", str(folder), "--no-binary", ":all:", "--no-deps", f"pykka=={version}")
    if importlib.util.find_spec("pytest_mock") is None:  # the suite needs nothing else beside pytest
        pip("install", "--target", str(folder / "extra"), "--no-deps", "pytest-mock>=3.14")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        sdist.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def pip(*arguments: str) -> None:
    """Run pip; exit with its output if it fails."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr}pip {arguments[0]} failed: the suite could not be downloaded")


def add_entry(conftest: Path) -> None:
    """Add our runtime to the table, just before its only use, which reads the table at import."""
    before, marker, after = conftest.read_text().partition(TABLE_USED)
    if not marker:
        sys.exit(f"Pykka's conftest.py has changed: it no longer says {TABLE_USED!r}")
    conftest.write_text(before + ENTRY.lstrip() + marker + after)


def run(suite: Path, folder: Path, pytest_arguments: list[str]) -> list[Result]:
    """Run the suite in a process of its own, against the installed Pykka."""
    report = folder / "report.xml"
    # Only the plugin that the suite needs: others warn, or change the meaning of a test.
    environment = os.environ | {"PYTHONPATH": str(folder / "extra"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "pytest_mock", f"--junitxml={report}"]
    command = [sys.executable, "-B", "-m", "pytest", *options, *pytest_arguments, "tests"]
    try:
        done = subprocess.run(command, cwd=suite, env=environment, timeout=SUITE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"Pykka's suite hangs: killed after {SUITE_TIMEOUT_S} s")
    if done.returncode not in (0, 1) or not report.exists():
        sys.exit(f"Pykka's suite could not be run: pytest exited with {done.returncode}")
    return [result_of(case) for case in ET.parse(report).iter("testcase")]


def result_of(case: ET.Element) -> Result:
    """Read one test case. Its name ends in the parameters, such as `[callboard-123]`."""
    name, _, parameters = case.attrib["name"].partition("[")
    words = parameters.rstrip("]").split("-")
    runtime = next((known for known in (OURS, THEIRS) if known in words), "")
    tags = {child.tag for child in case}
    verdict = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
    return Result(f"{case.attrib['classname']}::{name}", runtime, verdict)


def summary(version: str, results: list[Result]) -> str:
    """Format the results, one line a runtime."""
    counts = Counter((result.runtime, result.verdict) for result in results)
    titles = {OURS: "callboard's LoopActor", THEIRS: "Pykka's ThreadingActor", "": "of no runtime"}
    lines = [f"Pykka {version}, its own test suite"]
    for runtime, title in titles.items():
        figures = ", ".join(
            f"{counts[runtime, verdict]} {verdict}" for verdict in ("passed", "failed", "skipped")
        )
        lines.append(f"  {title:<24}{figures}")
    return "\n".join(lines)


def judge(results: list[Result]) -> list[str]:
    """Return a sentence for each result that is not allowed."""
    complaints = [
        f"{result.name} {result.verdict}"
        for result in results
        if result.runtime == OURS and result.verdict != "passed" and result.name not in ALLOWED
    ]
    if len(ALLOWED) > ALLOWED_MAX:
        complaints.append(f"{len(ALLOWED)} tests are allowed to fail, {ALLOWED_MAX} is the most")
    passed = {result.name for result in results if result.runtime == OURS and result.verdict == "passed"}
    complaints += [f"{name} passes; take it out of ALLOWED" for name in ALLOWED if name in passed]
    counts = Counter(result.runtime for result in results)
    if counts[OURS] != counts[THEIRS] or not counts[OURS]:
        complaints.append(f"{counts[OURS]} tests ran for us, {counts[THEIRS]} for Pykka's own runtime")
    return complaints


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
