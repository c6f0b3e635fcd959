"""What holds for agents of every framework where people take part: approvals, and earlier asks."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.approvals import Approval
from callboard.runtime.models.scripted import ScriptedModel, call
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.outcomes import Outcome
from tests.runtime.brains.kit import FRAMEWORKS, PARAMS, Framework, turns_in

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # A Claude client that is given up leaves a stream of its SDK to the garbage collection.
    pytest.mark.filterwarnings("ignore:.*(MemoryObject|Subprocess):pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*MemoryObject.*:ResourceWarning"),
]

Decide = Callable[[Approval], object]


@pytest.fixture
def framework(request: pytest.FixtureRequest) -> Framework:
    """Return a framework by its name."""
    return FRAMEWORKS[request.param]


every = pytest.mark.parametrize("framework", PARAMS, indirect=True)


class Asked:
    """An ask of an expert.

    asks: the tool whose calls a person approves. seen: the requests. notes: its deeds.
    """

    def __init__(self, framework: Framework, answers: list[Any] | None = None, asks: str = "save") -> None:
        self.framework = framework
        self.asks = asks
        self.answers = [*framework.answers] if answers is None else answers
        self.notes: list[str] = []
        self.seen: list[ModelRequest] = []
        self.questions: list[Approval] = []

    def policy(self, request: ModelRequest) -> Any:
        """Answer, and keep the request."""
        self.seen.append(request)
        return self.answers[turns_in(request)]

    def run(self, decide: Decide | None, log: Path | str = ":memory:", **more: Any) -> Outcome[Any]:
        """Run it. decide: answers each question; None lets it wait."""

        async def approve(question: Approval) -> None:
            self.questions.append(question)
            if decide is not None:
                decide(question)

        async def ask() -> Outcome[Any]:
            brain = self.framework.brain(self.notes, approvals={self.asks: "before"})
            async with Runtime(log, model=ScriptedModel(self.policy), approve=approve) as runtime:
                outcome: Outcome[Any] = await runtime.run(brain, "2+3?", session_id="s", **more)
                return outcome

        return asyncio.run(ask())

    @property
    def saved(self) -> list[str]:
        """Return the keys of the writes that were done."""
        return [one.split()[1] for one in self.notes if one.startswith("save")]

    @property
    def failures(self) -> str:
        """Return the texts of the failed calls that the model has read."""
        return " ".join(text for text, is_error in self.results if is_error)

    @property
    def results(self) -> list[tuple[str, bool]]:
        """Return the texts of the results that the model has read, and whether each is an error."""
        blocks = [block for said in self.seen[-1].conversation for block in said["content"]]
        found = [block for block in blocks if block["type"] == "tool_result"]
        return [(_text(block["content"]), block.get("is_error", False)) for block in found]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


@every
def test_a_call_that_a_person_approves_is_made(framework: Framework) -> None:
    asked = Asked(framework)
    outcome = asked.run(Approval.approve)
    assert ((outcome.kind, outcome.text), asked.saved) == (framework.end, ["k"])
    [question] = asked.questions
    assert (question.tool, question.effect, question.arguments) == ("save", "write", {"key": "k"})


@every
def test_a_call_that_a_person_denies_is_told_as_a_failure_and_the_run_goes_on(framework: Framework) -> None:
    asked = Asked(framework)
    outcome = asked.run(lambda question: question.deny("not today"))
    assert ((outcome.kind, outcome.text), asked.saved) == (framework.end, [])
    assert "not today" in asked.failures


@every
def test_a_question_that_expires_is_a_denial(framework: Framework) -> None:
    asked = Asked(framework)
    outcome = asked.run(None, limits=Limits(approval_timeout_s=0.05))
    assert ((outcome.kind, outcome.text), asked.saved) == (framework.end, [])
    assert "expired" in asked.failures


@every
def test_a_call_is_made_with_the_arguments_that_a_person_gives_instead(framework: Framework) -> None:
    asked = Asked(framework)
    outcome = asked.run(lambda question: question.approve(arguments={"key": "z"}))
    assert ((outcome.kind, outcome.text), asked.saved) == (framework.end, ["z"])
    told = [one for one in asked.results if "other arguments" in one[0]]
    assert told == [('This call was approved with other arguments: {"key":"z"}\nsaved z', False)]


@every
def test_a_failed_call_says_which_arguments_a_person_gave_it(framework: Framework) -> None:
    asked = Asked(framework, asks="add")
    outcome = asked.run(
        lambda question: question.approve(
            arguments={"a": 9, "b": 7} if question.arguments["a"] == 2 else None
        )
    )
    assert (outcome.kind, outcome.text) == framework.end
    failures = asked.failures.replace("\\", "")  # a framework may tell a failure as JSON
    assert failures.count('This call was approved with other arguments: {"a":9,"b":7}') == 1
    assert not any("other arguments" in text for text, is_error in asked.results if not is_error)


@every
def test_a_permission_for_always_covers_later_calls_of_the_tool(framework: Framework) -> None:
    first = next(at for at, reply in enumerate(framework.answers) if "save" in repr(reply))
    answers = [*framework.answers]
    answers.insert(first + 1, call(f"{framework.prefix}save", key="l"))
    asked = Asked(framework, answers)
    outcome = asked.run(lambda question: question.approve(always=True))
    assert ((outcome.kind, outcome.text), asked.saved) == (framework.end, ["k", "l"])
    assert len(asked.questions) == 1


@every
def test_a_question_outlives_its_process(framework: Framework, tmp_path: Path) -> None:
    asked, log = Asked(framework), tmp_path / "log.db"
    after = Asked(framework)

    def die(question: Approval) -> None:
        for end in ("", "-wal", "-shm"):  # as a kill would leave them
            shutil.copy(f"{log}{end}", tmp_path / f"killed.db{end}")
        question.deny()

    asked.run(die, log)

    async def resume() -> Outcome[Any]:
        brain = framework.brain(after.notes, approvals={"save": "before"})
        async with Runtime(tmp_path / "killed.db", model=ScriptedModel(after.policy)) as runtime:
            session = await runtime.resume("s", brain)
            async for question in session.approvals():
                assert question.arguments == {"key": "k"}
                question.approve()
                break
            return await session.outcome

    outcome = asyncio.run(resume())
    assert ((outcome.kind, outcome.text), after.saved) == (framework.end, ["k"])
    answered = next(turns_in(one) for one in after.seen)
    assert answered >= 1  # no answer that was on disk is asked for again
    with Recording.open(tmp_path / "killed.db", "s") as recording:
        assert recording.verify().is_ok
        assert sum(isinstance(event.body, ToolStarted) for event in recording.events) == 1


@every
def test_a_second_question_of_a_session_sees_the_first(framework: Framework) -> None:
    heard: list[str] = []

    def answers(request: ModelRequest) -> Any:
        heard.append(str(request.conversation))
        return framework.answers[-1]

    async def talk() -> None:
        async with Runtime(":memory:", model=ScriptedModel(answers)) as runtime:
            session = await runtime.open(framework.brain())
            await session.ask("one?")
            await session.ask("two?")

    asyncio.run(talk())
    assert "one?" in heard[0]
    assert "two?" in heard[1]
    assert ("one?" in heard[1]) == (not framework.is_forgetful)
    assert (heard[1].count("5") > heard[0].count("5")) == (not framework.is_forgetful)
