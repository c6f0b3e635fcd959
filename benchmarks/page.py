"""The page of a session of 50,000 events: CPU time to write it, and to answer a key, and its elements.

    python benchmarks/page.py FOLDER [--rounds 5]

FOLDER keeps the log, which the real runtime records first if it is missing. A key is measured in headless
Chromium, by the CPU time of the page's main thread until the next frame is drawn. All times are scaled as
those of `questions.py`. Needs Chromium.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent))

from questions import SPIN_MS, SPINS, spin_ms

from callboard.replay.recording import Recording
from tests.browser import Browser, browser, end_browser

EVENTS: Final = 50_000
MIDDLE: Final = 25_000
MODES: Final = ("story", "events", "talk")
TABS: Final = ("message", "request", "state", "why", "json")
KEYS: Final = "jknpfFdDgGcvhz+-"
_FRAME: Final = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))"


def spin_now() -> float:
    """Return the CPU milliseconds that `spin_ms` takes at present."""
    return min(spin_ms() for _ in range(SPINS))


def main_thread_ms(tab: Browser) -> float:
    """Return the CPU milliseconds that the main thread of a page has used."""
    metrics = tab.call("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration")) * 1_000


def written(log: Path, page: Path, rounds: int) -> float:
    """Write the page and return the scaled CPU milliseconds, the median of some rounds."""
    found = []
    for _ in range(rounds):
        with Recording.open(log) as recording:
            before, started = spin_now(), time.process_time()
            recording.export("html", page)
            took = (time.process_time() - started) * 1_000
            found.append(took * SPIN_MS * 2 / (before + spin_now()))
    return median(found)


def pressed(tab: Browser, mode: str, view: str, key: str, rounds: int) -> float:
    """Press a key in a view and return the scaled milliseconds of the main thread until the next frame."""
    found = []
    for _ in range(rounds):
        tab.run(f"callboard.setMode('{mode}'); callboard.detail.show('{view}'); callboard.select({MIDDLE})")
        tab.run(_FRAME)
        tab.run(_FRAME)
        before, spin = main_thread_ms(tab), spin_now()
        tab.press(key)
        tab.run(_FRAME)
        found.append((main_thread_ms(tab) - before) * SPIN_MS / spin)
    return median(found)


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    log, page = given.folder / "page.db", given.folder / "page.html"
    if not log.exists():
        reading = [sys.executable, str(Path(__file__).parent / "reading.py"), str(log)]
        subprocess.run([*reading, "--events", str(EVENTS), "--record"], check=True)
    print(f"written in {written(log, page, given.rounds) / 1_000:.2f} s, {page.stat().st_size:,} bytes")
    with browser() as tab:
        print(f"ready in {min(tab.open(page) for _ in range(3)):.0f} ms")
        tab.call("Performance.enable", timeDomain="threadTicks")
        for mode in MODES:
            for view in TABS:
                times = {key: pressed(tab, mode, view, key, given.rounds) for key in KEYS}
                slowest = max(times, key=lambda key: times[key])
                elements = tab.run("document.querySelectorAll('*').length")
                print(
                    f"{mode:7}{view:8} a key {median(times.values()):3.0f} ms,"
                    f" {slowest!r} {times[slowest]:3.0f} ms, {elements} elements"
                )
    end_browser()


if __name__ == "__main__":
    main()
