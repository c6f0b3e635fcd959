"""What the tests of the schema port's engine share: requests from Python values, engines, a heartbeat."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import msgspec

from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.runtime.schemas.checker import SchemaChecker
from callboard.runtime.schemas.engine import Accepted, Engine, Refused, accept


def text(value: object) -> bytes:
    """Return the JSON text of a value; bytes stay as they are."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def accept_request(schema: object, timeout_ms: int = 5_000) -> CheckSchema:
    return CheckSchema(1, "accept", msgspec.Raw(text(schema)), timeout_ms=timeout_ms)


def report_request(schema: object, value: object, timeout_ms: int = 5_000) -> CheckSchema:
    return CheckSchema(1, "report", msgspec.Raw(text(schema)), msgspec.Raw(text(value)), timeout_ms)


@cache
def unbounded() -> Engine:
    """Make an engine without bounds, as in the worker."""
    return Engine()


def on_the_loop() -> Engine:
    """Make a new engine with the bounds of the event loop."""
    return Engine(is_bounded=True)


def report(schema: object, value: object) -> SchemaChecked:
    """Return the answer to a report, without bounds."""
    return unbounded().check(report_request(schema, value))


def problems(schema: object, value: object) -> list[tuple[str, str]]:
    """Return the problems of a report that can be answered."""
    answer = report(schema, value)
    assert answer.status != "failed", answer
    return [(each.path, each.message) for each in answer.problems]


def accepted(schema: object) -> Accepted:
    return accept(text(schema))


def refusals(schema: object) -> list[tuple[str, str]]:
    """Return the problems of a schema that is not accepted; nothing if it is."""
    try:
        accept(text(schema))
    except Refused as refused:
        return [(each.path, each.message) for each in refused.problems]
    return []


def chain_of(depth: int, innermost: object, name: str = "a") -> object:
    """Return a value with this many nested objects."""
    value = innermost
    for _ in range(depth):
        value = {name: value}
    return value


DOUBLING = {
    "$ref": "#/$defs/n",
    "$defs": {"n": {"type": "object", "anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}}] * 2}},
}
"""Looks at each next level of a value twice as often as at the one above: 2 ** depth in all."""

ENDLESS = chain_of(60, 1)
"""A value that jsonschema would take 36,000 years to word the errors of under DOUBLING."""


class Heartbeat:
    """How much CPU time the loop's thread took at most between two beats. No other program adds to it."""

    def __init__(self) -> None:
        self.gap_s = 0.0

    async def run(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.002)
            now = time.thread_time()
            self.gap_s, last = max(self.gap_s, now - last), now


@asynccontextmanager
async def beating() -> AsyncIterator[Heartbeat]:
    heart = Heartbeat()
    task = asyncio.create_task(heart.run())
    try:
        yield heart
    finally:
        task.cancel()


@asynccontextmanager
async def checking() -> AsyncIterator[SchemaChecker]:
    """Yield a checker and close it at the end."""
    checker = SchemaChecker()
    try:
        yield checker
    finally:
        await checker.aclose()


async def answer_of(checker: SchemaChecker, request: CheckSchema) -> SchemaChecked:
    """Return the answer of the loop or of the worker."""
    answer = checker.check(request)
    return answer if isinstance(answer, SchemaChecked) else await answer
