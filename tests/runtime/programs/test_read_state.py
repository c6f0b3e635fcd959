"""The shared state as a program reads it."""

import msgspec
import pytest

from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.read_state import ProgramState
from callboard.runtime.programs.run import ProgramRun


def reads(state: ProgramState) -> object:
    """Read what no key names."""
    with pytest.raises(KeyError, match="is not a name of a state key"):
        state["no key\n"]
    with pytest.raises(TypeError):
        list(state)  # type: ignore[call-overload]  # on purpose  # pyright: ignore[reportArgumentType]
    return state["n"]


def test_a_key_is_read_once_and_nothing_else_is() -> None:
    asked: list[str] = []

    def state_of(key: str) -> Json:
        asked.append(key)
        return Json(msgspec.json.encode([1]))

    async def main(run: ProgramRun) -> object:
        return [reads(ProgramState(run)), ProgramState(run)["n"]]

    step = ProgramRun(main, "1-a").step((), 0, state_of=state_of)
    assert step.ending is not None
    assert (step.ending.value, asked) == (Json(b"[[1],[1]]"), ["n"])
