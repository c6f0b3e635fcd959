"""The choice of a session's memory."""

from pathlib import Path

import pytest

from callboard import Agent, MisuseError, Runtime, ScriptedModel, SQLiteMemory, call, say
from callboard.runtime.sessions.session_memory import checked_memory, memory_of
from callboard.tools.memory import MEMORY_TOOLS
from tests.runtime.memory.plain import PlainMemory


def test_a_path_is_an_embedded_memory_and_a_memory_stays_itself(tmp_path: Path) -> None:
    made = checked_memory(tmp_path / "m.db")
    assert isinstance(made, SQLiteMemory)
    assert made.path == tmp_path / "m.db"
    own = PlainMemory()
    assert checked_memory(own) is own
    assert checked_memory(None) is None
    assert memory_of(own, "s1", (), None) is own


@pytest.mark.parametrize("given", [7, ["memory.db"], object()])
def test_anything_else_is_refused_when_the_runtime_is_made(given: object) -> None:
    with pytest.raises(MisuseError, match="use a path, an object with remember, recall and forget"):
        Runtime(":memory:", memory=given)  # type: ignore[arg-type]  # what it refuses


def test_a_function_chooses_by_the_tags_of_a_session() -> None:
    stores: dict[str, PlainMemory] = {}

    def of_user(session_id: str, tags: tuple[str, ...], metadata: object) -> PlainMemory:
        return stores.setdefault(tags[0], PlainMemory())

    host = Agent("host", tools=MEMORY_TOOLS)
    for user in ("ann", "bob"):
        model = ScriptedModel([call("remember", text=f"for {user}"), say("Done.")])
        Runtime(":memory:", model=model, memory=of_user).run_sync(host, "go", tags=[user])
    kept = {user: [one.text for one in store.entries["shared"]] for user, store in stores.items()}
    assert kept == {"ann": ["for ann"], "bob": ["for bob"]}


def test_a_function_that_returns_no_memory_is_refused() -> None:
    with pytest.raises(MisuseError, match="for session s1, which is no memory"):
        memory_of(lambda *_: "memory.db", "s1", (), None)  # type: ignore[arg-type]  # what it refuses
    assert memory_of(lambda *_: None, "s1", (), None) is None
