"""Permission bundles: the tools, capabilities, files, hosts, models and agents that an agent may use.

    Bundle(
        do=Allowed(tools=("read_file", "search"), capabilities=("network",), hosts=("api.example.com",)),
        delegate=Allowed(tools=("read_file",)),
        deny=Denied(capabilities=("shell",)),
        when=(LabelRule("untrusted", "network"),),
    )

Rules
  - An entry that is not stated allows everything, an empty one nothing. An agent has no more than every
    bundle above it allows: `narrow` is the one way in which two sets of rights become one.
  - `do` are the rights of the agent itself, `delegate` those that its sub-agents may have. They need not
    contain each other. `delegate` is `do` unless it is stated.
  - Denials and label rules hold for the agent and for every agent below it.
  - Paths and hosts have no denials: a file and a machine have many names, so only a list of the allowed ones
    can be trusted.
  - Limits have their own way down (`limits.py`).
"""

from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.bundle_entries import KINDS, common, covers, listed, name_entry
from callboard.actors.protocol.immutable import Part, Value
from callboard.actors.protocol.near_names import NamedFields

Names: TypeAlias = tuple[str, ...]

UNTRUSTED: Final = "untrusted"
"""The label of results from unknown authors, such as web pages."""

UNKNOWN: Final = "unknown"
"""The label of a file that was changed by an unknown hand."""


class Denied(Value, frozen=True, metaclass=NamedFields):
    """Names that an agent and the agents below it may not use. The entries are those of `Allowed`.

    Raises ValueError for an entry that cannot be read.
    """

    tools: Names = ()
    effects: Names = ()
    capabilities: Names = ()
    models: Names = ()
    agents: Names = ()
    secrets: Names = ()
    memory: Names = ()

    def __post_init__(self) -> None:
        for entry in Denied.__struct_fields__:
            if (given := getattr(self, entry)) != ():
                msgspec.structs.force_setattr(self, entry, listed(entry, given))


class Allowed(Value, frozen=True, metaclass=NamedFields):
    """A set of rights. For an entry, None allows everything and an empty tuple nothing.

    tools: the names of the agent's own tools. effects: of tools. capabilities: that tools need. models: the
    names of models. agents: the agents to delegate to. secrets, memory: the names of secrets and of memories.
    read, write: paths below the session's root; each is a prefix. hosts: the places in the network.
    Names may end with a `*`. Raises ValueError for an entry that cannot be read.
    """

    tools: Names | None = None
    effects: Names | None = None
    capabilities: Names | None = None
    models: Names | None = None
    agents: Names | None = None
    secrets: Names | None = None
    memory: Names | None = None
    read: Names | None = None
    write: Names | None = None
    hosts: Names | None = None

    def __post_init__(self) -> None:
        for entry in KINDS:
            if (given := getattr(self, entry)) is not None:
                msgspec.structs.force_setattr(self, entry, listed(entry, given))


class LabelRule(Value, frozen=True, metaclass=NamedFields):
    """A policy: an agent that has read something with this label may not call tools with this capability.

    deny: the name of a capability; it may end with a `*`. Raises ValueError for a name that cannot be read.
    """

    label: str
    deny: str

    def __post_init__(self) -> None:
        if name_entry(self.label).endswith("*"):
            raise ValueError(f"a rule is for one label, not for {self.label!r}")
        name_entry(self.deny)


EVERYTHING: Final = Allowed()
NO_DENIALS: Final = Denied()


class Rights(Part, frozen=True):
    """The rights of an agent, or those that one bundle leaves it."""

    allowed: Allowed = EVERYTHING
    denied: Denied = NO_DENIALS
    rules: tuple[LabelRule, ...] = ()

    def permits(self, entry: str, name: str) -> bool:
        """Return True if an agent with these rights may use this name. entry: a field of `Allowed`."""
        allowed = getattr(self.allowed, entry)
        if allowed is not None and not covers(entry, allowed, name):
            return False
        denied = getattr(self.denied, entry, ())
        return not denied or not covers(entry, denied, name)

    def label_against(self, capability: str, labels: Names) -> str:
        """Return the label for which these rights deny a capability; empty if they deny it for none."""
        for rule in self.rules:
            if rule.label in labels and covers("capabilities", (rule.deny,), capability):
                return rule.label
        return ""


FULL: Final = Rights()
"""The rights where no bundle was given."""


class Bundle(Part, frozen=True, metaclass=NamedFields):
    """A permission bundle, of an agent, a session or a runtime.

    do: the rights of the agent. delegate: those of the agents below it; None for the same as `do`.
    deny: of the agent and all below. when: the rules of labels, for the same agents.
    """

    do: Allowed = EVERYTHING
    delegate: Allowed | None = None
    deny: Denied = NO_DENIALS
    when: tuple[LabelRule, ...] = ()

    @property
    def own(self) -> Rights:
        """Return the rights that the bundle leaves its agent."""
        return Rights(self.do, self.deny, self.when)

    @property
    def below(self) -> Rights:
        """Return the rights that the bundle leaves the agents below its agent."""
        return Rights(self.do if self.delegate is None else self.delegate, self.deny, self.when)


NO_BUNDLE: Final = Bundle()


def narrow(wide: Rights, own: Rights) -> Rights:
    """Return the rights that both leave: what both allow, and neither denies."""
    return Rights(
        _allowed_by_both(wide.allowed, own.allowed),
        _denied_by_either(wide.denied, own.denied),
        _rules(wide.rules, own.rules),
    )


def _rules(one: tuple[LabelRule, ...], other: tuple[LabelRule, ...]) -> tuple[LabelRule, ...]:
    """Return the rules of both in one order, each once."""
    return tuple(sorted(dict.fromkeys((*one, *other)), key=lambda rule: (rule.label, rule.deny)))


def _allowed_by_both(one: Allowed, other: Allowed) -> Allowed:
    both = {}
    for entry in KINDS:
        mine, theirs = getattr(one, entry), getattr(other, entry)
        both[entry] = theirs if mine is None else mine if theirs is None else common(entry, mine, theirs)
    return Allowed(**both)


def _denied_by_either(one: Denied, other: Denied) -> Denied:
    return Denied(**{name: (*getattr(one, name), *getattr(other, name)) for name in Denied.__struct_fields__})
