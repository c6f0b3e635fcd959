import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from callboard import Runtime
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas import checker
from callboard.runtime.schemas import checker as checker_module
from callboard.runtime.schemas.checker import Pool
from callboard.runtime.schemas.json_text import WORKERS_MAX
from callboard.runtime.schemas.worker import HELLO, frame, message_frame
from tests.runtime.schemas.kit import DOUBLING, ENDLESS, accept_request, answer_of, checking, report_request

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
from callboard.actors.protocol.port_messages import CheckSchema
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
    monkeypatch.setattr(checker_module, "import_module", lambda _: imported.set())

    async def run() -> None:
        async with Runtime(":memory:"):
            assert await asyncio.to_thread(imported.wait, 10)

    assert not imported.is_set()
    asyncio.run(run())


def test_a_check_that_is_cancelled_while_the_library_loads_leaves_it_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released, imports = threading.Event(), 0

    def slow_import(_: str) -> None:
        nonlocal imports
        imports += 1
        assert released.wait(10)

    monkeypatch.setattr(checker_module, "import_module", slow_import)

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


def endless(timeout_ms: int) -> CheckSchema:
    return report_request(DOUBLING, ENDLESS, timeout_ms)


def children() -> set[int]:
    """Return our child processes that are not collected yet; empty without /proc."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(stat.parent.name))
    return found


async def closing(work: "Pool", *checks: CheckSchema) -> list[SchemaChecked]:
    try:
        return [await work.check(each) for each in checks]
    finally:
        await work.aclose()


def pretend(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let workers run this instead."""
    monkeypatch.setattr(checker, "_command", lambda: (sys.executable, "-I", "-c", code))


@pytest.mark.slow
def test_a_worker_answers_is_kept_and_is_collected_at_the_end() -> None:
    async def run() -> None:
        before = children()
        work = Pool()
        first = await work.check(accept_request({}))
        during = children() - before
        second = await work.check(accept_request({"type": "whole"}))
        assert (first.status, second.status) == ("ok", "invalid")
        assert children() - before == during
        await work.aclose()
        assert children() <= before

    asyncio.run(run())


@pytest.mark.slow
def test_a_check_that_takes_too_long_is_stopped_and_the_next_one_is_answered() -> None:
    stopped, after = asyncio.run(closing(Pool(), endless(200), accept_request({})))
    assert stopped.status == "failed"
    assert stopped.problems[0].message.startswith(
        "the check took longer than 200 ms and was stopped: simplify"
    )
    assert after.status == "ok"


@pytest.mark.slow
def test_more_checks_than_workers_wait_for_their_turn() -> None:
    async def run() -> None:
        work, before = Pool(), children()
        checks = [asyncio.ensure_future(work.check(accept_request({"const": index}))) for index in range(8)]
        answers = await asyncio.gather(*checks)
        assert [each.status for each in answers] == ["ok"] * 8
        assert len(children() - before) <= WORKERS_MAX
        await work.aclose()

    asyncio.run(run())


@pytest.mark.slow
def test_a_cancelled_check_ends_its_worker_and_frees_its_place() -> None:
    async def run() -> None:
        work, before = Pool(), children()
        await work.check(accept_request({}))
        checks = [asyncio.ensure_future(work.check(endless(60_000))) for _ in range(WORKERS_MAX + 1)]
        await asyncio.wait(checks, timeout=0.2)
        for each in checks:
            each.cancel()
        assert all(
            isinstance(each, asyncio.CancelledError)
            for each in await asyncio.gather(*checks, return_exceptions=True)
        )
        assert (await work.check(accept_request({}))).status == "ok"
        await work.aclose()
        assert children() <= before

    asyncio.run(run())


@pytest.mark.slow
def test_closing_answers_running_checks_and_later_ones() -> None:
    async def run() -> None:
        work = Pool()
        await work.check(accept_request({}))
        check = asyncio.ensure_future(work.check(endless(60_000)))
        await asyncio.wait([check], timeout=0.1)
        await work.aclose()
        assert "ended in the middle of the check" in (await check).problems[0].message
        late = await work.check(accept_request({}))
        assert (late.status, late.problems[0].message) == ("failed", "the schema checker is closed")
        await work.aclose()

    asyncio.run(run())


