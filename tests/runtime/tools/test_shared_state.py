"""A tool's access to the shared state, and the keys that agents declare."""

from pathlib import Path

import msgspec
import pytest

from callboard import Agent, SharedKey, ToolContext
from callboard.actors.protocol.immutable import Json
from callboard.actors.session.shared_state import NO_STATE
from callboard.errors import InvalidAgent, InvalidState
from callboard.runtime.programs.run import ProgramRun
from callboard.runtime.tools.shared_state import (
    UPDATE_BYTES_MAX,
    UPDATES_MAX,
    ProgramState,
    StateAccess,
    declared,
    is_key_name,
    state_keys,
)
from tests.tables import table


def access() -> StateAccess:
    keys = {
        "stage": SharedKey("replace", "start"),
        "notes": SharedKey("append"),
        "count": SharedKey("add", 2),
    }
    return StateAccess(NO_STATE.declaring(key.named(name) for name, key in keys.items()))


def test_reading_gives_new_values_and_names_the_keys_that_were_read() -> None:
    mine = access()
    assert mine.values["count"] == 2
    mine.values["notes"].append("mine alone")
    assert mine.values["notes"] == []
    assert "stage" in mine.values
    assert "gone" not in mine.values
    assert mine.values.get("gone") is None
    assert (len(mine.values), list(mine.values)) == (3, ["stage", "notes", "count"])
    assert mine.taken() == ((), ("count", "notes"))
    with pytest.raises(KeyError, match="declares no state key 'gone'; there are: stage, notes, count"):
        mine.values["gone"]


def test_updates_are_taken_in_order_and_do_not_show_in_the_values() -> None:
    mine = access()
    mine.update("notes", {"a": 1})
    mine.update("count", 3)
    mine.update("notes", "b")
    updates, _ = mine.taken()
    assert [(one.key, bytes(one.value)) for one in updates] == [
        ("notes", b'{"a":1}'), ("count", b"3"), ("notes", b'"b"'),
    ]  # fmt: skip
    assert mine.values["count"] == 2


def test_an_update_with_values_of_other_types_is_made_and_not_lost() -> None:
    mine = access()
    mine.update("notes", {"seen": {2, 1}, "at": Path("a"), 3: float("nan")})
    assert [bytes(one.value) for one in mine.taken()[0]] == [b'{"seen":[1,2],"at":"a","3":null}']


@table(
    ("key", "value", "words"),
    [
        ("count", "3", "it adds whole numbers"),
        ("count", True, "it adds whole numbers"),
        ("stage", 3, "it holds a text, and this is a number"),
        ("gone", 1, "declares no state key 'gone'"),
        ("notes", "x" * UPDATE_BYTES_MAX, "cannot take this update"),
        ("notes", ["x" * UPDATE_BYTES_MAX, b""], "keep large values in a file"),
        (7, 1, "declares no state key '7'"),
    ],
)
def test_an_update_that_does_not_fit_is_refused_with_the_reason(key: str, value: object, words: str) -> None:
    mine = access()
    with pytest.raises(InvalidState, match=words):
        mine.update(key, value)
    assert mine.taken() == ((), ())


def test_a_call_that_reads_or_updates_has_used_the_state() -> None:
    reads, updates, neither = access(), access(), access()
    assert reads.values["count"] == 2
    updates.update("count", 1)
    assert [one.is_used for one in (reads, updates, neither)] == [True, True, False]


def test_keys_that_begin_alike_and_change_alike_are_one() -> None:
    keys = [SharedKey("replace", 1), SharedKey("replace", 1), SharedKey("add", 1), SharedKey("replace", 2)]
    assert len(set(keys)) == len({hash(key) for key in keys}) == 3


def test_the_updates_of_a_call_may_have_so_many_bytes_together() -> None:
    mine, half = access(), UPDATE_BYTES_MAX // 2
    for size in (half, UPDATE_BYTES_MAX - half):
        mine.update("notes", "x" * (size - 2))
    with pytest.raises(InvalidState):
        mine.update("count", 1)

    assert len(mine.taken()[0]) == 2


def test_a_call_makes_a_bounded_number_of_updates_of_a_bounded_size() -> None:
    many = access()
    for _ in range(UPDATES_MAX):
        many.update("count", 1)
    with pytest.raises(InvalidState, match="1,000 updates"):
        many.update("count", 1)
    large = access()
    large.update("notes", "x" * (UPDATE_BYTES_MAX - 10))
    with pytest.raises(InvalidState, match="1,000,000 bytes"):
        large.update("notes", "x" * 10)


def test_a_context_that_a_test_makes_has_a_state() -> None:
    ctx = ToolContext(shared={"stage": "start", "n": 1})
    ctx.update_state("stage", "done")
    ctx.update_state("n", [1])
    assert dict(ctx.state) == {"stage": "start", "n": 1}
    with pytest.raises(InvalidState, match="declares no state key 'x'; there are: none"):
        ToolContext().update_state("x", 1)


def test_keys_that_cannot_work_are_refused_when_the_agent_is_made() -> None:
    with pytest.raises(InvalidAgent, match="'replace', 'append', 'add'"):
        SharedKey("merge")  # type: ignore[arg-type]  # a wrong value, on purpose
    with pytest.raises(InvalidAgent, match="begins with a whole number"):
        SharedKey("add", "1")
    with pytest.raises(InvalidAgent, match="begins with a list"):
        SharedKey("append", {})
    with pytest.raises(InvalidAgent, match="cannot begin with this value"):
        SharedKey("replace", object())
    for name in ("", "x" * 101, "a\nb", 7):
        with pytest.raises(InvalidAgent, match="a state key is named by"):
            state_keys("host", {name: 1})  # type: ignore[dict-item]  # a wrong value, on purpose
    with pytest.raises(InvalidAgent, match="state cannot be"):
        Agent("host", state=[1])  # type: ignore[arg-type]  # a wrong value, on purpose


def test_agents_declare_the_keys_of_a_session_together_and_alike() -> None:
    one, other = {"a": SharedKey("add"), "b": SharedKey()}, {"a": SharedKey("add"), "c": SharedKey("append")}
    assert [key.name for key in declared({"x": one, "y": other})] == ["a", "b", "c"]
    with pytest.raises(InvalidAgent, match="agents 'x' and 'y' declare the state key 'a'"):
        declared({"x": one, "y": {"a": SharedKey("add", 1)}})
    assert Agent("host", state={"stage": "start"}).state == {"stage": SharedKey("replace", "start")}
    assert len({SharedKey("add"), SharedKey("add", 0), SharedKey("add", 1)}) == 2


def test_a_key_has_a_printable_name_of_1_to_100_characters() -> None:
    names = ("", "n", "n" * 100, "n" * 101, "\n", 1)
    assert [is_key_name(name) for name in names] == [False, True, True, False, False, False]


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
