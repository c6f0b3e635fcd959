"""The rights of agents that begin: the layers that they are handed, and the delegations that these forbid.

Rules
  - A child has the rights that its parent hands down, narrowed by its own bundle.
  - An agent delegates to agents that its own rights permit. A child begins only with models that the child's
    rights permit: its first one and those of its fallback. The steps of a program need no model.
  - A question of a program to a model needs no right to delegate, and the right to that model.
"""

from callboard.actors.protocol.layers import Layers, layers_below, own_layers, refused_by
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.refusals import denied
from callboard.actors.supervisor.state import Record


def handed_by(parent: Record) -> Layers:
    """Return the layers that an agent hands down to its sub-agents."""
    return layers_below(parent.handed, parent.profile.name, parent.profile.permissions)


def agent_refusal(parent: Record, name: str) -> str:
    """Return the reason for which an agent may not delegate to another, in words; empty if it may."""
    by = refused_by(parent.permissions, "agents", name)
    return denied("agents", name, by) if by else ""


def child_refusal(parent: Record, child: Profile) -> str:
    """Return the reason for which a child may not use its models, in words; empty if it may."""
    layers = own_layers(handed_by(parent), child.name, child.permissions)
    return model_refusal(layers, child.own_model(parent.model))


def model_refusal(layers: Layers, model: ModelSpec) -> str:
    """Return the reason for which an agent may not use a model, in words; empty if it may."""
    if model.is_free or not layers:
        return ""
    for spec in model.all_specs:
        if by := refused_by(layers, "models", spec.name):
            return denied("models", spec.name, by)
    return ""
