"""The key under which a tool's result may be given again: a digest of all that the result depends on.

    the tool's definition      with its version
    the arguments              in any order of their names
    the caller's rights        those that all bundles above it leave, so that no agent reads what it may not
    the form of the result     a program gets it whole; a model reads it up to its limit
    the instance               of an agent that a factory makes: its tools may have a state of their own

The shared state that a tool has read is not known before it ran. `CachedResults` compares that.
"""

from hashlib import blake2b

import msgspec

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.layers import effective
from callboard.actors.protocol.profiles import ToolSpec
from callboard.actors.protocol.value_types import CacheRequest


def cache_request(state: AgentState, spec: ToolSpec, use: ToolUse) -> CacheRequest | None:
    """Return the key and rules for the result of a call; None if it is never given again.

    A call that a person has given input to is unlike any other.
    """
    rules = spec.cache
    if rules is None or use.given is not None:
        return None
    return CacheRequest(_key(state, spec, use.input), rules.ttl_ms, rules.over_writes)


def _key(state: AgentState, spec: ToolSpec, arguments: Json) -> str:
    digest = blake2b(digest_size=16, person=b"callboard/cache")
    form = b"program" if state.model.is_program else b"%d" % (state.limits.max_tool_output_chars or 0)
    parts = [encode(spec), _sorted(arguments), encode(effective(state.permissions)), form]
    if prefix_of(state).profile.factory:
        parts.append(state.address.encode())
    for part in parts:
        digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


def _sorted(arguments: Json) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted")
