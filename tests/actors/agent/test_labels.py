"""The labels of an agent grow with its answers, and the new ones are kept until a request tells them."""

import pytest
from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.labels import labelled, labels_of_result
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.labels import Labels
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ToolSpec
from callboard.replay.testing.sessions.scenario import profile
from tests.tables import table

(LOOK,) = profile("kid", [], ["look"]).tools
SECRET = replace(LOOK, labels=("secret",))


@pytest.mark.parametrize(
    ("read", "labels", "new"),
    [
        ((), ("b", "d"), ("d",)),
        (("b",), ("b", "d"), ("d",)),
        (("a",), ("a", "b", "d"), ("a", "d")),
        (("e", "b", "c"), ("b", "c", "d", "e"), ("c", "d", "e")),
    ],
)
def test_what_an_agent_reads_labels_it_and_only_new_labels_are_to_be_told(
    read: Labels, labels: Labels, new: Labels
) -> None:
    state = AgentState("host", labels=("b", "d"), new_labels=("d",))
    after = labelled(state, read)
    assert (after.labels, after.new_labels) == (labels, new)
    assert (after is state) == (labels == state.labels)


@table(
    ("spec", "stated", "labels"),
    [
        (None, (), ()),
        (None, ("b",), ("b",)),
        (LOOK, ("b",), ("b",)),
        (SECRET, (), ("secret",)),
        (SECRET, ("b",), ("b", "secret")),
    ],
)
def test_a_result_has_the_labels_of_its_tool_and_its_own(
    spec: ToolSpec | None, stated: Labels, labels: Labels
) -> None:
    use = ToolUse("t1", "look", NULL, spec=spec)
    assert labels_of_result(use, ToolReturned(1, 0, "ok", NULL, labels=stated)) == labels
