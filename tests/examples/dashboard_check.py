"""The Grafana dashboard in front of a real Prometheus: every query of every panel finds what it asks for.

    python -m tests.examples.dashboard_check FOLDER

fetches Prometheus from Debian's archive into FOLDER (it needs `apt-get` and `dpkg`, and installs nothing),
lets it collect the metrics of `examples/service` and of a runtime whose models, tools and log handlers also
fail, and runs the queries through its HTTP API, as Grafana does. If `grafana-foundation-sdk` is installed,
Grafana's published types read the file too.
"""

import asyncio
import importlib
import itertools
import json
import logging
import math
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from callboard import (
    Agent,
    Call,
    ModelRequest,
    Reply,
    Runtime,
    ScriptedModel,
    Usage,
    WorkerStats,
    call,
    say,
    tool,
)
from callboard.errors import ToolError
from callboard.models import ModelFailure, Prices
from tests.examples.served import Service
from tests.examples.test_grafana_dashboard import BOARD, legend_labels
from tests.processes import ENDS_WITHIN_S, running
from tests.waiting import block_until

_SECONDS: Final = 15  # of load, at one scrape each
_VARIABLES: Final = {"$__rate_interval": "5s"}  # Grafana's rule: four scrapes at least


@tool(effect="read")
async def look(place: str) -> str:
    """Look at a place."""
    await asyncio.sleep(0.05)
    if place == "cellar":
        raise ToolError("it is dark")
    return "a lamp"


def policy(request: ModelRequest) -> Call | Reply | ModelFailure:
    """Delegate, look at two places, and fail now and then."""
    if request.profile == "clerk":
        places = ("attic", "cellar")
        return say("a lamp") if request.turn > 2 else call("look", place=places[request.turn - 1])
    if request.turn == 1:
        return call("task", agent="clerk", prompt="Look around.")
    if "fail" in str(request.conversation[0]["content"]):
        return ModelFailure("overloaded")
    return say("There is a lamp.")


class Broken(logging.Handler):
    """A handler that raises, so that telemetry is lost."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the disk is full")


async def serve(runtime: Runtime) -> asyncio.Server:
    """Serve the metrics of a runtime on loopback, on any free port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            body = runtime.metrics().encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n"
            )
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


async def load(folder: Path, program: Path, service: Service) -> list[str]:
    """Keep both busy while Prometheus collects. Return the faults of the panels."""
    prices = Prices(input_usd=3, output_usd=15)
    model = ScriptedModel(policy, usage=Usage(input_tokens=200, output_tokens=20), prices=prices)
    host = Agent("host", agents=[Agent("clerk", description="Looks.", tools=[look])])
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(Runtime(str(folder / "load.db"), model=model, metrics=True))
        figures = WorkerStats(
            name="w", number=1, sessions=2, slots=9, lease_left_ms=5_000, lost_leases=1
        )  # as of a worker, which needs a server
        read = itertools.count()
        runtime._worker = lambda: replace(figures, lost_leases=next(read))
        server = await stack.enter_async_context(await serve(runtime))
        ports = [service.port, server.sockets[0].getsockname()[1]]
        output = stack.enter_context((folder / "prometheus.txt").open("wb"))
        stack.enter_context(running(command(folder, program, ports), stderr=output))
        ends_at = time.monotonic() + _SECONDS
        for number in itertools.takewhile(lambda _: time.monotonic() < ends_at, itertools.count()):
            await asyncio.to_thread(ask, service, number)
            await runtime.run(host, "Is there a lamp?" if number % 3 else "fail")
        return await asyncio.to_thread(lambda: [*faults(address_of(folder))])


def ask(service: Service, number: int) -> None:
    """Ask the service, allow every second payment, and deny the others."""
    session = f"s{number % 4}"
    text = "Please pay." if number % 2 else "What is callboard?"
    service.send("POST", f"/sessions/{session}/questions", {"text": text, "request_id": f"q{number}"})
    for one in service.get(f"/sessions/{session}/approvals"):
        service.send("POST", f"/sessions/{session}/approvals/{one['seq']}", {"allow": number % 4 == 1})


