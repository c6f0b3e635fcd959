"""What an agent may do: bundles of rights, rules for labels, and what a tool declares that it uses."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "actors.protocol.bundles": ("Allowed", "Bundle", "Denied", "LabelRule"),
    "actors.session.permissions": ("Permission",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
