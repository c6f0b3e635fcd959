"""Rights of agents: bundles, rules for labels, and the uses that a tool declares."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "actors.protocol.bundles": ("Allowed", "Bundle", "Denied", "LabelRule"),
    "actors.session.permissions": ("Permission",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
