"""The agents and models of a session, found from its host, and the refusals before it begins."""

from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.bundles import Bundle, Denied
from callboard.actors.protocol.errors import InvalidAgent, MisuseError, UnknownName
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.permissions import session_layers
from callboard.runtime.programs.program import program
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets
from callboard.runtime.sessions import session_agents
from callboard.runtime.sessions.probing import NOT_PROBED, Probed
from callboard.runtime.sessions.session_agents import (
    KnownHosts,
    SessionAgents,
    agents_of_session,
    check_models,
    refuse_unasked,
)
from callboard.runtime.tools.sources import ToolSource
from callboard.runtime.tools.tool import tool


class Model(ScriptedModel):
    """A model with a name of its own, which can be checked."""

    def __init__(self, name: str, *, is_broken: bool = False, prices: Any = None) -> None:
        super().__init__([say("x")])
        self.spec = ModelSpec(name, 50, prices=prices)
        self.is_broken, self.checked = is_broken, 0

    def check(self) -> None:
        self.checked += 1
        if self.is_broken:
            raise MisuseError("no key")


@tool(effect="read")
def look() -> str:
    """Look."""
    return ""


def found(host: Agent, default: Any = None, probed: Probed = NOT_PROBED, **more: Any) -> SessionAgents:
    given = {"limits": Limits(), "secrets": NO_SECRETS, "capacity": {}, **more}
    return agents_of_session(host, default, found=probed, **given)


def profiles(one: SessionAgents) -> dict[str, Profile]:
    made = [msgspec.json.decode(raw, type=Profile) for raw in one.opened.profiles]
    return {profile.name: profile for profile in made}


def test_all_agents_below_the_host_are_in_the_first_event() -> None:
    leaf = Agent("leaf", description="d")
    host = Agent("host", agents=[Agent("kid", description="d", agents=[leaf])])
    one = found(host, Model("m"))
    assert list(one.agents) == ["host", "kid", "leaf"]
    assert list(profiles(one)) == ["host", "kid", "leaf"]
    assert (one.opened.host, one.given, one.unpriced) == ("host", host, "m")
    assert one.opened.model is not None
    assert one.opened.model.name == "m"


def test_the_model_of_the_host_goes_before_the_default_and_both_are_known() -> None:
    own, default, kids = Model("own"), Model("default"), Model("kids")
    host = Agent("host", model=own, agents=[Agent("kid", description="d", model=kids)])
    one = found(host, default)
    assert one.opened.model is not None
    assert one.opened.model.name == "own"
    assert set(one.models) == {"own", "kids"}
    assert (own.checked, kids.checked) == (1, 1)


def test_a_program_hands_down_the_model_that_it_would_inherit() -> None:
    @program
    async def host(ctx: Any, prompt: str) -> str:
        return prompt

    default = Model("default")
    one = found(host, default)
    assert one.opened.model is not None
    assert one.opened.model.name == "default"
    assert set(one.models) == {"default", "program:host"}
    alone = found(host)
    assert alone.opened.model is not None
    assert alone.opened.model.is_program


def test_a_session_without_a_model_says_how_to_give_one() -> None:
    with pytest.raises(MisuseError, match="no model for 'host'"):
        found(Agent("host"))


def test_a_model_that_cannot_work_is_refused_before_the_session_begins() -> None:
    with pytest.raises(MisuseError, match="no key"):
        found(Agent("host"), Model("m", is_broken=True))


def test_two_models_of_one_name_are_refused_and_one_model_twice_is_not() -> None:
    shared = Model("m")
    kid = Agent("kid", description="d", model=shared)
    assert set(found(Agent("host", agents=[kid]), shared).models) == {"m"}
    with pytest.raises(InvalidAgent, match="two different models are named 'm'"):
        found(Agent("host", agents=[kid]), Model("m"))


def test_a_cost_limit_needs_prices() -> None:
    with pytest.raises(MisuseError, match="m"):
        found(Agent("host"), Model("m"), limits=Limits(cost_usd=1.0))


def test_tools_that_a_source_listed_are_those_of_the_agent() -> None:
    one = found(Agent("host"), Model("m"), Probed({"host": [look]}, {}))
    assert [spec.name for spec in profiles(one)["host"].tools] == ["look"]


def test_a_broken_agent_is_marked_and_a_broken_host_is_refused() -> None:
    host = Agent("host", agents=[Agent("kid", description="d", tools=[look])])
    one = found(host, Model("m"), Probed({"kid": [look]}, {"kid": "its server is down"}))
    assert one.agents["kid"].broken == "its server is down"
    with pytest.raises(InvalidAgent, match="agent 'host' cannot be the host: its server is down"):
        found(host, Model("m"), Probed({}, {"host": "its server is down"}))


