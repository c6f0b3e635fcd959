"""The words of refusals: each names the denied use, the bundle that denies it, and the label before it."""

import msgspec

from callboard.actors.protocol.bundles import Allowed
from callboard.actors.protocol.refusals import denied, not_called
from tests.tables import table


@table("entry", [field.name for field in msgspec.structs.fields(Allowed)])
def test_each_entry_of_a_bundle_has_a_word(entry: str) -> None:
    said = denied(entry, "x", "the session")
    assert said.endswith(" 'x' is denied by the session")
    assert said[0].islower()


def test_a_refusal_says_the_label_and_cuts_a_long_name() -> None:
    assert denied("tools", "pay", "agent kid") == "tool 'pay' is denied by agent kid"
    assert denied("hosts", "h", "the runtime", "untrusted") == (
        "host 'h' is denied by the runtime once the label 'untrusted' was read"
    )
    long = denied("models", "m" * 201, "the session")
    assert long == f"model '{'m' * 200}' is denied by the session"
    assert not_called(long) == f"Not called: {long}. Calling it again changes nothing."
