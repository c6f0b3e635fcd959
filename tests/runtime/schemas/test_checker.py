import asyncio
import subprocess
import sys
import threading

import pytest

from callboard import Runtime
from callboard.actors.protocol.messages import SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas import checker as checker_module
from tests.runtime.schemas.kit import accept_request, answer_of, checking, report_request

SCHEMA = {"type": "object", "properties": {"agent": {"type": "integer"}}, "required": ["agent"]}
LARGE = list(range(5_000))


def test_a_cheap_check_is_answered_at_once() -> None:
    async def run() -> None:
        async with checking() as checker:
            assert await answer_of(checker, accept_request(SCHEMA)) == SchemaChecked(1, "ok")
            assert checker.check(accept_request(SCHEMA)) == SchemaChecked(1, "ok")
            assert checker.check(report_request(SCHEMA, {"agent": 1})) == SchemaChecked(1, "ok")

    asyncio.run(run())


@pytest.mark.slow
def test_an_invalid_report_is_worded_by_a_worker() -> None:
    async def run() -> None:
        async with checking() as checker:
            await answer_of(checker, accept_request(SCHEMA))
            pending = checker.check(report_request(SCHEMA, {}))
            assert not isinstance(pending, SchemaChecked)
            problem = SchemaProblem("", 'required property missing: "agent"')
            assert await pending == SchemaChecked(1, "invalid", (problem,))

    asyncio.run(run())


_FIRST_USE = """
import asyncio, sys, threading
import msgspec
from callboard.actors.protocol.messages import CheckSchema
from callboard.runtime.schemas.checker import SchemaChecker

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("jsonschema", "jsonschema_rs"):
            print(name, "imported by the loop:", threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())

async def main():
    checker = SchemaChecker()
    schema = msgspec.Raw(b'{"type": "object"}')
    print("loaded:", "jsonschema_rs" in sys.modules)
    print((await checker.check(CheckSchema(1, "accept", schema))).status)
    print(checker.check(CheckSchema(2, "report", schema, msgspec.Raw(b"{}"))).status)
    print((await checker.check(CheckSchema(3, "report", schema, msgspec.Raw(b"[]")))).status)
    await checker.aclose()
    print("loaded:", "jsonschema" in sys.modules)

asyncio.run(main())
"""


@pytest.mark.slow
def test_jsonschema_rs_is_imported_when_first_needed_and_not_by_the_loop_and_jsonschema_never() -> None:
    done = subprocess.run([sys.executable, "-c", _FIRST_USE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "loaded: False",
        "jsonschema_rs imported by the loop: False",
        *("ok", "ok", "invalid"),
        "loaded: False",
    ]


def test_an_opened_runtime_begins_the_import_before_any_check(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = threading.Event()
    monkeypatch.setattr(checker_module, "import_compiled", imported.set)

    async def run() -> None:
        async with Runtime(":memory:"):
            assert await asyncio.to_thread(imported.wait, 10)

    assert not imported.is_set()
    asyncio.run(run())


def test_a_check_that_is_cancelled_while_the_library_loads_leaves_it_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released, imports = threading.Event(), 0

    def slow_import() -> None:
        nonlocal imports
        imports += 1
        assert released.wait(10)

    monkeypatch.setattr(checker_module, "import_compiled", slow_import)

    async def run() -> None:
        async with checking() as checker:
            checker.load()
            given_up, kept = (
                asyncio.ensure_future(answer_of(checker, accept_request(SCHEMA))) for _ in range(2)
            )
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.wait([given_up])
            assert given_up.cancelled()
            assert not kept.done()
            released.set()
            assert await kept == SchemaChecked(1, "ok")

    asyncio.run(run())
    assert imports == 1


@pytest.mark.slow
def test_an_expensive_check_is_answered_by_a_worker_in_the_same_words() -> None:
    async def run() -> None:
        async with checking() as checker:
            schema = {"uniqueItems": True, "items": {"maximum": 4_000}}
            small = await answer_of(checker, report_request(schema, [4_001, 4_001]))
            assert [each.path for each in small.problems] == ["", "/0", "/1"]
            pending = checker.check(report_request(schema, [*LARGE[:4_000], 4_001, 4_001]))
            assert not isinstance(pending, SchemaChecked)
            large = await pending
            assert [each.path for each in large.problems] == ["", "/4000", "/4001"]
            assert large.problems[1].message == small.problems[1].message

    asyncio.run(run())


@pytest.mark.slow
def test_many_first_reports_at_once_are_all_answered() -> None:
    async def run() -> None:
        async with checking() as checker:
            requests = [report_request(SCHEMA, {"agent": str(index)}) for index in range(20)]
            answers = await asyncio.gather(*(answer_of(checker, each) for each in requests))
            assert [each.status for each in answers] == ["invalid"] * 20

    asyncio.run(run())


def test_closing_twice_does_no_harm() -> None:
    async def run() -> None:
        async with checking() as checker:
            await checker.aclose()
            assert await answer_of(checker, accept_request(SCHEMA)) == SchemaChecked(1, "ok")

    asyncio.run(run())
