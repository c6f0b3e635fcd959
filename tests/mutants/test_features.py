"""Every feature is used in the session that is built for it, and in its pairs."""

from collections.abc import Mapping
from typing import Final

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.replay.testing.sessions.capacity_world import CapacityWorld
from tests.effort import effort
from tests.mutants.campaign import hunted
from tests.mutants.features import FEATURES, PAIRS, of_features
from tests.tables import table

SHOWS: Final[Mapping[str, tuple[str, str]]] = {
    "background": ("Delegated", ""),
    "task_wait": ("ModelReplied", '"any":true'),
    "named_waits": ("ModelReplied", '"task_wait","input":{"tasks":["'),
    "tells": ("TellEnded", ""),
    "races": ("Delegate", '"profiles":["kid","kid"]'),
    "reports": ("ReportJudged", '"invalid"'),
    "contracts": ("DelegationEnded", "invalid_input"),
    "contexts": ("ContextMade", " messages"),
    "silence": ("Finished", '"empty"'),
    "lines": ("SessionOpened", '"max_parallel_calls":1'),
    "approvals": ("ApprovalGiven", '"is_always":true'),
    "forms": ("RequestApproval", '"round":2'),
    "changing_tools": ("ToolsGiven", '"late"'),
    "cached_results": ("ToolReturned", '"cached_from":"'),
    "shared_state": ("ToolReturned", '"state_update":['),
    "memory": ("ToolReturned", '"entry":"memory"'),
    "permissions": ("Begin", '"tools":["secret"]'),
    "labels": ("TurnRequested", '"labels":["untrusted"]'),
    "rooms": ("DelegationEnded", '"room":150'),
    "fallback": ("TurnRequested", '"model":"second"'),
    "deadlines": ("DelegationEnded", '"deadline"'),
    "retries": ("TurnRequested", '"attempt":2'),
    "reopen_and_sleep": ("Resumed", '"reopens":true'),
    "capacity": ("CapacityGiven", ""),
    "fork_effects": ("Forked", '"ask"'),
    "fork_clock": ("Forked", ""),
    "programs": ("ModelReplied", "program_step"),
    "orchestrator": ("Delegate", "hints"),
}
"""A kind of message, and a part of it, that only the sessions of a feature have."""


def log_of(*names: str) -> list[Event]:
    """Run a session in the order in which its ports and actors have work, and return its log."""
    worlds, _ = hunted(of_features(*names))
    world = worlds().run()
    return world.sessions["a"].log if isinstance(world, CapacityWorld) else world.log


def shows(name: str, log: list[Event]) -> bool:
    kind, part = SHOWS[name]
    return any(event.kind == kind and part in encode(event.body).decode() for event in log)


@table("name", FEATURES)
def test_a_feature_shows_in_the_log_of_its_session_and_not_without_it(name: str) -> None:
    assert shows(name, log_of(name))
    assert not shows(name, log_of())


@table("pair", PAIRS[:: effort(37, 1)], ids="+".join)
def test_both_features_of_a_pair_show(pair: tuple[str, str]) -> None:
    log = log_of(*pair)
    assert [name for name in pair if not shows(name, log)] == []