def command(folder: Path, program: Path, ports: list[int]) -> list[str]:
    """Write a configuration. Return the command that starts Prometheus, on any free port."""
    groups = [{"targets": [f"127.0.0.1:{port}"], "labels": {"app": f"callboard-{port}"}} for port in ports]
    job = {"job_name": "callboard", "static_configs": groups}
    config = folder / "prometheus.json"  # JSON is YAML too
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    options = [f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0"]
    return [str(program), f"--config.file={config}", *options]


def address_of(folder: Path) -> str:
    """Return the address that Prometheus says it listens on."""
    text = folder / "prometheus.txt"
    block_until(lambda: 'msg="Listening on"' in text.read_text())
    found = re.search(r'msg="Listening on" address=(\S+)', text.read_text())
    assert found
    return found[1]


def asked(address: str, expression: str) -> list[dict[str, Any]]:
    """Return the series that a query over the load finds, as a panel asks."""
    now = time.time()
    query = {"query": expression, "start": now - _SECONDS, "end": now, "step": 1}
    text = urllib.parse.urlencode(query)
    url = f"http://{address}/api/v1/query_range?{text}"
    try:
        with urllib.request.urlopen(url, timeout=ENDS_WITHIN_S) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{expression}: {error.read().decode()}") from None


def faults(address: str) -> Iterator[str]:
    """Yield a line for each query without data, and for each series without a label of its legend."""
    for panel, target in ((one, target) for one in BOARD["panels"] for target in one["targets"]):
        expression = target["expr"]
        for name, value in _VARIABLES.items():
            expression = expression.replace(name, value)
        series = asked(address, expression)
        values = [float(value) for one in series for _, value in one["values"]]
        known = [value for value in values if not math.isnan(value)]
        print(f"{panel['title']}: {len(series)} series, at most {max(known, default=math.nan):.6g}")
        if not known or not any(known):
            yield f"{panel['title']}: no data, or only zeros: {expression}"
        for one in series:
            for label in legend_labels(target):
                if not one["metric"].get(label):
                    yield f"{panel['title']}: a series without the label {label}: {one['metric']}"


def lost(board: Any, read: Any, path: str = "") -> Iterator[str]:
    """Yield the places of the dashboard that Grafana's types do not keep."""
    if isinstance(board, dict):
        for key, value in board.items():
            if not isinstance(read, dict) or key not in read:
                yield f"{path}.{key}"
            else:
                yield from lost(value, read[key], f"{path}.{key}")
    elif isinstance(board, list):
        for number, (one, other) in enumerate(itertools.zip_longest(board, read)):
            yield from lost(one, other, f"{path}[{number}]")
    elif board != read:
        yield path


def main(folder: Path) -> None:
    """Check the types, then the queries."""
    wrong = []
    with suppress(ImportError):
        models = importlib.import_module("grafana_foundation_sdk.models.dashboard")
        encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder")
        read = json.loads(encoder.JSONEncoder().encode(models.Dashboard.from_json(BOARD)))
        wrong += [f"Grafana's types do not know {place}" for place in lost(BOARD, read)]
        print("read with Grafana's types")
    subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, check=True)
    (archive,) = folder.glob("prometheus_*.deb")
    subprocess.run(["dpkg", "-x", archive.name, "unpacked"], cwd=folder, check=True)
    logging.getLogger("callboard").addHandler(logging.NullHandler())
    logging.getLogger("callboard.asks").addHandler(Broken())
    with Service(folder) as service:
        wrong += asyncio.run(load(folder, folder / "unpacked" / "usr" / "bin" / "prometheus", service))
    print("\n".join(wrong) or "every panel has data")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
