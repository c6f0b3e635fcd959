"""The call of a program: its folder is compared before and after, and a failed look is no failed call."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path

import pytest

from callboard.runtime.files.comparing import compared
from callboard.runtime.files.versions import CallVersions
from callboard.runtime.tools.output import ToolOutcome, failed
from tests.runtime.files.history_kit import Told, change

_DONE = ToolOutcome("ok", failed("done").output)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "root")


async def work(told: Told, outcome: ToolOutcome = _DONE) -> ToolOutcome:
    change(told.root / "a", b"by the program")
    return outcome


def run(versions: CallVersions, coroutine: "Coroutine[object, object, ToolOutcome]") -> ToolOutcome:
    return asyncio.run(compared(versions, coroutine))


def test_a_failed_program_has_changed_files_as_well(told: Told) -> None:
    call = told.call()
    assert run(call, work(told, failed("exit code 1"))).status == "error"
    told.answer(call)
    assert told.as_of() == {"a": b"by the program"}


@pytest.mark.parametrize("name", ["begin", "end"])
def test_a_folder_that_cannot_be_looked_at_is_a_gap(
    told: Told, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def broken(self: CallVersions) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(CallVersions, name, broken)
    call = told.call()
    assert run(call, work(told)) == _DONE
    assert told.answer(call).files_gap == "the folder could not be compared (OSError)"


def test_a_call_that_is_cancelled_during_the_first_look_never_starts(told: Told) -> None:
    async def main() -> ToolOutcome:
        task = asyncio.ensure_future(compared(told.call(), work(told)))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(main()).status == "cancelled"
    assert not (told.root / "a").exists()


def test_a_call_that_is_cancelled_during_the_last_look_names_a_gap(told: Told) -> None:
    call = told.call()

    async def main() -> ToolOutcome:
        started = asyncio.Event()

        async def program() -> ToolOutcome:
            started.set()
            return await work(told)

        task = asyncio.ensure_future(compared(call, program()))
        await started.wait()
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert asyncio.run(main()) == _DONE
    assert "cancelled before the folder was compared" in told.answer(call).files_gap
