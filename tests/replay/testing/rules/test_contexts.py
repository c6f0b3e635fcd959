"""The rule of contexts holds of good sessions, and fires on logs that are damaged for it."""

from collections.abc import Callable

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ContextMade, MakeContext
from callboard.replay.testing.rules.beginnings import Contexts
from callboard.replay.testing.rules.changes import ChangedAgents
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.scenarios_state import contexts
from tests.replay.testing.edited_logs import Log, Which, edited, find, of_kind
from tests.tables import table

LOG = list(SessionWorld(contexts()).run().log)
WANTED = find(LOG, of_kind(MakeContext))
MADE = find(LOG, of_kind(ContextMade))


def at(seq: int) -> Which:
    return lambda event: event.seq == seq


def with_context() -> Which:
    """Return a test for the first Begin that has a context."""
    begin = find(LOG, lambda one: isinstance(one.body, Begin) and one.body.context != NULL)
    return at(begin.seq)


DAMAGED: dict[str, tuple[Callable[[], Log], str]] = {
    "another context": (
        lambda: edited(LOG, with_context(), context=text_json("all I know")),
        "begins with another context than was made for it",
    ),
    "no context": (
        lambda: edited(LOG, with_context(), context=NULL),
        "begins with another context than was made for it",
    ),
    "a failed context": (
        lambda: edited(LOG, at(MADE.seq), status="failed"),
        "begins before every context of its delegation is made",
    ),
    "for another event": (lambda: edited(LOG, at(WANTED.seq), request=1), "which needs none"),
    "for another parent": (lambda: edited(LOG, at(WANTED.seq), parent="host.9"), "which needs none"),
    "for another profile": (lambda: edited(LOG, at(WANTED.seq), profile="host"), "which needs none"),
    "made for another delegation": (
        lambda: edited(LOG, at(MADE.seq), delegation=99),
        "begins before every context of its delegation is made",
    ),
}


@table("name", DAMAGED)
def test_a_log_that_breaks_the_rule_of_contexts_is_found(name: str) -> None:
    damaged, why = DAMAGED[name]
    found = check_log(damaged(), kinds=(Contexts,))
    assert any(why in str(one) for one in found), found


def test_a_context_that_was_made_does_not_end_its_delegation() -> None:
    failed = find(LOG, lambda one: isinstance(one.body, ContextMade) and one.body.status == "failed")
    found = check_log(edited(LOG, at(failed.seq), status="ok"), kinds=(ChangedAgents,))
    assert any("a good answer ends a call as unavailable" in str(one) for one in found)


def test_the_session_itself_breaks_no_rule() -> None:
    assert check_log(LOG, is_at_rest=True) == []
