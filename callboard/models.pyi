# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.actors.protocol.immutable import Json as Json
from callboard.actors.protocol.profiles import ModelSpec as ModelSpec
from callboard.actors.protocol.profiles import Prices as Prices
from callboard.actors.protocol.profiles import PriceTier as PriceTier
from callboard.actors.protocol.repairs import InputRules as InputRules
from callboard.actors.protocol.translation import Unsayable as Unsayable
from callboard.actors.protocol.value_types import ModelFailure as ModelFailure
from callboard.runtime.models.protocol import Model as Model
from callboard.runtime.models.protocol import ModelAnswer as ModelAnswer
from callboard.runtime.models.protocol import OnText as OnText
from callboard.runtime.models.translator import Translator as Translator
from callboard.runtime.models.translator import unsayable as unsayable
from callboard.runtime.programs.model_reply import ModelReply as ModelReply

__all__ = [
    "InputRules",
    "Json",
    "Model",
    "ModelAnswer",
    "ModelFailure",
    "ModelReply",
    "ModelSpec",
    "OnText",
    "PriceTier",
    "Prices",
    "Translator",
    "Unsayable",
    "unsayable",
]
