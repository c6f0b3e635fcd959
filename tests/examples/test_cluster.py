"""The files of examples/cluster: their worker runs a session, and has the time to give its sessions back."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML has no types

from callboard.cli.loading import load_agent
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.detaching import DETACH_GRACE_S
from tests.pages import ROOT
from tests.runtime.log.postgres.places import on_server

FOLDER = ROOT / "examples" / "cluster"
COMMAND = ["callboard", "worker", "files_agent:host", "--slots", "200"]


def compose() -> Any:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())


def manifests() -> dict[str, Any]:
    found = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def test_image_and_manifests_start_the_same_worker() -> None:
    line = re.search(r"^CMD (\[.*\])$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert line is not None
    assert yaml.safe_load(line[1]) == COMMAND
    (worker,) = manifests()["Deployment/worker"]["spec"]["template"]["spec"]["containers"]
    assert worker["args"] == [*COMMAND, "--metrics", "0.0.0.0:9464"]
    assert "command" not in compose()["services"]["worker"]  # that of the image


def test_that_worker_runs_a_submitted_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    monkeypatch.syspath_prepend(str(FOLDER))
    host = load_agent(COMMAND[2])

    async def scene(url: str) -> str:
        stop = asyncio.Event()
        async with Leases(url) as leases, Runtime(url) as runtime:
            await leases.change(lambda one: one.submit("first", "host", "r", "What is here?"))
            task = asyncio.create_task(ClusterWorker(runtime, leases, [host]).run(stop))
            while await leases.change(lambda one: one._run("SELECT 1 FROM {s}.leases")):  # noqa: ASYNC110  # the server tells no one
                await asyncio.sleep(0.02)
            stop.set()
            await task
            outcome = await runtime.outcome("first", "r")
            return outcome.text if outcome is not None else ""

    with on_server() as place:
        assert asyncio.run(scene(place.url)) == "Two files."


def test_a_worker_has_more_time_to_end_than_it_needs() -> None:
    needed_s = 2 * DETACH_GRACE_S + 10  # the second half for the patience with its lease
    assert float(compose()["services"]["worker"]["stop_grace_period"].removesuffix("s")) >= needed_s
    spec = manifests()["Deployment/worker"]["spec"]
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= needed_s
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_the_password_stands_in_no_address_and_no_command() -> None:
    for path in sorted(FOLDER.iterdir()):
        if path.is_file():
            assert not re.search(r"postgresql://[^@/\s]+:[^@/\s]+@", path.read_text()), path.name
    (worker,) = manifests()["Deployment/worker"]["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in worker["env"] if "valueFrom" in one] == ["PGPASSWORD"]


def test_the_page_names_files_that_are_there() -> None:
    page = Path(ROOT / "docs" / "operate-cluster.md").read_text()
    named = set(re.findall(r"examples/cluster/[\w.]+", page))
    assert named == {f"examples/cluster/{name}" for name in ("compose.yaml", "Dockerfile", "kubernetes.yaml")}
