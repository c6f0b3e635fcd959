"""The telemetry of a tool call as the tools port completes it: the call, its times, and the cache."""

from msgspec.structs import replace

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.telemetry import CacheUse, Telemetry
from callboard.runtime.sessions.board import Board

_NONE = Telemetry()


def completed(
    measured: Telemetry | None, board: Board, request: Event, version: str, *, is_hit: bool = False
) -> Telemetry | None:
    """Return the telemetry of a call for its answer; None for a plain tool without a cache.

    measured: by the tool. version: of the tool. is_hit: True if a result is given again.
    """
    call = request.body
    assert isinstance(call, CallTool)
    if measured is None and call.cache is None:
        return None
    return replace(
        measured or _NONE,
        tool=call.tool,
        version=version,
        execution=f"{board.session_id}#{request.seq}",
        at_ms=request.at,
        latency_ms=max(0, board.now_ms - request.at),
        cache=_cache_use(call, is_hit=is_hit),
        cache_key=call.cache.key if call.cache else "",
    )


def _cache_use(call: CallTool, *, is_hit: bool) -> CacheUse:
    if call.cache is None:
        return ""
    return "hit" if is_hit else "miss"


def of_hit(origin: Telemetry | None) -> Telemetry | None:
    """Return the figures of a call whose tool did not run: the size of the result that it repeats."""
    return origin and Telemetry(tokens_out_estimated=origin.tokens_out_estimated)
