"""Addresses extend their parent's, and separate actors from ports."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol import addresses
from callboard.actors.protocol.addresses import (
    child_of,
    depth_of,
    is_agent,
    is_decider,
    names_agent,
    parent_of,
    path_of,
    place_of,
)
from tests.tables import table


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 10**6), max_size=6))
def test_an_address_is_the_path_from_the_host(path: list[int]) -> None:
    address = "host"
    for ordinal in path:
        below = child_of(address, ordinal)
        assert parent_of(below) == address
        assert place_of(below) == (address, ordinal)
        address = below
    assert depth_of(address) == len(path)
    assert is_agent(address)
    assert is_decider(address)


def test_the_hosts_parent_is_the_client() -> None:
    assert parent_of("host") == "client"


@table("port", sorted(addresses.PORTS))
def test_ports_are_not_agents_and_their_posts_are_not_computed(port: str) -> None:
    assert not is_agent(port)
    assert not is_decider(port)


def test_the_supervisor_decides_but_is_not_an_agent() -> None:
    assert is_decider("supervisor")
    assert not is_agent("supervisor")
    assert not is_agent("hostess")


@table(
    ("text", "names"),
    [
        ("host", True),
        ("host.1.2", True),
        ("host.999999999", True),
        ("host.1000000000", False),
        ("host.01", False),
        ("host.0", False),
        ("host.", False),
        ("tools", False),
        ("host.1\n", False),
        (f"host{'.1' * 498}", True),  # 1,000 characters
        (f"host{'.1' * 497}.12", False),
        (f"host{'.1' * 499}", False),
    ],
)
def test_a_text_from_outside_names_an_agent_only_in_the_one_written_form(text: str, names: bool) -> None:
    assert names_agent(text) is names


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("host", ()),
        ("host.3", (("host.3", 3),)),
        ("host.3.12.1", (("host.3", 3), ("host.3.12", 12), ("host.3.12.1", 1))),
        ("tools", None),
    ],
)
def test_a_path_has_each_agent_from_the_hosts_child_on_with_its_ordinal(
    address: str, path: tuple[tuple[str, int], ...] | None
) -> None:
    assert path_of(address) == path
