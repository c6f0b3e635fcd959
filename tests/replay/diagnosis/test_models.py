import msgspec
import pytest

from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.models import ChargedCalls, OtherModels
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Reply, Step, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.testing import simulate
from tests.golden import golden


def told(*answered: str, asked: str = "", fallback: str = "small") -> list[str]:
    """Diagnose replies to one agent of the model `large`: the names that the service says."""
    (begin, *_) = (event for event in golden("everything") if event.kind == "Begin")
    assert isinstance(begin.body, Begin)
    model = ModelSpec("large", fallback=(ModelSpec(fallback),))
    check = OtherModels()
    check.take(msgspec.structs.replace(begin, body=msgspec.structs.replace(begin.body, model=model)))
    for turn, name in enumerate(answered, 1):
        request, reply = TurnRequested(turn, model=asked), ModelReplied(turn, model=name)
        check.take(msgspec.structs.replace(begin, sender=begin.recipient, body=request))
        check.take(msgspec.structs.replace(begin, seq=turn, body=reply))
    return [finding.says for finding in check.findings()]


@pytest.mark.parametrize(
    "names", [("", ""), ("large-2025-05-14",) * 2, ("lar",), ("deployment-7",) * 3], ids=" ".join
)
def test_a_service_may_have_its_own_name_for_a_model(names: tuple[str, ...]) -> None:
    assert told(*names) == []


def test_a_fallback_is_another_model() -> None:
    assert told("", "", asked="small") == ["host was to ask large, and small answered 2 turns from 1 on"]


def test_a_name_of_another_known_model_or_a_changed_name_is_another_model() -> None:
    assert told("small") == ["host was to ask large, and small answered turn 1"]
    assert told("deployment-7", "deployment-8") == ["host was to ask large, and deployment-8 answered turn 2"]


def test_the_steps_of_a_program_are_no_replies_of_another_model() -> None:
    @program(name="asker", description="Asks.")
    async def asker(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.ask_model(prompt)

    check = OtherModels()
    for event in simulate(asker, lambda request: say("yes"), "Is it?").events:
        if event.kind in check.kinds:
            check.take(event)
    assert [finding.says for finding in check.findings()] == []


def test_an_ask_that_pays_more_for_lost_answers_than_for_others_is_found() -> None:
    def found(lost: int, used: int) -> list[Finding]:
        steps: list[Step] = [ModelFailure("timeout", "no answer", is_retryable=True)] * lost
        said, check = iter([*steps, Reply("Done.", usage=Usage(input_tokens=used))]), ChargedCalls()
        for event in simulate(Agent("host"), lambda request: next(said), "Go.").events:
            if event.kind in check.kinds:
                check.take(event)
        return [*check.findings()]

    (finding,) = found(3, 10)
    assert "were charged for calls without figures" in finding.says
    assert finding.agent == "host"
    assert found(3, 1_000_000) == found(1, 10) == []
