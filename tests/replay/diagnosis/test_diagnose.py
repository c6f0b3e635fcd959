import msgspec
import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.repair_levels import Repair
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.replay.diagnosis.ends import FailedAsks, LostCache, RefusedReplies
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Reply, Step, call, calls, fail, say
from callboard.runtime.tools.tool import tool
from tests.golden import golden, recorded
from tests.replay.stories import look_up, record


@tool(effect="read")
def broken(key: str) -> str:
    """Always fail."""
    raise OSError("the shelf is empty")


@tool(effect="read")
def query(text: str) -> str:
    """Fail, each time in another way."""
    raise ValueError(f"syntax error near {text}")


def kinds(recording: Recording) -> list[str]:
    return [finding.kind for finding in recording.diagnose()]


def times(count: int, name: str, *, is_same: bool) -> Recording:
    """Record a host that calls a tool so many times."""

    def policy(request: ModelRequest) -> Step:
        key = "A" if is_same else f"A{request.turn}"
        return call(name, key=key) if request.turn <= count else say("Done.")

    return record(policy, Agent("host", tools=[look_up, broken]), "Look.")


def team(*reports: object, answer: str) -> Recording:
    """Record a host that delegates once for each report, and answers."""
    schema = {"type": "object"}

    def policy(request: ModelRequest) -> Step:
        if request.profile == "host":
            tasks = [
                call("task", agent="clerk", prompt=f"The total and the name {n}", output_schema=schema)
                for n in range(len(reports))
            ]
            return calls(*tasks) if request.turn == 1 else say(answer)
        place = int(str(request.conversation[0]["content"]).split()[-1])
        found = reports[place]
        assert isinstance(found, dict)
        return call("report_back", **found)

    return record(policy, Agent("host", agents=[Agent("clerk", description="Finds.")]), "Go.")


def test_three_equal_calls_are_a_loop_and_two_are_not() -> None:
    assert kinds(times(3, "look_up", is_same=True)) == ["loop"]
    assert kinds(times(2, "look_up", is_same=True)) == []
    assert kinds(times(7, "look_up", is_same=False)) == []


def test_eight_calls_of_a_read_tool_that_all_gave_the_same_are_a_guess() -> None:
    assert kinds(times(8, "look_up", is_same=False)) == ["same_answers"]


def test_the_same_error_twice_is_found() -> None:
    assert kinds(times(2, "broken", is_same=True)) == ["repeated_error"]
    assert kinds(times(1, "broken", is_same=True)) == ["untold_error"]


@pytest.mark.parametrize(("count", "kinds_found"), [(8, ["repeated_error"]), (7, ["untold_error"])])
def test_eight_errors_in_a_row_are_found_though_each_is_another_one(
    count: int, kinds_found: list[str]
) -> None:
    def policy(request: ModelRequest) -> Step:
        return call("query", text=f"{request.turn}") if request.turn <= count else say("42.")

    assert kinds(record(policy, Agent("host", tools=[query]), "Count.")) == kinds_found


def test_a_failure_below_an_answer_is_found() -> None:
    def policy(request: ModelRequest) -> Step:
        if request.profile == "clerk":
            return fail("invalid_request_error", is_retryable=False)
        return call("task", agent="clerk", prompt="Go") if request.turn == 1 else say("All is well.")

    clerk = Agent("clerk", description="Finds.")
    (finding,) = record(policy, Agent("host", agents=[clerk]), "Go.").diagnose()
    assert (finding.kind, finding.agent) == ("failed_delegation", "host.1")
    assert "model_error" in finding.says


def test_an_ask_that_failed_is_the_first_finding_with_its_reason() -> None:
    def policy(request: ModelRequest) -> Step:
        return (
            fail("not_found_error", "no such model", is_retryable=False)
            if request.turn == 3
            else call("broken", key="A")
        )

    recording = record(policy, Agent("host", tools=[broken]), "Look.")
    first, second = recording.diagnose()
    assert (first.kind, first.agent, second.kind) == ("failed_ask", "host", "repeated_error")
    assert first.says == "the ask failed (model_error): its model failed: not_found_error: no such model"
    assert recording.event(first.seq).kind == "AskEnded"


def test_a_refusal_that_ends_an_ask_is_found_once() -> None:
    def policy(request: ModelRequest) -> Step:
        return call("look_up", key=f"A{request.turn}")

    host = Agent("host", tools=[look_up], limits=Limits(max_iterations=2))
    assert kinds(record(policy, host, "Look.")) == ["refused"]


@pytest.mark.parametrize(
    ("kind", "count"), [("crashed", 1), ("answered", 0), ("cancelled", 0), ("budget", 0)]
)
def test_a_failed_ask_that_no_limit_refused_is_a_finding(kind: OutcomeKind, count: int) -> None:
    (end,) = (event for event in recorded(golden("everything")).events if isinstance(event.body, AskEnded))
    check = FailedAsks()
    check.take(msgspec.structs.replace(end, body=msgspec.structs.replace(end.body, kind=kind)))
    assert len(list(check.findings())) == count


