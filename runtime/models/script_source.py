"""The model provider `scripted`: a script by the place where it stands, `scripted:module:attribute`."""

from importlib import import_module
from operator import attrgetter
from typing import cast

from callboard.actors.protocol.errors import UnknownName
from callboard.runtime.models.protocol import Model, is_model
from callboard.runtime.models.scripted import Policy, ScriptedModel


def scripted_model(source: str) -> Model:
    """Return the model of `module:attribute`: that object if it is a model, else a ScriptedModel of it.

    The model of a script is named after its source, so that several can be told apart in one log.
    Raises UnknownName if there is no such module or attribute, ScriptError for an object that is no script.
    """
    module, _, attribute = source.partition(":")
    try:
        found: object = attrgetter(attribute)(import_module(module))
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise UnknownName(
            f"model 'scripted:{source}': {error}; write scripted:MODULE:NAME, where NAME is a policy, a list "
            "of replies or a ScriptedModel"
        ) from error
    if is_model(found):
        return found
    return ScriptedModel(cast("Policy", found), name=f"scripted:{source}")  # which checks what it is given
