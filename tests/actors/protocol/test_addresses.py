"""Addresses extend their parent's, and separate actors from ports."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol import addresses
from callboard.actors.protocol.addresses import child_of, depth_of, is_agent, is_decider, parent_of, place_of


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


@pytest.mark.parametrize("port", sorted(addresses.PORTS))
def test_ports_are_not_agents_and_their_posts_are_not_computed(port: str) -> None:
    assert not is_agent(port)
    assert not is_decider(port)


def test_the_supervisor_decides_but_is_not_an_agent() -> None:
    assert is_decider("supervisor")
    assert not is_agent("supervisor")
    assert not is_agent("hostess")