def test_an_agent_that_may_be_broken_needs_no_model() -> None:
    kid = Agent("kid", description="d", on_broken="unavailable")
    host = Agent("host", model=Model("own"), agents=[kid])
    assert found(host).agents["kid"].broken == ""

    @program
    async def lead(ctx: Any, prompt: str) -> str:
        return prompt

    lead.agents = (kid,)
    assert found(lead).agents["kid"].broken == "it has no model, and inherits none"
    lead.agents = (Agent("kid", description="d"),)
    with pytest.raises(MisuseError, match="no model for 'kid', which inherits none"):
        found(lead)


def test_models_are_looked_for_before_any_session_as_in_one() -> None:
    kid = Agent("kid", description="d")

    @program
    async def lead(ctx: Any, prompt: str) -> str:
        return prompt

    lead.agents = (kid,)
    with pytest.raises(MisuseError, match="no model for 'kid', which inherits none"):
        check_models(lead, None)
    with pytest.raises(MisuseError, match="no model for 'host', which inherits none"):
        check_models(Agent("host"), None)
    with pytest.raises(MisuseError, match="for example AnthropicModel"):
        found(Agent("host"))
    broken = Model("m", is_broken=True)
    with pytest.raises(MisuseError, match="no key"):
        check_models(Agent("host"), broken)
    assert broken.checked == 1


def test_the_first_event_has_the_state_and_the_rules_of_the_session() -> None:
    layers = session_layers(Bundle(), Bundle(deny=Denied(capabilities=("mail",))))

    @tool(effect="write", capabilities=["mail"])
    def send() -> str:
        """Send."""
        return ""

    one = found(Agent("host", tools=[send], state={"k": "replace"}), Model("m"), permissions=layers)
    assert [key.name for key in one.opened.state] == ["k"]
    assert one.opened.permissions == layers
    with pytest.raises(UnknownName, match="mail"):
        found(Agent("host"), Model("m"), permissions=layers)


def test_the_latest_hosts_are_known_by_session_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_agents, "_KEPT_MAX", 2)
    hosts, one, two, three = KnownHosts(), *(Agent(name) for name in ("one", "two", "three"))
    for session_id, host in (("a", one), ("b", two), ("a", one), ("c", three)):
        hosts.note(session_id, host)
    asked = (("a", "x"), ("b", "x"), ("z", "three"), ("z", "two"))
    found = [hosts.find(session_id, name, is_imported=False) for session_id, name in asked]
    assert found == [one, None, three, None]
    assert hosts.find("a", "one", is_imported=True) is None
    hosts.default = two
    assert hosts.find("a", "one", is_imported=False) is two


def test_secrets_of_models_are_learned_before_the_first_event() -> None:
    class Keyed(Model):
        def secrets(self) -> dict[str, str]:
            return {"KEY": "hunter2hunter2"}

    secrets = Secrets()
    found(Agent("host"), Keyed("m"), secrets=secrets)
    assert secrets.redactor.text("hunter2hunter2") != "hunter2hunter2"


@pytest.mark.parametrize("approval", ["before", "always"])
def test_a_tool_that_asks_a_person_needs_somebody_who_answers(approval: Any) -> None:
    @tool(approval=approval)
    def pay() -> str:
        """Pay."""
        return ""

    with pytest.raises(MisuseError, match="tool 'pay' of agent 'kid' wants a person asked before it runs"):
        refuse_unasked(Agent("host", agents=[Agent("kid", description="d", tools=[pay])]))


def test_other_tools_need_nobody() -> None:
    @tool(approval="never")
    def pay() -> str:
        """Pay."""
        return ""

    host = Agent("host", tools=[pay, look])
    refuse_unasked(host)
    assert [*host.tools] == ["pay", "look"], "both were looked at"


class Mail(ToolSource):
    """A source whose tools ask a person."""

    label, asks_first = "mail", True

    def live(self) -> Any:
        """Return no source: nothing is asked here."""

    def secrets(self) -> dict[str, str]:
        return {}


def test_a_source_whose_tools_ask_a_person_needs_somebody_who_answers() -> None:
    host = Agent("host", agents=[Agent("kid", tools=[Mail()])])
    with pytest.raises(MisuseError, match="a tool of 'mail' of agent 'kid' wants a person asked"):
        refuse_unasked(host)


def test_a_cost_limit_of_an_agent_below_needs_prices_too() -> None:
    kid = Agent("kid", limits=Limits(cost_usd=1.0))
    with pytest.raises(MisuseError, match="prices of model 'm' are not known"):
        found(Agent("host", agents=[kid]), Model("m"))
