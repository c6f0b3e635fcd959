"""The types of outcomes, as mypy reads them in its normal run; the tests also run the assertions."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal, assert_type

from callboard import Agent, DelegationOutcome, Outcome, Runtime, ScriptedModel, Session, call
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.usage import Usage
from tests.runtime.reports import Counted, Finding, Page, Pair, Row, Span

SCHEMA: Mapping[str, object] = {"type": "object"}


async def typed(session: Session) -> None:
    span = await session.ask("go", output_schema=Span)
    assert_type(span, Outcome[Span])
    assert_type(span.structured_output, Span)
    assert_type(span.unwrap(), Span)
    assert_type(span.unwrap().last, int)
    assert_type(await session.ask("go", output_schema=Finding, request_id="r"), Outcome[Finding])
    assert_type((await session.ask("go", output_schema=Page[int])).unwrap().items, list[int])
    assert_type((await session.ask("go", output_schema=Counted)).unwrap(), Counted)
    assert_type((await session.ask("go", output_schema=Row)).unwrap(), Row)
    assert_type((await session.ask("go", output_schema=Pair)).unwrap(), Pair)
    assert_type((await session.ask("go", output_schema=list[Span])).unwrap(), list[Span])
    assert_type((await session.ask("go", output_schema=dict[str, int])).unwrap(), dict[str, int])


async def untyped(session: Session, schema: Mapping[str, object] | None) -> None:
    assert_type(await session.ask("go"), Outcome)
    assert_type(await session.ask("go"), Outcome[object])
    assert_type(await session.ask("go", output_schema=SCHEMA), Outcome[object])
    assert_type(await session.ask("go", output_schema=schema), Outcome[object])
    assert_type(await session.ask("go", output_schema={"type": "integer"}), Outcome[object])
    # Type checkers have no word for these yet: PEP 747.
    literal: Outcome[Any] = await session.ask("go", output_schema=Literal["a", "b"])
    assert literal.is_ok


def widened(outcome: Outcome[Span]) -> Outcome:
    """A typed outcome is also one of anything."""
    return outcome


def of_delegations(outcome: Outcome[Span]) -> None:
    assert_type(outcome.delegations, tuple[DelegationOutcome, ...])
    for one in outcome.delegations:
        assert_type(one.address, str)
        assert_type(one.profile, str)
        assert_type(one.kind, OutcomeKind)
        assert_type(one.usage, Usage)
        assert_type(one.value, object)


def test_run_and_its_blocking_twin_are_typed_alike() -> None:
    model = ScriptedModel([call("report_back", first=1, last=2)] * 2)

    async def run() -> Outcome[Span]:
        async with Runtime(":memory:", model=model) as runtime:
            outcome = await runtime.run(Agent("host"), "go", output_schema=Span, session_id="s")
            assert_type(outcome, Outcome[Span])
            assert_type(await runtime.open(Agent("host")), Session)
            return outcome

    assert asyncio.run(run()).unwrap() == Span(1, 2)
    blocking = Runtime(":memory:", model=model).run_sync(Agent("host"), "go", output_schema=Span)
    assert_type(blocking, Outcome[Span])
    assert blocking.unwrap().first == 1
    of_delegations(blocking)
    assert widened(blocking) is blocking
