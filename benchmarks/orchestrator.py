"""Orchestrated questions: parallel takes the longest specialist, sequential takes the sum; offline questions.

    python benchmarks/orchestrator.py

The first part has specialists with scripted latencies. The second asks every question of the made corpus of
`examples/regreader` without a model.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, Literal

from callboard import ModelRequest, Reply, Runtime, ScriptedModel, calls
from callboard import call as one_call
from callboard.orchestrator import Orchestrator, Router, Specialist

ROOT: Final = Path(__file__).parent.parent
LATENCIES_S: Final = {"quick": 0.1, "middling": 0.2, "slow": 0.4}
RUNS: Final = 5


async def answer(request: ModelRequest) -> Reply:
    """Report after the latency of the specialist."""
    await asyncio.sleep(LATENCIES_S[request.profile])
    return calls(one_call("report_back", success=True, content=request.profile, confidence=0.1))


async def scripted(mode: Literal["sequential", "parallel"]) -> float:
    """Return the seconds that a question to three specialists takes."""
    host = Orchestrator([Specialist(name) for name in LATENCIES_S], router=Router(max_hops=3), mode=mode)
    taken = []
    async with Runtime(":memory:", model=ScriptedModel(answer)) as runtime:
        for _ in range(RUNS):
            begin = time.perf_counter()
            await runtime.run(host, "Any question")
            taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


async def offline(folder: Path, mode: Literal["sequential", "parallel", "single"]) -> dict[str, list[float]]:
    """Return the seconds of each question of the made corpus, on the clock and of the processor."""
    from regreader.reader import Reader, Settings

    from tests.examples.regreader.score import lines_of

    settings = Settings(
        index=str(folder / "index.db"),
        orchestrate=mode != "single",
        mode="parallel" if mode == "parallel" else "sequential",
    )
    taken: dict[str, list[float]] = {"time": [], "CPU": []}
    async with Reader(settings) as reader:
        for line in lines_of(folder / "questions.jsonl"):
            begin, used = time.perf_counter(), time.process_time()
            await reader.ask(line["question"], [line["reg_id"]])
            taken["time"].append(time.perf_counter() - begin)
            taken["CPU"].append(time.process_time() - used)
    return taken


def main() -> None:
    """Print both parts as tables."""
    sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "regreader")]
    from tests.examples.regreader import corpus
    from tests.examples.regreader.score import imported

    print(f"scripted latencies: {', '.join(f'{one:g} s' for one in LATENCIES_S.values())}")
    for mode, expected in (("parallel", max), ("sequential", sum)):
        took = asyncio.run(scripted(mode))  # type: ignore[arg-type]  # mypy widens the text
        bound = expected(LATENCIES_S.values()) * 1e3
        print(f"| {mode} | {took * 1e3:.0f} ms | {expected.__name__} is {bound:.0f} ms |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus.write(folder)
        imported(folder / "corpus", folder / "index.db").close()
        for how in ("single", "sequential", "parallel"):
            found = asyncio.run(offline(folder, how))  # type: ignore[arg-type]  # mypy widens the text
            told = ", ".join(
                f"{name} p50 {at(one, 50):.1f}, max {at(one, 100):.1f} ms" for name, one in found.items()
            )
            print(f"| {how} | {told} |")


def at(values: list[float], percent: int) -> float:
    """Return a percentile of seconds, in milliseconds."""
    return sorted(values)[(len(values) - 1) * percent // 100] * 1e3


if __name__ == "__main__":
    main()
