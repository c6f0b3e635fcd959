"""One small report whose schema has one regular expression: our check beside the two libraries below it.

    python benchmarks/schemas.py [--times 20000]

Prints one row of JSON: microseconds a check, and each as a multiple of jsonschema-rs alone.
"""

import argparse
import json
import time
from collections.abc import Callable

import jsonschema
import jsonschema_rs
import msgspec

from callboard.actors.protocol.port_messages import CheckSchema
from callboard.runtime.schemas.engine import Engine

SCHEMA = {
    "type": "object",
    "properties": {"code": {"type": "string", "pattern": "^[A-Z]{2}-\\d+$"}, "total": {"type": "integer"}},
    "required": ["code", "total"],
    "additionalProperties": False,
}
REPORT = {"code": "AB-12", "total": 3}


def measured_us(check: Callable[[], object], times: int) -> float:
    """Return the least time of one check in five rounds."""
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(times):
            check()
        best = min(best, (time.perf_counter() - started) / times)
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="One small report with one regular expression.")
    parser.add_argument("--times", type=int, default=20_000)
    times = parser.parse_args().times
    engine = Engine(is_bounded=True)
    request = CheckSchema(
        1, "report", msgspec.Raw(msgspec.json.encode(SCHEMA)), msgspec.Raw(msgspec.json.encode(REPORT))
    )
    python, rust = jsonschema.Draft202012Validator(SCHEMA), jsonschema_rs.Draft202012Validator(SCHEMA)
    assert engine.check(request).status == "ok"
    took = {
        "ours": measured_us(lambda: engine.check(request), times),
        "jsonschema": measured_us(lambda: python.is_valid(REPORT), times // 10),
        "jsonschema-rs": measured_us(lambda: rust.is_valid(REPORT), times),
    }
    base = took["jsonschema-rs"]
    print(json.dumps({name: {"us": round(us, 2), "ratio": round(us / base, 1)} for name, us in took.items()}))


if __name__ == "__main__":
    main()
