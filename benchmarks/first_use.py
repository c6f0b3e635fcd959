"""CPU time of the first request of each layered model: the import of the layer and of the service's client.

    python benchmarks/first_use.py [--times 3]

Prints one row of JSON for each service: the least CPU seconds, each in a process of its own, to write the
first request, without sending it, and the clients that were imported.
"""

import argparse
import json
import os
import subprocess
import sys

NAMES = ("openai:gpt-5", "google:gemini-2.5-pro", "bedrock:amazon.nova-lite-v1:0")
CLIENTS = ("openai", "google.genai", "botocore", "anthropic")
PROGRAM = """
import json, sys, time
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.protocol import model_named
model = model_named(sys.argv[1])
said = IntMap().put(0, Json(b'{"role":"user","content":"Hi."}'))
request = ModelRequest(
    address="host", profile="host", model=model.spec, turn=1, attempt=1, system=NULL, tools=(), history=said
)
began = time.process_time()
model.written(request)
spent = time.process_time() - began
print(json.dumps([spent, [name for name in sys.argv[2:] if name in sys.modules]]))
"""


def first_use(name: str) -> tuple[float, list[str]]:
    keys = {"OPENAI_API_KEY": "none", "GOOGLE_API_KEY": "none", "AWS_REGION": "us-east-1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, *CLIENTS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **keys},
    )
    seconds, clients = json.loads(done.stdout)
    return seconds, clients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    times = parser.parse_args().times
    for name in NAMES:
        found = [first_use(name) for _ in range(times)]
        row = {"model": name, "cpu_s": round(min(seconds for seconds, _ in found), 2), "clients": found[0][1]}
        print(json.dumps(row))


if __name__ == "__main__":
    main()
