"""Tests for agents that delegate, without a model: simulate sessions, explore their orders and faults.

    from callboard.testing import explore, simulate

    def test_two_experts_are_asked() -> None:
        assert simulate(host, policy, "Which files are here?").outcome.text == "Both agree."

    def test_no_order_and_no_fault_breaks_a_rule() -> None:
        explore(host, policy, "Which files are here?", runs=2_000, faults="all")  # raises BrokenRules

    strategies      agents, limits, schemas, policies and whole sessions for Hypothesis
    invariants      the rules of delegation, for any log: check_log(recording.events)
    request_problem the reason for which a model's service would refuse a request
    SessionMachine  a rule-based state machine for interactive sessions

Strategies and machines need Hypothesis: `pip install 'callboard[testing]'`.
"""

from callboard.lazy_names import lazy_names

# Loaded on first use: most tests need no Hypothesis. Run `python -m tools.public_names` after a change.
_HOMES = {
    "replay.testing": ("strategies",),
    "replay.testing.determinism": ("Nondeterminism",),
    "replay.testing.explore": ("Counterexample",),
    "replay.testing.input_rules.problems": ("request_problem",),
    "replay.testing.machine": ("SessionMachine",),
    "replay.testing.monitors": ("always", "at_rest", "eventually", "sometimes"),
    "replay.testing.program": ("Actor", "Program", "Send"),
    "replay.testing.rules": ("invariants",),
    "replay.testing.rules.base": ("Breach",),
    "replay.testing.rules.invariants": ("check_log",),
    "replay.testing.rules.requests": ("check_requests",),
    "replay.testing.schedule": ("BadSchedule", "ScheduleMisfit"),
    "replay.testing.sessions.faults": ("Faults", "faults"),
    "replay.testing.sessions.resumes": ("check_resumes",),
    "replay.testing.sessions.world": ("SessionWorld",),
    "replay.testing.stores.contract": ("StoreContract",),
    "replay.testing.stores.events": ("StorePlace",),
    "pytest_fixtures": ("Explorer",),
    "replay.testing.agents.recorded_scenario": ("RecordedScenario",),
    "replay.testing.agents.runs": (
        "Exploration",
        "BrokenRules",
        "Scenario",
        "Simulation",
        "explore",
        "simulate",
    ),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
