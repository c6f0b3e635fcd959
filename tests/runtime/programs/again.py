"""Execute recorded conversations again, in a process of its own: `python -m tests.runtime.programs.again`.

Reads lines of JSON, each the name of a construct and its conversation, and prints one line for each that is
not as recorded.
"""

import json
import sys

from callboard.runtime.programs.history import last_run
from callboard.runtime.programs.replaying import ProgramDiverged, executed_again
from callboard.runtime.sanitize import to_json
from tests.runtime.programs.constructs import BY_NAME
from tests.runtime.programs.kit import main_of


def check(name: str, said: list[object]) -> str:
    messages = [to_json(one) for one in said]
    recorded = last_run(len(messages), messages.__getitem__)
    assert recorded is not None
    try:
        run = executed_again(main_of(BY_NAME[name]), recorded.steps[0].step.head.run, recorded)
    except ProgramDiverged as error:
        return f"{name}: {error}"
    return "" if run.steps == len(recorded.steps) else f"{name}: {run.steps} steps of {len(recorded.steps)}"


if __name__ == "__main__":
    checked = 0
    for line in sys.stdin:
        checked += 1
        if wrong := check(*json.loads(line)):
            print(wrong)
    print(f"{checked} checked")
