"""Kinds of failed model calls: a fixed set, under which the codes of all services fall.

A code is the service's own error type, `http_<status>` where it names none, or one of our own. A fallback
lists the kinds after which another model is asked. The error of a request that no model would take, such as
a bad parameter or a wrong key, has no kind.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

PassingKind: TypeAlias = Literal[
    "rate_limit",
    "overload",
    "connection",
    "timeout",
    "broken_stream",
    "server_error",
]
FailureKind: TypeAlias = Literal[PassingKind, "context_full", "refusal"]
"""The kind of a failed model call. `refusal`: the model answered, and refused."""

PASSING: Final[tuple[FailureKind, ...]] = get_args(PassingKind)
"""The kinds that say nothing about the request. A fallback lists them unless it says otherwise."""

_KINDS: Final[Mapping[str, FailureKind]] = MappingProxyType(
    {
        "rate_limit": "rate_limit",
        "rate_limit_error": "rate_limit",
        "http_429": "rate_limit",
        "overloaded": "overload",
        "overloaded_error": "overload",
        "http_503": "overload",
        "http_529": "overload",
        "connection": "connection",
        "timeout": "timeout",
        "timeout_error": "timeout",
        "http_408": "timeout",
        "http_504": "timeout",
        "http_524": "timeout",
        "http_499": "timeout",
        "broken_stream": "broken_stream",
        "api_error": "server_error",
        "server_error": "server_error",
        "context_full": "context_full",
    }
)


_BAD_REQUESTS: Final = frozenset(
    {
        "invalid_request_error",
        "bad_request",
        "bad_request_error",
        "BadRequestError",  # vLLM, LiteLLM
        "INVALID_ARGUMENT",  # Google
        "ValidationException",  # AWS
        "http_400",
        "http_422",
    }
)
_OTHER_FAULTS: Final = ("nothing was sent", "credit balance", "billing", "api key", "quota")
"""Words of bad requests that no other conversation would cure: some services answer so without a type."""


def is_refused_request(code: str, message: str = "") -> bool:
    """Return True for a failure that the conversation in the request may have caused."""
    if code not in _BAD_REQUESTS:
        return False
    words = message.lower()
    return not any(mark in words for mark in _OTHER_FAULTS)


def kind_of(code: str) -> FailureKind | None:
    """Return the kind of a failure with this code; None for one of no kind, such as a bad request."""
    kind = _KINDS.get(code)
    if kind is None and code.startswith("http_5"):
        return "server_error"
    return kind
