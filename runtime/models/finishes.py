"""The end of an answer: in the words of services, while it comes in, and where it cannot be read.

The failure of a call whose answer has come and cannot be read.

    the answer                                         another attempt          charge
    came whole, with status 200                        unless the same came     its usage; nothing, if it
                                                       twice                    reports none
    is a page                                          by the schedule          the same
    broke off, or its rest did not come                by the schedule          unknown: the reservation

The digest in the failure tells the agent whether the same came twice. A page has none: a proxy shows one
while its service is starting.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.answer_bodies import (
    digest_of,
    documents_of,
    squeezed,
    usage_in,
)
from callboard.runtime.models.failures import (
    UNREPORTED,
    CallFailed,
)
from callboard.runtime.models.protocol import OnText
from callboard.runtime.secrets.stream_buffer import StreamBuffer

if TYPE_CHECKING:
    from callboard.runtime.models.watched import Watched

_TELL: Final = "tell_usage"


class LiveAnswer:
    """The `on_text` of one call. usage: what the stream has told so far.

    buffer_of: makes the buffer for the text of a call, from the seq of its grant and its request. It is
    called with the first piece.
    """

    # Ten thousand calls may wait at once: no dict, and no buffer before there is text (0.3 KiB a call).
    __slots__ = ("_buffer_of", "_grant", "_request", "_text", "usage")

    def __init__(
        self, buffer_of: Callable[[int, ModelRequest], StreamBuffer], grant: int, request: ModelRequest
    ) -> None:
        self.usage = ZERO
        self._buffer_of = buffer_of
        self._grant = grant
        self._request = request
        self._text: StreamBuffer | None = None

    def __call__(self, piece: str) -> None:
        """Pass a piece of text on."""
        if self._text is None:
            self._text = self._buffer_of(self._grant, self._request)
        self._text.take(piece)

    def tell_usage(self, usage: Usage) -> None:
        """Keep the usage of the call so far."""
        self.usage = usage

    def end(self) -> None:
        """Show the rest of the text."""
        if self._text is not None:
            self._text.end()


def tell_usage(on_text: OnText, usage: Usage | None) -> None:
    """Tell the usage of a call so far, which it is charged if the process ends before its answer.

    on_text: as the model got it. usage: None if it is not known yet.
    """
    tell = getattr(on_text, _TELL, None)
    if tell is not None and usage is not None:
        tell(usage)


def unreadable(
    what: str, answer: "Watched", usage: Usage | None = None, *, code: str = "garbage", is_page: bool = False
) -> CallFailed:
    """Return the failure of an answer. what: is wrong with it. usage: as far as a reader has found it."""
    if not answer.is_whole:
        return CallFailed(ModelFailure(code, what, is_retryable=True), usage)
    body = answer.body
    digest = "" if is_page or body is None else digest_of(body)
    if code == "garbage":  # a stream that ended too early has not reported all of its usage
        usage = usage or usage_in(documents_of(answer.end)) or UNREPORTED
    return CallFailed(ModelFailure(code, what, is_retryable=True, digest=digest), usage)


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
