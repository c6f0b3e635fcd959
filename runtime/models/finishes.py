"""The words of services for the end of an answer, read as the stop reasons of the Messages API.

Only errors, cut answers and refusals are listed. Each other word is an end: services make up their own, such
as `STOP`, `eos`, `COMPLETE`, and a whole answer with an unknown one is whole. Names are without case and
punctuation.
"""

from collections.abc import Mapping
from typing import Final

from callboard.runtime.models.error_documents import squeezed

_CUT: Final = {
    "length", "maxtokens", "maxoutputtokens", "maxlength", "modellength", "tokenlimit", "continuation",
    "maxnewtokens", "maxcompletiontokens", "outputlimit", "errorlimit", "nokvspace",
}  # fmt: skip
_REFUSED: Final = {
    "contentfilter", "contentfiltered", "guardrailintervened", "refusal", "safety", "recitation", "blocklist",
    "prohibitedcontent", "spii", "imagesafety", "imageprohibitedcontent", "imagerecitation", "modelarmor",
    "sensitive", "errortoxic", "moderation", "blocked", "contentpolicyviolation", "violation",
}  # fmt: skip
_FULL: Final = {"modelcontextwindowexceeded", "contextwindowexceeded", "contextlengthexceeded", "contextfull"}

STOP_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_CUT, "max_tokens"),
    **dict.fromkeys(_REFUSED, "refusal"),
    **dict.fromkeys(_FULL, "model_context_window_exceeded"),
}

ERRORS: Final[Mapping[str, str]] = {
    "error": "api_error",  # OpenRouter, Cohere
    "failed": "api_error",  # Responses
    "cancelled": "api_error",  # Responses
    "canceled": "api_error",
    "usercancel": "api_error",  # Cohere
    "abort": "api_error",  # vLLM, SGLang: the request was dropped from the queue
    "aborted": "api_error",
    "engineerror": "api_error",
    "networkerror": "api_error",  # Z.ai
    "timeout": "timeout_error",
    "insufficientsystemresource": "overloaded_error",  # DeepSeek
    "load": "overloaded_error",  # Ollama: the model was loaded, and made nothing
    "unload": "overloaded_error",
    # The model could not write a call or an answer: another attempt may have another outcome.
    "malformedfunctioncall": "garbage",  # Gemini
    "unexpectedtoolcall": "garbage",
    "toomanytoolcalls": "garbage",
    "missingthoughtsignature": "garbage",
    "malformedresponse": "garbage",
    "malformedmodeloutput": "garbage",  # Bedrock
    "malformedtooluse": "garbage",
    "language": "garbage",  # Gemini
    "noimage": "garbage",
    "imageother": "garbage",
    "other": "garbage",  # Gemini, of an empty answer
}
"""The words for an answer that failed, with the code of the failure."""


def stop_reason_of(word: str) -> str:
    """Return the stop reason that a word stands for; "" for a plain end, or a failure."""
    return STOP_REASONS.get(squeezed(word), "")


def error_of(word: str) -> str:
    """Return the code of the failure that a word stands for; "" for none."""
    return ERRORS.get(squeezed(word), "")
