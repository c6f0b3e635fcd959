"""Several models for one agent: after a failure of one, the agent asks the next.

A `Fallback` is not a model and calls none. It says which models an agent may ask, and becomes data in the
agent's profile; the agent itself decides (actors/agent/fallback.py), and each attempt is an event.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, get_args

from msgspec.structs import replace

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.failures import PASSING, FailureKind
from callboard.actors.protocol.near_names import near_or_all
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.models.protocol import Model, is_model, model_named

MODELS_MAX: Final = 16
_KINDS: Final[tuple[str, ...]] = get_args(FailureKind)


class Fallback:
    """Models to ask in this order, each after a failure of the previous one.

    models: two or more, or their names. on: the kinds of failures after which the next one is asked; also
    "context_full" and "refusal", which it does not hold unless you name them.

    A turn begins with the model that answered last, and each ask with the first. The attempts of all models
    count together against `Limits(max_model_attempts=...)`. Raises MisuseError for models and kinds that
    cannot work, UnknownName for a model's name that no installed provider knows.

    >>> from callboard import Fallback, ScriptedModel
    >>> Fallback([ScriptedModel([], name="large"), ScriptedModel([], name="small")])
    Fallback(['large', 'small'])
    """

    def __init__(self, models: Sequence[Model | str], *, on: Iterable[FailureKind] = PASSING) -> None:
        self.models = _models(models)
        self.on = _kinds(on)

    def __repr__(self) -> str:
        return f"Fallback({[one.spec.name for one in self.models]})"

    @property
    def spec(self) -> ModelSpec:
        """Return the first model's spec, which contains the others'."""
        first, *others = (one.spec for one in self.models)
        return replace(first, fallback=tuple(others), fallback_on=self.on)


ModelChoice: TypeAlias = Model | Fallback
"""A model, or several to ask one after the other."""


def models_of(choice: ModelChoice | None) -> tuple[Model, ...]:
    """Return the models that may be asked."""
    if choice is None:
        return ()
    return choice.models if isinstance(choice, Fallback) else (choice,)


def model_or_name(model: object) -> ModelChoice | None:
    """Return a model, or the one of this name. Raises MisuseError for another object, UnknownName."""
    if model is None or isinstance(model, Fallback) or is_model(model):
        return model
    if isinstance(model, str):
        return model_named(model)
    raise MisuseError(
        f"model={model!r:.80} is not a model; pass AnthropicModel(...), a name such as "
        '"anthropic:claude-sonnet-5", or a Fallback([...]) of several'
    )


def _models(given: object) -> tuple[Model, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise MisuseError(f"Fallback takes a list of models, not {given!r:.80}")
    models = tuple(map(_model, given))
    if not 2 <= len(models) <= MODELS_MAX:
        raise MisuseError(f"a Fallback has 2 to {MODELS_MAX} models, not {len(models)}")
    names = [one.spec.name for one in models]
    if len(set(names)) < len(names):
        raise MisuseError(f"a Fallback asks each model once, and two of {names} have one name; rename one")
    return models


def _model(given: object) -> Model:
    model = model_or_name(given)
    if model is None or isinstance(model, Fallback):
        raise MisuseError("a Fallback holds models, and no other Fallback: name all models in one list")
    if model.spec.is_free:
        raise MisuseError(f"{model.spec.name!r} cannot stand in a Fallback, which holds models of services")
    return model


def _kinds(given: object) -> tuple[FailureKind, ...]:
    named = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    for one in named:
        if one not in _KINDS:
            raise MisuseError(f"Fallback(on=...) has no kind {one!r:.40}{near_or_all(str(one), _KINDS)}")
    if not named:
        raise MisuseError(f"Fallback(on=...) names kinds of failures: {', '.join(_KINDS)}")
    return tuple(kind for kind in get_args(FailureKind) if kind in named)
