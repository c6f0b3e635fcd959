"""Protocols of common web front ends: AG-UI, and the UI message stream of Vercel's AI SDK."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.frontends.ag_ui": ("AGUI",),
    "runtime.frontends.front_end": ("FrontEnd", "FrontEndRequest", "GivenAnswer", "RunStream"),
    "runtime.frontends.ui_messages": ("UIMessages",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
