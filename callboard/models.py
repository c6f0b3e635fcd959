"""Parts for the author of a model provider: the protocol, its answers, prices, and translation."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "actors.protocol.immutable": ("Json",),
    "actors.protocol.profiles": ("ModelSpec", "PriceTier", "Prices"),
    "actors.protocol.repairs": ("InputRules",),
    "actors.protocol.translation": ("Unsayable",),
    "actors.protocol.value_types": ("ModelFailure",),
    "runtime.models.protocol": ("Model", "ModelAnswer", "OnText"),
    "runtime.models.translator": ("Translator", "unsayable"),
    "runtime.programs.model_reply": ("ModelReply",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
