"""The failure of a call whose answer has come and cannot be read.

    the answer                                         another attempt          charge
    came whole, with status 200                        unless the same came     its usage; nothing, if it
                                                       twice                    reports none
    is a page                                          by the schedule          the same
    broke off, or its rest did not come                by the schedule          unknown: the reservation

The digest in the failure tells the agent whether the same came twice. A page has none: a proxy shows one
while its service is starting.
"""

from typing import TYPE_CHECKING

from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models.answer_bodies import digest_of, documents_of, usage_in
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.service_errors import UNREPORTED

if TYPE_CHECKING:
    from callboard.runtime.models.watched import Watched


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
