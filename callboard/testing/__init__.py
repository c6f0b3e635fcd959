"""Test how agents delegate, without calling a model: simulate sessions, explore their orders and faults.

    from callboard.testing import explore, simulate

    def test_two_experts_are_asked() -> None:
        assert simulate(host, policy, "What is here?").outcome.text == "Both agree."

    def test_no_order_and_no_fault_breaks_a_rule() -> None:
        explore(host, policy, "What is here?", runs=2_000, faults="all").raise_if_broken()

    strategies      agents, limits, schemas, policies and whole sessions for Hypothesis
    invariants      the rules of delegation, on any log: check_log(recording.events)
    SessionMachine  a rule-based state machine for interactive sessions

The names below are loaded when they are first used. Strategies and machines need Hypothesis:
`pip install callboard[testing]`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callboard.replay.testing import strategies as strategies
    from callboard.replay.testing.explore import Counterexample as Counterexample
    from callboard.replay.testing.machine import SessionMachine as SessionMachine
    from callboard.replay.testing.monitors import always as always
    from callboard.replay.testing.monitors import at_rest as at_rest
    from callboard.replay.testing.monitors import eventually as eventually
    from callboard.replay.testing.monitors import sometimes as sometimes
    from callboard.replay.testing.program import Actor as Actor
    from callboard.replay.testing.program import Program as Program
    from callboard.replay.testing.program import Send as Send
    from callboard.replay.testing.rules import invariants as invariants
    from callboard.replay.testing.rules.base import Breach as Breach
    from callboard.replay.testing.rules.invariants import check_log as check_log
    from callboard.replay.testing.rules.requests import check_requests as check_requests
    from callboard.replay.testing.sessions.faults import Faults as Faults
    from callboard.replay.testing.sessions.faults import faults as faults
    from callboard.replay.testing.sessions.resumes import check_resumes as check_resumes
    from callboard.replay.testing.sessions.world import SessionWorld as SessionWorld
    from callboard.replay.testing.stores.contract import StoreContract as StoreContract
    from callboard.replay.testing.stores.place import StorePlace as StorePlace
    from callboard.testing.runs import Exploration as Exploration
    from callboard.testing.runs import RuleBroken as RuleBroken
    from callboard.testing.runs import Scenario as Scenario
    from callboard.testing.runs import Simulation as Simulation
    from callboard.testing.runs import explore as explore
    from callboard.testing.runs import simulate as simulate

_KIT = "replay.testing"

_HOMES = {
    "Actor": f"{_KIT}.program",
    "Program": f"{_KIT}.program",
    "Send": f"{_KIT}.program",
    "StoreContract": f"{_KIT}.stores.contract",
    "StorePlace": f"{_KIT}.stores.place",
    "Breach": f"{_KIT}.rules.base",
    "Counterexample": f"{_KIT}.explore",
    "Exploration": "testing.runs",
    "Faults": f"{_KIT}.sessions.faults",
    "RuleBroken": "testing.runs",
    "Scenario": "testing.runs",
    "SessionMachine": f"{_KIT}.machine",
    "SessionWorld": f"{_KIT}.sessions.world",
    "Simulation": "testing.runs",
    "always": f"{_KIT}.monitors",
    "at_rest": f"{_KIT}.monitors",
    "check_log": f"{_KIT}.rules.invariants",
    "check_requests": f"{_KIT}.rules.requests",
    "check_resumes": f"{_KIT}.sessions.resumes",
    "eventually": f"{_KIT}.monitors",
    "explore": "testing.runs",
    "faults": f"{_KIT}.sessions.faults",
    "simulate": "testing.runs",
    "sometimes": f"{_KIT}.monitors",
}

_MODULES = {"invariants": f"{_KIT}.rules.invariants", "strategies": f"{_KIT}.strategies"}

__all__ = [
    "Actor",
    "Breach",
    "Counterexample",
    "Exploration",
    "Faults",
    "Program",
    "RuleBroken",
    "Scenario",
    "Send",
    "SessionMachine",
    "SessionWorld",
    "Simulation",
    "StoreContract",
    "StorePlace",
    "always",
    "at_rest",
    "check_log",
    "check_requests",
    "check_resumes",
    "eventually",
    "explore",
    "faults",
    "invariants",
    "simulate",
    "sometimes",
    "strategies",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value: object = import_module(f"callboard.{_MODULES[name]}")
    elif name in _HOMES:
        value = getattr(import_module(f"callboard.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'callboard.testing' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
