"""The failures of calls of the Messages API: its error documents, and the exceptions of the SDK.

The code of a failure is the service's own type of the error, and `http_<status>` where it names none, unless
its words are those of an error that has a code of ours, such as a full context. Retry, wait and cost are
those of `service_errors`. A stream with unknown parts is `unsupported_stream`, which is not tried again.
"""

from collections.abc import Mapping

from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.failure_text import failure_text
from callboard.runtime.models import failures
from callboard.runtime.models.failures import Answered, CallFailed, network_failure, timed_out, unconnected


def service_error(
    status: int, headers: Mapping[str, str], body: object, *, has_begun: bool = False
) -> CallFailed:
    """Return the error that a service reports, by a status or inside an answer of status 200.

    body: the decoded error document, or any other body as text. has_begun: in a 200 answer, tokens may have
    been made.
    """
    return failures.service_error(Answered(status, headers, body, has_begun, keeps_type=True))


def failure_of(error: Exception) -> CallFailed:
    """Convert any exception of the SDK, its HTTP client or our own code to a CallFailed."""
    import anthropic

    if isinstance(error, CallFailed):
        return error
    if isinstance(error, anthropic.APIStatusError):
        return service_error(error.status_code, error.response.headers, error.body)
    if isinstance(error, anthropic.APITimeoutError):
        return timed_out(error)
    if isinstance(error, anthropic.APIConnectionError):
        return unconnected(error)
    if (failed := network_failure(error)) is not None:
        return failed
    return CallFailed(ModelFailure("model_crashed", f"the model's own code failed: {failure_text(error)}"))
