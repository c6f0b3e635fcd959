"""The key under which a result may be given again."""

from msgspec.structs import replace

from callboard.actors.agent.cache_keys import cache_request
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.state import AgentState, prefix_of
from callboard.actors.protocol.bundles import Allowed, Rights
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.layers import Layer, Layers
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.profiles import CacheRules
from callboard.actors.protocol.value_types import CacheRequest, InputGiven
from callboard.replay.testing.sessions.scenario import profile, tool_spec
from tests.actors.harness import AgentHarness

SPEC = replace(tool_spec("look"), cache=CacheRules(500, over_writes=True))


def layers(*paths: str, by: str = "the session") -> Layers:
    return (Layer(by, Rights(Allowed(read=paths))),)


def begun(permissions: Layers = (), limits: Limits | None = None) -> AgentHarness:
    agent = AgentHarness()
    who = replace(profile("worker"), tools=(SPEC,))
    agent.hears(replace(agent.begin(who=who, limits=limits or Limits()), permissions=permissions))
    return agent


def state_of(permissions: Layers = (), limits: Limits | None = None) -> AgentState:
    state = begun(permissions, limits).state
    assert isinstance(state, AgentState)
    return state


def key(state: AgentState, arguments: bytes = b'{"a":1,"b":2}', version: str = "") -> str:
    found = cache_request(state, replace(SPEC, version=version), ToolUse("id", "look", Json(arguments)))
    assert found is not None
    return found.key


def test_a_call_carries_the_key_and_the_rules_of_its_tool() -> None:
    (body,) = [one for one in begun().calls("look") if isinstance(one, CallTool)]
    assert isinstance(body.cache, CacheRequest)
    assert (body.cache.ttl_ms, body.cache.over_writes) == (500, True)


def test_a_tool_without_a_cache_and_a_call_with_input_have_no_key() -> None:
    use = ToolUse("id", "look", Json(b"{}"))
    assert cache_request(state_of(), tool_spec("look"), use) is None
    assert cache_request(state_of(), SPEC, replace(use, given=InputGiven(1))) is None


def test_the_order_of_names_does_not_matter_and_everything_else_does() -> None:
    plain = key(state_of())
    assert key(state_of(), b'{ "b": 2, "a": 1 }') == plain
    others = {
        key(state_of(), b'{"a":1,"b":3}'),
        key(state_of(), version="2"),
        key(state_of(layers("docs"))),
        key(state_of(layers("docs/a"))),
        key(state_of(limits=Limits(max_tool_output_chars=9))),
    }
    assert len(others | {plain}) == 6


def test_each_instance_that_a_factory_makes_has_keys_of_its_own() -> None:
    state = state_of()
    assert key(replace(state, address="host.7")) == key(state), "agents of one definition share results"
    prefix = prefix_of(state)
    made = replace(state, prefix=replace(prefix, profile=replace(prefix.profile, factory="make")))
    assert len({key(state), key(made), key(replace(made, address="host.7"))}) == 3


def test_the_holder_of_a_bundle_does_not_matter() -> None:
    twice = (*layers("docs"), *layers("docs", by="agent host"))
    assert key(state_of(layers("docs"))) == key(state_of(twice))
