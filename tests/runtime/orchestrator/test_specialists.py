"""Specialists and their registry."""

import pytest

from callboard import InvalidAgent, MisuseError, Program, Registry, Specialist, tool
from tests.runtime.orchestrator.kit import answering


@tool(effect="read")
def look(table: str) -> str:
    """Look into a table."""
    return table


ONE = Specialist("one", "Looks.", (look,), "Be brief.", capabilities=("table",), max_iterations=3)


def test_a_specialist_is_an_ordinary_agent_with_the_report_as_its_schema() -> None:
    profile = ONE.agent().profile()
    assert (profile.name, profile.limits.max_iterations) == ("one", 3)
    assert [spec.name for spec in profile.tools] == ["look"]
    assert ONE.agent().output_type.name.endswith("SpecialistResult")


def test_a_policy_makes_it_a_program_with_the_same_tools() -> None:
    agent = Specialist("one", tools=(look,), policy=answering("x")).agent()
    assert isinstance(agent, Program)
    assert list(agent.tools) == ["look"]


def test_the_registry_gives_specialists_by_name_and_capability() -> None:
    registry = Registry([ONE])
    registry.add(Specialist("two", capabilities=("table",), priority=2))
    registry.add(Specialist("off", capabilities=("table",), priority=9, enabled=False))
    assert [one.name for one in registry] == ["one", "two", "off"]
    assert [one.name for one in registry.enabled()] == ["one", "two"]
    assert [one.name for one in registry.by_capability("table")] == ["two", "one"]
    assert registry.by_capability("other") == ()
    assert registry.get("off").priority == 9
    assert (len(registry), "two" in registry, "three" in registry) == (3, True, False)


def test_a_second_specialist_of_one_name_is_refused() -> None:
    with pytest.raises(InvalidAgent, match="specialist 'one' is registered already"):
        Registry([ONE, ONE])


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(MisuseError, match="names 'three'; there are one"):
        Registry([ONE]).get("three")