def test_a_failure_that_the_ask_shares_is_not_below_an_answer() -> None:
    def policy(request: ModelRequest) -> Step:
        if request.profile == "host" and request.turn == 1:
            return call("task", agent="clerk", prompt="Go")
        return fail("invalid_request_error", is_retryable=False)

    clerk = Agent("clerk", description="Finds.")
    assert "failed_delegation" not in kinds(record(policy, Agent("host", agents=[clerk]), "Go."))


def test_a_report_is_unused_only_if_no_reply_repeats_a_value_of_it() -> None:
    assert kinds(team({"total": 41900}, answer="It costs 41,900 cents.")) == []
    assert kinds(team({"name": "Ada Lovelace"}, answer="ADA LOVELACE wrote it.")) == []
    assert kinds(team({"total": 41900}, answer="It costs nothing.")) == ["unused_report"]


def test_a_parent_that_sums_its_reports_up_has_used_them() -> None:
    reports = [{"total": 100 + n} for n in range(3)]
    assert kinds(team(*reports, answer="303 in all.")) == []


def test_a_number_far_from_its_siblings_is_an_outlier() -> None:
    usual = [{"total": 100 + n} for n in range(5)]
    wrong = team(*usual, {"total": 10_000}, answer="100 101 102 103 104 10000")
    (finding,) = wrong.diagnose()
    assert (finding.kind, finding.agent) == ("outlier", "host.6")
    assert "10,000" in finding.says
    assert kinds(team(*usual, {"total": 250}, answer="100 101 102 103 104 250")) == []


def test_one_word_against_all_siblings_is_an_outlier_and_many_words_are_none() -> None:
    words = [{"unit": "cents"}] * 5
    said = "cents " * 5 + "euros"
    assert kinds(team(*words, {"unit": "euros"}, answer=said)) == ["outlier"]
    different = [{"name": f"name {n}"} for n in range(6)]
    assert kinds(team(*different, answer=" ".join(f"name {n}" for n in range(6)))) == []


def test_three_siblings_are_too_few_for_an_outlier() -> None:
    few = [{"total": 1000}, {"total": 1001}, {"total": 99_999}]
    assert kinds(team(*few, answer="1000 1001 99999")) == []


def test_late_reports_of_a_race_are_no_finding() -> None:
    assert "late_report" not in kinds(recorded(golden("everything")))


def test_an_answer_above_the_most_that_it_needed_is_found() -> None:
    def policy(request: ModelRequest) -> Step:
        return Reply("Done.", usage=Usage(input_tokens=100_000))

    (found,) = record(policy, Agent("host"), "Go.").diagnose()
    assert found.kind == "above_need"
    assert found.says.startswith("turn 1 of host used 100,000 tokens, and ")


def test_findings_name_the_next_command() -> None:
    for finding in recorded(golden("everything")).diagnose():
        assert finding.command.format(at="s#1", session="s", seq=1).split()[0] in (
            "why",
            "events",
            "tree",
            "budget",
            "request",
        )


@pytest.mark.parametrize("name", ["report", "flaky"])
def test_healthy_sessions_have_no_finding(name: str) -> None:
    assert recorded(golden(name)).diagnose() == []


def requests(*turns: tuple[str, bool], begun: str = "first") -> list[str]:
    """Diagnose requests of one agent: (the name of the model that is asked, whether the cache is lost)."""
    check = LostCache()
    (begin, *_) = (event for event in recorded(golden("everything")).events if event.kind == "Begin")
    assert isinstance(begin.body, Begin)
    model = msgspec.structs.replace(begin.body.model, name=begun)
    check.take(msgspec.structs.replace(begin, body=msgspec.structs.replace(begin.body, model=model)))
    for turn, (name, is_lost) in enumerate(turns, 1):
        body = TurnRequested(turn, model=name, breaks_cache=is_lost)
        check.take(msgspec.structs.replace(begin, seq=turn, sender=begin.recipient, body=body))
    return [f"{finding.seq}: {finding.says}" for finding in check.findings()]


def test_a_cache_is_lost_if_the_same_model_is_asked_with_another_beginning() -> None:
    assert requests(("", False), ("", True), ("", True)) == [
        "2: host lost the cached prefix of its prompt 2 times"
    ]


def test_a_change_of_the_model_loses_no_cache() -> None:
    assert requests(("", False), ("second", True), ("", True)) == []
    assert requests(("", False), ("first", True)) == ["2: host lost the cached prefix of its prompt once"]
    assert requests(("", False), ("second", True), ("second", True)) == [
        "3: host lost the cached prefix of its prompt once"
    ]


def test_a_refused_conversation_is_named_with_the_level_at_which_it_goes_on() -> None:
    check = RefusedReplies()
    (begin, *_) = (event for event in recorded(golden("everything")).events if event.kind == "Begin")
    for turn, repair in enumerate((None, Repair(1, 1), Repair(1, 1), Repair(2, 1)), 1):
        body = TurnRequested(turn, repair=repair)
        check.take(msgspec.structs.replace(begin, seq=turn, sender="host", body=body))
    assert [(finding.kind, finding.seq) for finding in check.findings()] == [
        ("refused_replies", 2),
        ("refused_replies", 4),
    ]
    assert next(check.findings()).says == (
        "the service refused the conversation of host, which goes on at repair level 1: "
        "every reply goes as if another model had made it"
    )
