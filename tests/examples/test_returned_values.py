"""Endpoints of FastAPI that return callboard's values as they are, with and without an annotation."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import fastapi
import pytest
from pydantic import BaseModel

from callboard import (
    Agent,
    Approval,
    Capacity,
    CapacityReport,
    DelegationOutcome,
    Event,
    Outcome,
    Runtime,
    ScriptedModel,
    Usage,
    call,
    say,
    tool,
)
from callboard.actors.protocol.request import ModelRequest
from callboard.log import SessionRow
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.stream_items import Snapshot
from callboard.runtime.statistics import RuntimeStats


class Receipt(BaseModel):
    euros: int


@tool(approval="before")
async def pay(euros: int) -> str:
    """Pay an amount."""
    return f"paid {euros}"


def policy(request: ModelRequest) -> Step:
    match request.address, request.turn:
        case "host", 1:
            return call("task", agent="clerk", prompt="Pay.")
        case "host", _:
            return call("report_back", euros=5)
        case _, 1:
            return call("pay", euros=5)
        case _:
            return say("Paid.")


HOST = Agent("host", agents=[Agent("clerk", tools=[pay])])
VALUES: dict[str, Any] = {}
"""The values of one session, by the name of their endpoint."""


async def _played() -> None:
    model = ScriptedModel(policy, name="m")
    async with Runtime(":memory:", model=model, capacity={"m": Capacity(calls=4)}) as runtime:
        session = await runtime.open(HOST, session_id="one", tags=["a"], metadata={"user": 7})
        asking = asyncio.create_task(session.ask("Pay.", output_schema=Receipt))
        question = await anext(session.approvals())
        VALUES["approval"] = question
        VALUES["snapshot"] = await anext(session.stream())
        # Encoded while the question is open, as an endpoint does at once.
        VALUES["open"] = question.to_dict()
        question.approve()
        VALUES["outcome"] = await asking
        VALUES["delegation"] = VALUES["outcome"].delegations[0]
        VALUES["usage"] = VALUES["outcome"].usage
        VALUES["event"] = await anext(session.events())
        VALUES["rows"] = [row async for row in runtime.sessions()]
        VALUES["stats"], VALUES["capacity"] = runtime.stats(), runtime.capacity()


KINDS: dict[str, Any] = {
    "approval": Approval,
    "snapshot": Snapshot,
    "outcome": Outcome[Receipt],
    "delegation": DelegationOutcome,
    "usage": Usage,
    "event": Event,
    "rows": list[SessionRow],
    "stats": RuntimeStats,
    "capacity": CapacityReport,
}


def _endpoint(name: str, kind: Any) -> Callable[[], Any]:
    async def endpoint() -> Any:
        return VALUES[name]

    if kind is not None:
        endpoint.__annotations__["return"] = kind
    else:
        del endpoint.__annotations__["return"]
    return endpoint


@pytest.fixture(scope="module")
def app() -> Iterator[fastapi.FastAPI]:
    asyncio.run(_played())
    app = fastapi.FastAPI()
    for name, kind in KINDS.items():
        app.get(f"/plain/{name}")(_endpoint(name, None))
        app.get(f"/typed/{name}")(_endpoint(name, kind))
    yield app
    VALUES.clear()


def get(app: fastapi.FastAPI, path: str) -> Any:
    """Ask the application without a socket. Return the JSON of its answer."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]  # dicts stand for the types of ASGI
    assert sent[0]["status"] == 200, sent
    return json.loads(b"".join(one.get("body", b"") for one in sent))


@pytest.mark.parametrize("name", KINDS)
def test_an_endpoint_may_return_a_value_as_it_is(app: fastapi.FastAPI, name: str) -> None:
    value = VALUES[name]
    expected = [one.to_dict() for one in value] if isinstance(value, list) else value.to_dict()
    found = get(app, f"/typed/{name}")
    assert found == get(app, f"/plain/{name}")
    if name != "snapshot":  # its own JSON has no sums of usages
        assert found == json.loads(json.dumps(expected))


def test_the_values_say_what_a_user_interface_needs(app: fastapi.FastAPI) -> None:
    outcome = get(app, "/plain/outcome")
    assert (outcome["status"], outcome["kind"]) == ("ok", "reported")
    assert (outcome["structured_output"], outcome["usage"]["calls"]) == ({"euros": 5}, 4)
    (delegation,) = outcome["delegations"]
    assert (delegation["address"], delegation["parent"], delegation["value"]) == ("host.1", "host", None)
    approval = VALUES["open"]
    assert (approval["id"], approval["arguments"], approval["is_open"]) == (
        f"one#{approval['seq']}",
        {"euros": 5},
        True,
    )
    assert get(app, "/plain/approval")["is_open"] is False
    (row,) = get(app, "/plain/rows")
    assert (row["session_id"], row["tags"], row["metadata"]) == ("one", ["a"], {"user": 7})
    assert row["cursor"]
    assert get(app, "/plain/capacity")["lines"][0]["model"] == "m"


def test_the_schema_of_the_service_names_the_fields(app: fastapi.FastAPI) -> None:
    found = get(app, "/openapi.json")
    assert len(found["paths"]) == 2 * len(KINDS)
    shown = json.dumps(found)
    for name in ("structured_output", "is_open", "cursor", "cost_usd", "status"):
        assert f'"{name}"' in shown


def test_no_value_shows_opaque_json() -> None:
    asyncio.run(_played())
    for name in KINDS:
        value = VALUES[name]
        assert "Raw" not in repr(value), name
        assert "0x" not in repr(value), name
    assert 'arguments={"euros":5}' in repr(VALUES["approval"])
