"""Fallback: after some failures of a model, an agent asks the next model of its profile.

Rules
  - The models stand in a ring. After a failure of a listed kind the agent asks the next one at once.
  - A round is over when each model has failed once. Then the agent waits, and asks the model that it may
    ask soonest: each has its back-off, or the wait that its service asked for.
  - A model whose failure no wait can cure, such as a refusal, is not asked again in the same turn.
  - A failure of any other kind is handled as without a fallback: the same model is tried again, or the agent
    ends. A call that the end of a process cut off asks the same model.
  - `max_model_attempts` counts the attempts of all models.
  - A turn begins with the model that answered last; an ask begins with the first one.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.failures import FailureKind
from callboard.actors.protocol.media import NO_MEDIA, Media
from callboard.actors.protocol.profiles import ModelSpec

NOT_AGAIN: Final = -1


class Fallback(msgspec.Struct, frozen=True, gc=False):
    """The models of an agent that has several, and the bound on its input for any of them.

    An agent with one model has these books too if its input cannot be bounded without them.

    specs: the models, the first one first. on: the kinds of failures after which the next one is asked.
    place: of the model that is asked now.
    input_bytes, media: of the whole conversation. is_open: it holds a linked image or file for which no most
        is known and that no count includes yet (`input_bound.py`).
    failed: of each model, the milliseconds to wait after its failure in this round; 0 for no failure,
        NOT_AGAIN for one that no wait cures. Empty if none has failed in this turn.
    """

    specs: tuple[ModelSpec, ...]
    on: tuple[FailureKind, ...]
    place: int = 0
    failed: tuple[int, ...] = ()
    input_bytes: int = 0
    media: Media = NO_MEDIA
    is_open: bool = False

    @property
    def spec(self) -> ModelSpec:
        """Return the model that is asked now."""
        return self.specs[self.place]

    @property
    def name(self) -> str:
        """Return the name of that model, as a request for a turn states it."""
        return self.spec.name if self.place else ""


class Next(NamedTuple):
    """The next model to ask: the fallback at its place, and the milliseconds to wait before."""

    fallback: Fallback
    wait_ms: int


def first_of(model: ModelSpec) -> tuple[ModelSpec, Fallback | None]:
    """Return the model that an agent asks first, and its fallback if its state needs one."""
    if not (model.fallback or model.checks_usage or model.overhead_tokens):
        return model, None
    specs = (replace(model, fallback=(), fallback_on=()), *model.fallback)
    return specs[0], Fallback(specs, model.fallback_on)


def at_new_turn(fallback: Fallback | None) -> Fallback | None:
    """Return the fallback at the start of a turn: at the model that answered last, without failures."""
    return replace(fallback, failed=()) if fallback is not None and fallback.failed else fallback


def after_failure(fallback: Fallback, wait_ms: int) -> Next | None:
    """Return the next model to ask after a failure of the present one; None if no model is left.

    wait_ms: before the present one may be asked again, NOT_AGAIN for never in this turn.
    """
    place, failed = fallback.place, list(fallback.failed or (0,) * len(fallback.specs))
    failed[place] = wait_ms
    ahead = (*range(place + 1, len(failed)), *range(place + 1))
    for unasked in ahead:
        if not failed[unasked]:
            return Next(replace(fallback, place=unasked, failed=tuple(failed)), 0)
    return _next_round(fallback, failed, ahead)


def _next_round(fallback: Fallback, failed: Sequence[int], ahead: Iterable[int]) -> Next | None:
    """Return the first model of another round; None if no wait cures the failure of any. ahead: the order."""
    left = [place for place in ahead if failed[place] != NOT_AGAIN]
    if not left:
        return None
    soonest = min(left, key=failed.__getitem__)
    lasting = tuple(NOT_AGAIN if wait == NOT_AGAIN else 0 for wait in failed)
    return Next(replace(fallback, place=soonest, failed=lasting), failed[soonest])
