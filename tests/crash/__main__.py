"""Kill many processes, and check the logs that they leave: `make crash`, or

    python -m tests.crash --kills 1000 --seed 1

With `--served` the models are those of a server on loopback that speaks Chat Completions, over the real
client. Prints how often each point was hit. Exit code 1 if a check failed; then the folder of the round, with
its log and notes, is kept. `--seed S --first N` starts with that round again: the same sessions, and deaths
at similar moments. The exact moments depend on the machine.
"""

import argparse
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from tests.crash.broken import BREAKS
from tests.crash.campaign import PATIENCE_S, Plan, Result, run
from tests.crash.points import POINTS
from tests.processes import running

ROOT: Final = Path(__file__).parent.parent.parent


def main() -> int:
    """Run the campaign and return the exit code."""
    args = _arguments()
    folder = Path(args.folder or tempfile.mkdtemp(prefix="callboard-crash-"))
    plan = Plan(
        args.kills, args.seed, args.first, args.every, args.only, args.break_, args.patience, args.served
    )
    if args.worker:
        result = run(folder, plan, _Progress(plan).show)
        print(msgspec.json.encode(result).decode())
        return 0
    print(f"seed {plan.seed}: {plan.kills} kills by {args.workers} workers", flush=True)
    result = side_by_side(folder, plan, args.workers)
    for line in lines(result):
        print(line)
    if result.wrong:
        print(f"their logs and notes are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _arguments() -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--only", choices=POINTS, default="", help="kill only at this point")
    parser.add_argument(
        "--break", dest="break_", choices=BREAKS, default="", help="break the runtime in this way"
    )
    parser.add_argument("--served", action="store_true", help="ask a server that speaks Chat Completions")
    parser.add_argument("--folder", default="", help="folder of the logs during the campaign")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds that a run may take")
    parser.add_argument("--every", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def side_by_side(folder: Path, plan: Plan, workers: int) -> Result:
    """Run the campaign in several processes, each with rounds of its own, and sum their results."""
    commands = []
    for number in range(workers):
        kills = plan.kills // workers + (number < plan.kills % workers)
        command = [sys.executable, "-m", "tests.crash", "--worker", "--folder", str(folder)]
        command += ["--kills", str(kills), "--seed", plan.seed, "--every", str(workers)]
        command += ["--first", str(plan.first + number), "--patience", str(plan.patience_s)]
        command += ["--only", plan.only] if plan.only else []
        command += ["--break", plan.break_] if plan.break_ else []
        command += ["--served"] * plan.is_served
        commands.append(command)
    total = Result({})
    with ExitStack() as stack:
        pipe = subprocess.PIPE
        for process in [stack.enter_context(running(one, stdout=pipe, cwd=ROOT)) for one in commands]:
            said, _ = process.communicate()
            if process.returncode:
                total.wrong.append(f"a worker ended with {process.returncode}")
            else:
                total.add(msgspec.json.decode(said, type=Result))
    return total


class _Progress:
    """Prints the progress of a worker every 50 kills."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._said = 0

    def show(self, result: Result) -> None:
        if result.killed - self._said >= 50:
            self._said = result.killed
            where = f"worker {self._plan.first % self._plan.every}"
            print(f"{where}: {result.killed} of {self._plan.kills} kills", file=sys.stderr, flush=True)


def lines(result: Result) -> list[str]:
    """Describe the result of a campaign for people, one fact a line."""
    counts = [f"{result.kills.get(point, 0):6,}  {point}" for point in POINTS]
    facts = (
        f"{result.killed:6,}  kills in {result.runs:,} runs ({result.fresh:,} of them new interpreters) of "
        f"{result.sessions:,} sessions in {result.rounds:,} logs; {result.events:,} events were shown, "
        f"tools took effect {result.effects:,} times, sessions slept {result.slept:,} times"
    )
    return [*counts, facts, f"{len(result.wrong):6,}  things wrong", *result.wrong]


if __name__ == "__main__":
    sys.exit(main())
