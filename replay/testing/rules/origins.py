"""Rules of conversations in which several models take part, held with the requests of `check_requests`."""

from typing import Final

from callboard.actors.protocol.conversation import is_by
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import Unsayable, is_all_own, messages_for

ORIGIN_RULES: Final = {
    "other-origin": "A request to an origin other than the last one says that it breaks the cache.",
    "per-origin": "At one repair level, each request to an origin begins with the previous request to it.",
}


class SentByOrigin:
    """The last request of one agent to each origin."""

    def __init__(self) -> None:
        self._requests: dict[Origin, ModelRequest] = {}
        self._last: Origin | None = None

    def take(self, request: ModelRequest, is_anew: bool) -> str:
        """Record the next request, and return the name of the rule that it breaks, or an empty text."""
        asked, last = request.model.made_by, self._last
        self._last, before = asked, self._requests.get(asked)
        self._requests[asked] = request
        if last not in (None, asked) and not is_anew:
            return "other-origin"
        if before is None or before.repair != request.repair:  # replies are repaired in another way
            return ""
        # `append-only` holds for a conversation with one model.
        if len(self._requests) == 1 and is_all_own(request):
            return ""
        earlier, sent = _sent(before), _sent(request)
        return "" if sent[: len(earlier)] == earlier else "per-origin"


def _sent(request: ModelRequest) -> list[Json]:
    """Return the messages that are sent, but for those about tools and the words that are sent for once."""
    try:
        sent = messages_for(request)
    except Unsayable:
        return []
    if is_by("assistant", request.message(request.length - 1)) and is_by("user", sent[-1]):
        sent = sent[:-1]
    return [said for said in sent if not is_by("system", said)]
