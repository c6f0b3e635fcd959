"""`ctx.memory`: names, rights, labels, secrets and ids."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from callboard import Agent, Runtime, ScriptedModel, ToolContext, call, say, tool
from callboard.actors.protocol.layers import Layers, added
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.uses import Use
from callboard.errors import MemoryFailed, MisuseError, ToolError
from callboard.memory import MemoryEntry, SQLiteMemory
from callboard.permissions import Allowed, Bundle, Denied, LabelRule
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.memory.access import HITS_MAX, QUERY_CHARS_MAX, TEXT_CHARS_MAX
from tests.runtime.memory.plain import PlainMemory
from tests.tables import table


def context(store: object, key: str = "k", profile: str = "reader", **more: object) -> ToolContext:
    given = {"memories": store, "idempotency_key": key, "profile": profile, "session_id": "s1", **more}
    return ToolContext(**given)  # type: ignore[arg-type]  # the fields of one call


def layers(bundle: Bundle) -> Layers:
    return added((), "agent host", bundle.own)


def test_a_text_is_found_again_with_its_writer(tmp_path: Path) -> None:
    store = SQLiteMemory(tmp_path / "m.db")
    entry_id = context(store).memory.remember("  The tea is hot.\n")
    (found,) = context(store, "other", "writer").memory.recall("tea")
    assert (found.id, found.text, found.by, found.session_id) == (entry_id, "The tea is hot.", "reader", "s1")
    assert found.at > 1_700_000_000_000
    assert context(store).memory.forget(entry_id)
    assert not context(store).memory.forget(entry_id)


def test_a_call_that_runs_twice_remembers_once_each_of_its_texts() -> None:
    store = PlainMemory()
    for _ in range(2):
        memory = context(store, "call-1").memory
        assert memory.remember("same") != memory.remember("same")
    context(store, "call-2").memory.remember("same")
    assert len(store.entries["shared"]) == 3


def test_own_is_the_memory_of_a_profile_and_no_other_agent_reaches_it() -> None:
    store = PlainMemory()
    context(store).memory.remember("mine", memory="own")
    assert list(store.entries) == ["agent:reader"]
    assert [one.text for one in context(store).memory.recall(memory="own")] == ["mine"]
    assert [one.text for one in context(store).memory.recall(memory="agent:reader")] == ["mine"]
    assert context(store, profile="writer").memory.recall(memory="own") == []
    with pytest.raises(ToolError, match="'agent:reader' belongs to another agent"):
        context(store, profile="writer").memory.recall(memory="agent:reader")


def test_bundles_bound_the_names() -> None:
    store = PlainMemory()
    only_own = layers(Bundle(do=Allowed(memory=("agent:*",))))
    context(store, rights=only_own).memory.remember("mine", memory="own")
    for use in ("remember", "recall", "forget"):
        with pytest.raises(ToolError, match="memory 'shared' is denied by agent host"):
            getattr(context(store, rights=only_own).memory, use)("text")
    no_own = layers(Bundle(deny=Denied(memory=("agent:*",))))
    with pytest.raises(ToolError, match="memory 'agent:reader' is denied"):
        context(store, rights=no_own).memory.recall(memory="own")
    assert list(store.entries) == ["agent:reader"]


def test_an_entry_has_the_labels_of_its_writer_and_gives_them_to_its_reader() -> None:
    store = PlainMemory()
    writer = context(store, labels=("untrusted",), tool_labels=("mail",))
    writer.label("secret")
    writer.memory.remember("the tea is hot")
    assert store.entries["shared"][0].labels == ("mail", "secret", "untrusted")

    reader = context(store)
    reader.memory.recall("coffee")
    assert not reader.labels_stated
    reader.memory.recall("tea")
    assert reader.labels_stated == ("mail", "secret", "untrusted")
    reader.memory.remember("it said that the tea is hot")  # written after it was read
    assert store.entries["shared"][1].labels == ("mail", "secret", "untrusted")


def test_a_secret_of_the_runtime_is_not_kept() -> None:
    store = PlainMemory()
    ctx = context(store, secrets={"DOOR": "open-sesame"})
    ctx.memory.remember(f"say {ctx.secret('DOOR')}")
    assert store.entries["shared"][0].text == "say [secret:DOOR]"


@pytest.mark.parametrize("text", ["", " \n ", "x" * (TEXT_CHARS_MAX + 1)])
def test_texts_beyond_their_bounds_are_refused(text: str) -> None:
    store = PlainMemory()
    with pytest.raises(MemoryFailed, match="has 1 to 4,000 characters"):
        context(store).memory.remember(text)
    assert store.entries == {}


def test_the_longest_text_and_odd_characters_are_kept(tmp_path: Path) -> None:
    store = SQLiteMemory(tmp_path / "m.db")
    context(store).memory.remember("x" * TEXT_CHARS_MAX)
    context(store).memory.remember("nul \0 and \ud800")
    assert [one.text for one in context(store).memory.recall("nul")] == ["nul \u2400 and \ufffd"]
    assert context(store).memory.recall("\ud800\0") != []  # no word: the newest


def test_queries_and_limits_beyond_their_bounds_are_refused() -> None:
    for query, limit in (("x" * (QUERY_CHARS_MAX + 1), 10), ("x", 0), ("x", HITS_MAX + 1)):
        with pytest.raises(MemoryFailed, match="limit is 1 to 50"):
            context(PlainMemory()).memory.recall(query, limit=limit)


@table("name", ["", " shared", "a*", "a\nb", "x" * 201])
def test_a_name_that_no_bundle_could_hold_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="is not a name of a memory"):
        context(PlainMemory()).memory.recall(memory=name)


def test_without_a_memory_its_use_says_how_to_give_one() -> None:
    with pytest.raises(MisuseError, match=r"Runtime\(memory='memory.db'\)"):
        context(None).memory.recall("tea")


def test_a_store_that_returns_too_much_is_cut_and_one_that_returns_junk_is_refused() -> None:
    class Odd(PlainMemory):
        def recall(self, memory: str, query: str, limit: int) -> list[MemoryEntry]:
            return [MemoryEntry("1", "a"), MemoryEntry("2", "b", ("secret",)), *junk]

    junk: list[MemoryEntry] = []
    store = Odd()
    ctx = context(store)
    assert [one.id for one in ctx.memory.recall(limit=1)] == ["1"]
    assert ctx.labels_stated == ()
    junk.append("no entry")  # type: ignore[arg-type]  # a store of a user may return anything
    with pytest.raises(MemoryFailed, match="something other than entries"):
        context(store).memory.recall()


def test_every_use_is_recorded_with_the_labels_that_it_brought() -> None:
    store = PlainMemory()
    context(store, labels=("untrusted",)).memory.remember("the tea is hot")
    ctx = context(store)
    ctx.memory.recall("coffee")
    ctx.memory.recall("tea", memory="shared")
    ctx.memory.forget("none", memory="own")
    assert ctx.access.uses == (
        Use("memory", "shared"),
        Use("memory", "shared", "", ("untrusted",)),
        Use("memory", "agent:reader"),
    )
    assert ctx.is_used


def test_a_rule_for_a_label_that_the_call_itself_has_read_denies_further_uses() -> None:
    store = PlainMemory()
    context(store, labels=("secret",)).memory.remember("the key is 7")
    bound = layers(Bundle(when=(LabelRule("secret", "memory"),)))
    ctx = context(store, rights=bound)
    assert len(ctx.memory.recall("key")) == 1
    with pytest.raises(ToolError, match="secret"):
        ctx.memory.remember("the key is 7", memory="own")
    assert [*store.entries] == ["shared"]


def test_a_bundle_without_the_capability_denies_a_tool_that_does_not_declare_it() -> None:
    store = PlainMemory()
    ctx = context(store, rights=layers(Bundle(deny=Denied(capabilities=("memory",)))))
    with pytest.raises(ToolError, match="memory"):
        ctx.memory.remember("text")
    assert (store.entries, ctx.access.uses) == ({}, ())


def test_a_call_that_has_ended_reaches_no_memory() -> None:
    store = PlainMemory()
    ctx = context(store)
    ctx.end()
    with pytest.raises(ToolError, match="has its answer already"):
        ctx.memory.remember("late")
    assert store.entries == {}


@table("label", ["", "a*b", "x\ny", " ", 7])
def test_a_label_that_is_no_name_is_a_damaged_entry(label: object) -> None:
    store = PlainMemory()
    store.entries["shared"] = [MemoryEntry("id", "text", (label,))]  # type: ignore[arg-type]  # a wrong one
    with pytest.raises(MemoryFailed, match="a label that is not a name") as found:
        context(store).memory.recall()
    assert found.value.reason == "damaged"


@tool(effect="read")
def look_up(ctx: ToolContext) -> str:
    """Look it up, in the memory."""
    return str(len(ctx.memory.recall()))


def test_the_log_names_the_memories_that_a_tool_used_and_the_kit_checks_them(tmp_path: Path) -> None:
    store = PlainMemory()
    store.remember("shared", MemoryEntry("id", "text", ("untrusted",)))
    host = Agent("host", tools=[look_up], permissions=Bundle(do=Allowed(memory=("shared",))))
    model = ScriptedModel([call("look_up"), say("Done.")])
    Runtime(tmp_path / "log.db", model=model, memory=store).run_sync(host, "go")
    events = [*Recording.open(tmp_path / "log.db").events]
    (answer,) = [one for one in events if isinstance(one.body, ToolReturned)]
    assert isinstance(answer.body, ToolReturned)
    shared = Use("memory", "shared")
    assert answer.body.uses == (shared, replace(shared, labels=("untrusted",)))
    assert answer.body.labels == ("untrusted",)
    assert check_log(events) == []
    other = replace(answer, body=replace(answer.body, uses=(Use("memory", "agent:other"),)))
    found = check_log([other if one is answer else one for one in events])
    assert "permissions" in {one.name for one in found}


class Told(PlainMemory):
    """A store that notes the queries and ids that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def recall(self, memory: str, query: str, limit: int) -> list[MemoryEntry]:
        self.asked.append(query)
        return list(super().recall(memory, query, limit))

    def forget(self, memory: str, entry_id: str) -> bool:
        self.asked.append(entry_id)
        return super().forget(memory, entry_id)


def test_a_reader_has_the_labels_of_every_entry_that_it_gets() -> None:
    store = PlainMemory()
    for number, label in enumerate(("mail", "secret", "web")):
        store.remember("shared", MemoryEntry(f"id{number}", "tea", (label,), "w", "s1", number))
    ctx = context(store)
    assert len(ctx.memory.recall("tea")) == 3
    brought = {label for use in ctx.memory._access.uses for label in use.labels}
    assert brought == {"mail", "secret", "web"}


def test_queries_and_ids_are_cleaned_before_they_reach_the_store() -> None:
    store = Told()
    context(store).memory.recall("a\0b\ud800c")
    context(store).memory.forget("a\0b\ud800c")
    assert len(store.asked) == 2
    for text in store.asked:
        assert "\0" not in text
        text.encode()


def test_one_text_has_another_id_in_another_memory() -> None:
    ids = [context(PlainMemory(), "k").memory.remember("same", memory=name) for name in ("shared", "own")]
    assert ids[0] != ids[1]
