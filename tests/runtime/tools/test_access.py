import pytest

from callboard.actors.protocol.bundles import Allowed, LabelRule, Rights
from callboard.actors.protocol.errors import ToolError
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.uses import Use
from callboard.runtime.tools import access as module
from callboard.runtime.tools.access import (
    Access,
)

LAYERS = (
    Layer("agent host", Rights(Allowed(secrets=("TOKEN",)), rules=(LabelRule("untrusted", "secrets"),))),
)


def test_a_use_is_checked_and_recorded_once() -> None:
    access = Access(LAYERS)
    access.use("secrets", "TOKEN")
    access.use("secrets", "TOKEN")
    with pytest.raises(ToolError, match="secret 'KEY' is denied by agent host"):
        access.use("secrets", "KEY")
    assert access.uses == (Use("secrets", "TOKEN"),)


def test_a_label_that_the_call_read_counts_at_its_next_use() -> None:
    access = Access(LAYERS)
    access.use("secrets", "TOKEN")
    access.read("read", "mail.txt", ("untrusted",))
    with pytest.raises(ToolError, match="once the label 'untrusted' was read"):
        access.use("secrets", "TOKEN")
    assert access.result_labels == ("untrusted",)
    assert access.uses[-1] == Use("read", "mail.txt", labels=("untrusted",))


def test_a_read_without_labels_is_not_recorded() -> None:
    access = Access()
    access.read("read", "notes.txt", ())
    assert (access.uses, access.is_used) == ((), False)
    access.took(())
    assert access.is_used is False
    access.took(("a",))
    assert access.is_used is True
    other = Access()
    other.use("secrets", "KEY")
    assert other.is_used is True


def test_a_capability_is_asked_for_without_a_name() -> None:
    assert Access().refusal("secrets") == ""
    access = Access(LAYERS)
    assert access.refusal("secrets") == ""
    assert "denied by agent host" in access.refusal("secrets", "KEY")
    access.took(("untrusted",))
    assert "once the label 'untrusted' was read" in access.refusal("secrets")
    assert access.refusal("secrets", "TOKEN") != ""
    access.end()
    assert "has its answer already" in access.refusal("secrets")


def test_what_a_call_writes_has_the_labels_of_agent_and_tool_and_of_all_that_it_read() -> None:
    access = Access((), ("a",), ("b",))
    access.took(("c",))
    assert access.labels == ("a", "b", "c")
    assert access.result_labels == ("c",)


def test_nothing_is_used_after_the_end_of_the_call() -> None:
    access = Access()
    access.end()
    with pytest.raises(ToolError, match="has its answer already"):
        access.use("hosts", "https://a.example:443")
    with pytest.raises(ToolError, match="has its answer already"):
        access.read("read", "a", ("x",))
    assert access.uses == ()


def test_the_uses_of_a_call_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "USES_MAX", 2)
    access = Access()
    access.use("secrets", "a")
    access.use("secrets", "b")
    access.use("secrets", "b")
    with pytest.raises(ToolError, match="at most 2 names"):
        access.use("secrets", "c")
