"""Permission bundles as users write them: checked, and turned into the layers of a session."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from callboard.actors.protocol.bundle_entries import covers
from callboard.actors.protocol.bundles import NO_BUNDLE, UNKNOWN, UNTRUSTED, Bundle, Rights
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.layers import RUNTIME, SESSION, Layers, added
from callboard.actors.protocol.near_names import near_names
from callboard.runtime.agent import Agent

CAPABILITIES: Final = frozenset({"network", "shell", "memory", "files", "secrets"})
"""The capabilities that a bundle may always name; tools may declare others."""

LABELS: Final = frozenset({UNTRUSTED, UNKNOWN, "secret"})
"""The labels that a rule may always name; tools may state others."""


def bundle_of(permissions: object) -> Bundle:
    """Return the given bundle, or one that bounds nothing. Raises MisuseError for any other object."""
    if permissions is not None and not isinstance(permissions, Bundle):
        raise MisuseError(f"permissions={permissions!r:.80}: use Bundle(do=Allowed(...))")
    return permissions or NO_BUNDLE


def session_layers(runtime: Bundle, session: Bundle) -> Layers:
    """Return the layers of a session. Raises MisuseError for a bundle that says what to delegate."""
    layers: Layers = ()
    for by, bundle in ((RUNTIME, runtime), (SESSION, session)):
        if bundle.delegate is not None:
            raise MisuseError(f"the bundle of {by} bounds every agent alike: leave out `delegate`")
        layers = added(layers, by, bundle.own)
    return layers


def refuse_unknown(agents: Mapping[str, Agent], layers: Layers) -> None:
    """Refuse a capability that no tool of these agents declares, since its rule would protect nothing.

    Warns of a label that no tool states, which only a client could give. Raises UnknownName.
    """
    specs = [tool.spec() for one in agents.values() for tool in one.all_tools]
    sources = [source for one in agents.values() for source in one.sources]
    capabilities = CAPABILITIES.union(*(spec.capabilities for spec in specs), *(s.may_need for s in sources))
    labels = LABELS.union(*(spec.labels for spec in specs), *(source.may_label for source in sources))
    for by, rights in _bundles(agents, layers):
        for capability in _capabilities(rights):
            _refuse_unknown_capability(capability, by, capabilities)
        for rule in rights.rules:
            _warn_of_label(rule.label, by, labels)


def _warn_of_label(label: str, by: str, known: frozenset[str]) -> None:
    if label not in known:
        near = near_names(label, sorted(known))
        warnings.warn(
            f"{by} has a rule for the label {label!r}, which no tool states{near}; "
            "it holds for labels of `ask`, `tell`, approvals and files only",
            stacklevel=2,
        )


def _bundles(agents: Mapping[str, Agent], layers: Layers) -> Iterator[tuple[str, Rights]]:
    yield from ((layer.by, layer.rights) for layer in layers)
    for name, agent in agents.items():
        if agent.permissions is not NO_BUNDLE:
            yield f"agent {name}", agent.permissions.own
            yield f"agent {name}", agent.permissions.below


def _capabilities(rights: Rights) -> Iterator[str]:
    yield from rights.allowed.capabilities or ()
    yield from rights.denied.capabilities
    yield from (rule.deny for rule in rights.rules)


def _refuse_unknown_capability(name: str, by: str, known: Iterable[str]) -> None:
    if not any(covers("capabilities", (name,), one) for one in known):
        raise UnknownName(
            f"{by} names the capability {name!r}, which no tool declares{near_names(name, sorted(known))}; "
            f"there are: {', '.join(sorted(known))}"
        )
