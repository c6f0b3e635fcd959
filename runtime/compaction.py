"""`Compact`: the wish that the conversation of an agent is shortened before it fills its model's window."""

import math
from typing import TYPE_CHECKING

from callboard.actors.protocol.errors import InvalidAgent
from callboard.actors.protocol.profiles import CompactRules
from callboard.runtime.models.fallback import Fallback, model_or_name
from callboard.runtime.models.function import FunctionModel
from callboard.runtime.sanitize import clean_text

if TYPE_CHECKING:
    from callboard.runtime.models.function import Answers
    from callboard.runtime.models.protocol import Model


class Compact:
    """Rules by which the conversation of an agent is shortened (docs/compaction.md).

    at: the share of the model's window that the next request may need before the conversation is shortened.
    keep_turns: the last turns that stay as they are.
    summarise: False if old results are cleared and nothing is summarised.
    instructions: to the model that writes a summary, instead of callboard's own.
    model: writes the summaries, a model or its name; None for the agent's own.
    by: a function that writes the summaries instead of a model. It takes the request for a summary, whose
        `conversation` is to be summarised and ends with the instructions, and returns a text; plain, on a
        thread, or async. It costs nothing, and its answers are in the log, so a replay does not call it.

    Raises InvalidAgent for rules that cannot work, UnknownName for a model's name that no provider knows.

    >>> Compact(at=0.7).rules.percent
    70
    """

    def __init__(
        self,
        *,
        at: float = 0.8,
        keep_turns: int = 4,
        summarise: bool = True,
        instructions: str = "",
        model: "Model | str | None" = None,
        by: "Answers | None" = None,
    ) -> None:
        if not isinstance(at, int | float) or not math.isfinite(at) or not 0.05 <= at <= 1:
            raise InvalidAgent(f"Compact(at=...) is a share of the window from 0.05 to 1, not {at!r:.40}")
        if type(keep_turns) is not int or not 1 <= keep_turns <= 1_000:
            raise InvalidAgent(f"Compact(keep_turns=...) is a number from 1 to 1,000, not {keep_turns!r:.40}")
        if not isinstance(instructions, str):
            raise InvalidAgent(f"Compact(instructions=...) is a text, not {instructions!r:.40}")
        if not isinstance(summarise, bool):
            raise InvalidAgent(f"Compact(summarise=...) is True or False, not {summarise!r:.40}")
        self.model = _one_model(model) if by is None else _function(by, model, instructions, summarise)
        self.rules = CompactRules(
            percent=round(at * 100),
            keep=keep_turns,
            instructions=clean_text(instructions),
            model=None if self.model is None else self.model.spec,
            has_summaries=summarise,
        )

    @staticmethod
    def as_recorded(rules: CompactRules) -> "Compact":
        """Return the rules that a log holds. Raises UnknownName for the name of its model."""
        return Compact(
            at=rules.percent / 100,
            keep_turns=rules.keep,
            summarise=rules.has_summaries,
            instructions=rules.instructions,
            model=None if rules.model is None else rules.model.name,
        )

    def __repr__(self) -> str:
        return f"Compact(at={self.rules.percent / 100})"


def _function(by: "Answers", model: object, instructions: str, summarise: bool) -> "Model":
    if not callable(by):
        raise InvalidAgent(f"Compact(by=...) is a function that returns a summary, not {by!r:.40}")
    if model is not None or instructions or not summarise:
        raise InvalidAgent("Compact(by=...) takes neither model= nor instructions= nor summarise=False")
    return FunctionModel(by)


def _one_model(given: "Model | str | None") -> "Model | None":
    found = model_or_name(given)
    if isinstance(found, Fallback):
        raise InvalidAgent("Compact(model=...) is one model, not a Fallback")
    return found
