"""The agents that a runtime remembers for forks on command."""

from callboard import Agent
from callboard.runtime.sessions.session_agents import KnownHosts

HOST = Agent("host")


def test_known_hosts_forget_the_oldest_and_know_none_for_imported_sessions() -> None:
    known = KnownHosts()
    for number in range(300):
        known.note(f"s{number}", Agent(f"a{number}"))
    assert known.find("s0", "a0", is_imported=False) is None
    assert known.find("s299", "", is_imported=False) is known.find("", "a299", is_imported=False)
    assert known.find("s299", "a299", is_imported=True) is None
    known.default = HOST
    assert known.find("s299", "a299", is_imported=True) is HOST
