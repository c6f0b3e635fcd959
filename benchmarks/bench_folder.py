"""The folder with the reference workload and the floor, which are not part of this repository."""

import os
from pathlib import Path


def bench_folder() -> Path:
    """Return the folder that CALLBOARD_BENCH names.

    Raises:
        SystemExit: the variable is not set, or its folder has no workload.py.
    """
    named = os.environ.get("CALLBOARD_BENCH", "")
    if not named:
        raise SystemExit("set CALLBOARD_BENCH to the folder that holds workload.py and floor_loop.py")
    folder = Path(named).resolve()
    if not (folder / "workload.py").exists():
        raise SystemExit(f"CALLBOARD_BENCH names {folder}, which has no workload.py")
    return folder
