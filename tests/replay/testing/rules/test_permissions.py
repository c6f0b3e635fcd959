"""The rules of rights and labels hold of good sessions, and fire on logs that are damaged for each."""

from collections.abc import Callable

from msgspec.structs import replace

from callboard.actors.protocol.bundles import Allowed, Denied, Rights
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.layers import SESSION, Layer
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded, Told, TurnRequested
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.uses import Use
from callboard.replay.testing.rules.base import Invariant
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.permissions import Labelled, Permissions
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants import scenarios_rights as rights
from tests.replay.testing.edited_logs import Log, Which, edited, find, of_kind
from tests.tables import table


def log_of(scenario: Scenario) -> Log:
    return list(SessionWorld(scenario).run().log)


TREE, MODELS = log_of(rights.narrowed_trees()), log_of(rights.denied_models())
LINE, DOWN, WORDS = map(
    log_of, (rights.labels_in_line(), rights.labels_of_delegations(), rights.labels_of_words())
)
REACH = log_of(rights.used_rights())


def at(seq: int) -> Which:
    return lambda event: event.seq == seq


def first(log: Log, which: Which) -> Which:
    return at(find(log, which).seq)


def narrowed(log: Log, layer: Layer) -> Log:
    """Return the log as if its session had had another layer of rights, which every Begin has too."""
    opened = log[0].body
    assert isinstance(opened, SessionOpened)
    log = edited(log, at(1), permissions=(*opened.permissions, layer))
    return [
        edited([event], at(event.seq), permissions=(layer, *event.body.permissions))[0]
        if isinstance(event.body, Begin)
        else event
        for event in log
    ]


def denying(**entries: tuple[str, ...]) -> Layer:
    return Layer(SESSION, Rights(denied=Denied(**entries)))


def labelled(event: Event) -> bool:
    return isinstance(event.body, CallTool) and bool(event.body.labels)


def fetching(event: Event) -> bool:
    return isinstance(event.body, CallTool) and event.body.tool == "fetch"


def reading(event: Event) -> bool:
    body = event.body
    return isinstance(body, ToolReturned) and any(one.entry == "read" and one.labels for one in body.uses)


def without_labels_of_files() -> Log:
    """Let no tool state the labels of the files that it reads."""
    return [_unlabelled(event) if reading(event) else event for event in REACH]


def _unlabelled(event: Event) -> Event:
    assert isinstance(event.body, ToolReturned)
    uses = tuple(replace(one, labels=()) if one.entry == "read" else one for one in event.body.uses)
    return replace(event, body=replace(event.body, uses=uses))


def with_uses(log: Log, *uses: Use) -> Log:
    return edited(log, first(log, of_kind(ToolReturned)), uses=uses)


_Case = tuple[type[Invariant], Callable[[], Log], str]

DAMAGED: dict[str, _Case] = {
    "wider rights": (
        Permissions,
        lambda: edited(TREE, of_kind(Begin, "host.1"), permissions=()),
        "begins with other rights than the bundles above it leave",
    ),
    "a denied model": (
        Permissions,
        lambda: edited(MODELS, first(MODELS, of_kind(Begin, "host.2")), model=ModelSpec("big", 100)),
        "begins with model big, which it may not use",
    ),
    "a denied tool": (
        Permissions,
        lambda: narrowed(TREE, denying(tools=("look", "fetch", "save"))),
        "and may not use",
    ),
    "a denied effect": (
        Permissions,
        lambda: narrowed(TREE, denying(effects=("read", "write"))),
        "and may not use read",
    ),
    "a denied capability": (
        Permissions,
        lambda: narrowed(LINE, denying(capabilities=("network",))),
        "and may not use network",
    ),
    "a denied agent": (
        Permissions,
        lambda: narrowed(DOWN, Layer(SESSION, Rights(Allowed(agents=())))),
        "may not delegate to",
    ),
    "a denied host": (
        Permissions,
        lambda: with_uses(REACH, Use("hosts", "https://evil.test:443")),
        "uses https://evil.test:443 (hosts), and may not",
    ),
    "a denied path": (
        Permissions,
        lambda: with_uses(REACH, Use("write", "etc/passwd", "1")),
        "uses etc/passwd (write), and may not",
    ),
    "a denied secret": (
        Permissions,
        lambda: with_uses(REACH, Use("secrets", "OTHER")),
        "uses OTHER (secrets), and may not",
    ),
    "a denied memory": (
        Permissions,
        lambda: with_uses(REACH, Use("memory", "shared")),
        "uses shared (memory), and may not",
    ),
    "labels left out by a call": (
        Labelled,
        lambda: edited(LINE, first(LINE, labelled), labels=()),
        "and does not say so",
    ),
    "labels left out by a delegation": (
        Labelled,
        lambda: edited(DOWN, lambda one: isinstance(one.body, Delegate) and bool(one.body.labels), labels=()),
        "and does not say so",
    ),
    "labels left out by a request": (
        Labelled,
        lambda: edited(LINE, of_kind(TurnRequested), labels=()),
        "and does not say so",
    ),
    "labels left out at the beginning": (
        Labelled,
        lambda: edited(DOWN, lambda one: isinstance(one.body, Begin) and bool(one.body.labels), labels=()),
        "begins with labels ()",
    ),
    "labels left out at the end": (
        Labelled,
        lambda: edited(DOWN, lambda one: isinstance(one.body, DelegationEnded), labels=()),
        "without",
    ),
    "labels left out of words": (
        Labelled,
        lambda: edited(WORDS, of_kind(Told), labels=()),
        "is told words without their labels",
    ),
    "a call against a label rule": (
        Labelled,
        lambda: edited(LINE, first(LINE, fetching), labels=("untrusted",)),
        "for network, and has read untrusted",
    ),
    "a use against a label rule": (
        Labelled,
        lambda: with_uses(
            REACH, Use("read", "docs/z", "1", ("untrusted",)), Use("hosts", "https://a.example:443")
        ),
        "uses https://a.example:443, and has read untrusted",
    ),
    "a file read without its labels": (Labelled, without_labels_of_files, "without its labels"),
}


@table("name", DAMAGED)
def test_a_log_that_breaks_a_rule_of_rights_or_labels_is_found(name: str) -> None:
    kind, damaged, why = DAMAGED[name]
    found = check_log(damaged(), kinds=(kind,))
    assert any(why in str(one) for one in found), found


@table("log", [TREE, MODELS, LINE, DOWN, WORDS], ids=["tree", "models", "line", "down", "words"])
def test_the_sessions_themselves_break_no_rule(log: Log) -> None:
    assert check_log(log, kinds=(Permissions, Labelled)) == []