@pytest.mark.slow
def test_closing_does_not_wait_for_a_check_whose_worker_is_just_starting() -> None:
    async def run() -> None:
        work, before = Pool(), children()
        check = asyncio.ensure_future(work.check(endless(60_000)))
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await work.aclose()
        assert (await check).status == "failed"
        assert children() <= before

    asyncio.run(run())


@pytest.mark.slow
def test_closing_can_be_cancelled_and_done_again() -> None:
    async def run() -> None:
        work = Pool()
        check = asyncio.ensure_future(work.check(accept_request({})))
        closing = asyncio.ensure_future(work.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await work.aclose()
        assert (await check).status == "failed"
        assert (await work.check(accept_request({}))).status == "failed"

    asyncio.run(run())


@pytest.mark.slow
def test_a_worker_that_died_while_idle_is_replaced() -> None:
    async def run() -> None:
        work = Pool()
        await work.check(accept_request({}))
        [idle] = work._idle
        idle.terminate()
        await idle.wait()
        assert (await work.check(accept_request({}))).status == "ok"
        await work.aclose()

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("", "ended in the middle"),
        ("import sys; sys.stdout.write('\\xff' * 100)", "no answer"),
        (f"import sys; sys.stdout.buffer.write({frame(b'hello')!r})", "another version"),
        (
            f"import sys; sys.stdout.buffer.write({frame(HELLO)!r})",
            "ended in the middle",
        ),
        (
            f"import sys; sys.stdout.buffer.write({frame(HELLO) + frame(b'{}')!r}); "
            "sys.stdout.flush(); sys.stdin.read()",
            "ended in the middle",
        ),
    ],
)
def test_a_worker_that_misbehaves_is_an_answer_not_an_exception(
    monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    pretend(monkeypatch, code)
    [answer] = asyncio.run(closing(Pool(), accept_request({})))
    assert answer.status == "failed"
    assert words in answer.problems[0].message


@pytest.mark.slow
def test_an_interpreter_that_is_not_there_is_an_answer_without_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checker, "_command", lambda: ("/nowhere/python",))
    [answer] = asyncio.run(closing(Pool(), accept_request({})))
    assert answer.problems[0].message == "the schema worker cannot be started: FileNotFoundError"


@pytest.mark.slow
def test_a_worker_that_never_gets_ready_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "import sys; sys.stdin.read()")
    monkeypatch.setattr(checker, "START_S", 0.1)
    [answer] = asyncio.run(closing(Pool(), accept_request({})))
    assert answer.problems[0].message == "the schema worker did not start within 0.1 s"


@pytest.mark.slow
def test_a_worker_that_does_not_end_by_itself_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    hello, ok = (
        frame(HELLO),
        message_frame(SchemaChecked(1, "ok")),
    )
    pretend(
        monkeypatch,
        f"import sys, threading; sys.stdout.buffer.write({hello + ok!r}); sys.stdout.flush(); "
        "threading.Event().wait()",
    )
    monkeypatch.setattr(checker, "_END_S", 0.1)
    before = children()
    [answer] = asyncio.run(closing(Pool(), accept_request({})))
    assert answer.status == "ok"
    assert children() <= before


@pytest.mark.slow
def test_a_worker_inherits_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBOARD_TEST_SECRET", "canary")
    hello, ok = (
        frame(HELLO),
        message_frame(SchemaChecked(1, "ok")),
    )
    bad = message_frame(SchemaChecked(1, "invalid"))
    pretend(
        monkeypatch,
        "import os, sys; secret = 'canary' in str(os.environ); "
        f"sys.stdout.buffer.write({hello!r} + ({bad!r} if secret else {ok!r})); "
        "sys.stdout.flush(); sys.stdin.read()",
    )
    [answer] = asyncio.run(closing(Pool(), accept_request({})))
    assert answer.status == "ok"


@pytest.mark.slow
def test_the_import_path_is_handed_over_without_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    *_, paths = checker._command()
    handed = json.loads(paths)
    assert "" not in handed
    assert all(Path(each).is_absolute() for each in handed)
