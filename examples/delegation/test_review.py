"""Tests of the review, without a model: one order, then hundreds of orders with faults.

pip install 'callboard[testing]' pydantic
pytest examples/delegation
pytest examples/delegation --callboard-runs 20000 --callboard-seed random
"""

import pytest
from review import host

from callboard import Call, ModelRequest, Reply, call, calls, say
from callboard.messages import DelegationEnded
from callboard.testing import Explorer, Scenario, SessionWorld, always, simulate, sometimes


class Models:
    """Answers for the models. is_true: the verdict of the reviewer of facts."""

    def __init__(self, is_true: bool) -> None:
        self.is_true = is_true

    def __call__(self, request: ModelRequest) -> Call | Reply:
        """Answer a request."""
        match request.profile, request.turn:
            case "editor", 1:  # both in one turn, so they work at the same time
                names = ("style", "facts")
                return calls(*(call("task", agent=name, prompt="Judge the draft.") for name in names))
            case "editor", 2:
                is_good = str(request.conversation[-1]).count('"is_good":true') == 2
                return call("publish") if is_good else say("Not yet.")
            case "editor", _:
                return say("It is out.")
            case _, 1:
                return call("read_draft")
            case profile, _:
                return call("report_back", is_good=profile == "style" or self.is_true, reason="I read it.")


def is_published(world: SessionWorld) -> bool:
    """Return whether the draft went out. Tools with an effect are not run here, only recorded."""
    return any(effect.tool == "publish" for effect in world.effects)


def verdicts(world: SessionWorld) -> list[bool]:
    """Return the verdicts so far."""
    ends = [event.body.to_dict() for event in world.events(DelegationEnded)]
    return [end["value"]["is_good"] for end in ends if end["kind"] == "reported"]


agreed = always(
    "It is published only if both reviewers said yes.",
    lambda world: not is_published(world) or verdicts(world) == [True, True],
)
once = always(
    "It is published once, at most.",
    lambda world: sum(effect.tool == "publish" for effect in world.effects) <= 1,
)
goal = sometimes("It is published.", is_published)


@pytest.mark.parametrize(("is_true", "text"), [(True, "It is out."), (False, "Not yet.")])
def test_both_reviewers_decide(is_true: bool, text: str) -> None:
    run = simulate(host, Models(is_true), "Review the draft.")
    assert run.outcome.text == text
    assert sorted(verdicts(run.world)) == [is_true, True]
    assert is_published(run.world) == is_true
    assert run.breaches == []


def test_no_order_and_no_fault_publishes_against_a_verdict(callboard_explore: Explorer) -> None:
    """Models fail, tools raise, the user cancels, the process dies and resumes."""
    refused = Scenario(host, Models(False), "Review.", monitors=[agreed, once], faults="all")
    callboard_explore(refused, runs=200)


def test_good_drafts_are_published_in_some_runs(callboard_explore: Explorer) -> None:
    passed = Scenario(host, Models(True), "Review.", monitors=[agreed, once, goal], faults="all")
    callboard_explore(passed, runs=200)
