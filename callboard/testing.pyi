# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.pytest_fixtures import Explorer as Explorer
from callboard.replay.testing import strategies as strategies
from callboard.replay.testing.agents.recorded_scenario import RecordedScenario as RecordedScenario
from callboard.replay.testing.agents.runs import BrokenRules as BrokenRules
from callboard.replay.testing.agents.runs import Exploration as Exploration
from callboard.replay.testing.agents.runs import Scenario as Scenario
from callboard.replay.testing.agents.runs import Simulation as Simulation
from callboard.replay.testing.agents.runs import explore as explore
from callboard.replay.testing.agents.runs import simulate as simulate
from callboard.replay.testing.determinism import Nondeterminism as Nondeterminism
from callboard.replay.testing.explore import Counterexample as Counterexample
from callboard.replay.testing.input_rules.problems import request_problem as request_problem
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
from callboard.replay.testing.schedule import BadSchedule as BadSchedule
from callboard.replay.testing.schedule import ScheduleMisfit as ScheduleMisfit
from callboard.replay.testing.sessions.faults import Faults as Faults
from callboard.replay.testing.sessions.faults import faults as faults
from callboard.replay.testing.sessions.resumes import check_resumes as check_resumes
from callboard.replay.testing.sessions.world import SessionWorld as SessionWorld
from callboard.replay.testing.stores.contract import StoreContract as StoreContract
from callboard.replay.testing.stores.events import StorePlace as StorePlace

__all__ = [
    "Actor",
    "BadSchedule",
    "Breach",
    "BrokenRules",
    "Counterexample",
    "Exploration",
    "Explorer",
    "Faults",
    "Nondeterminism",
    "Program",
    "RecordedScenario",
    "Scenario",
    "ScheduleMisfit",
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
    "request_problem",
    "simulate",
    "sometimes",
    "strategies",
]
