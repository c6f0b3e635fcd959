"""Decision models of LangChain: each of their questions is one of the session, made once and counted."""

from typing import Any

import pytest
from langchain.agents.middleware import AutoModeMiddleware, ModelChoice, ModelRouterMiddleware
from langchain_core.decisions import (
    BaseDecisionModel,
    Choice,
    ChoiceAnswer,
    ClassifierRequest,
    ClassifierResponse,
    Noul,
    NoulAnswer,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState
from pydantic import Field

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import SessionChatModel, langgraph_agent
from callboard.runtime.brains.langgraph_decisions import answers_of
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.testing import simulate
from tests.runtime.brains.graphs import OwnChat, agent, one_node
from tests.runtime.brains.kit import results, run, turns_in


class Decider(BaseDecisionModel):
    """Says how risky a call is, and chooses the last label. It may fail before that."""

    model: str = "judge"
    risk: float = 0.1
    fails: list[Any] = Field(default_factory=list)
    asked: list[Any] = Field(default_factory=list)

    @property
    def _provider(self) -> str:
        return "fake"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        self.asked.append(state)
        if self.fails:
            raise self.fails.pop()
        usage: Any = {"input_tokens": 7, "output_tokens": 2}
        answers = {name: self._answer(one) for name, one in questions.items()}
        return ClassifierResponse(model="judge-1", answers=answers, usage=usage)

    async def _aclassify(self, state: Any, questions: Any) -> ClassifierResponse:
        return self._classify(state, questions)

    def _answer(self, question: Any) -> Any:
        if isinstance(question, Noul):
            return NoulAnswer(type="noul", noul=self.risk)
        assert isinstance(question, Choice)
        *_, last = question.criteria
        return ChoiceAnswer(type="choice", choice=last, probabilities={last: 1.0}, confidence=1.0)


@tool
def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def policy(request: ModelRequest) -> Any:
    return say(str(results(request))) if turns_in(request) else call("pay", euros=1)


def guarded(decider: Decider) -> Any:
    return langgraph_agent(agent(pay, middleware=[AutoModeMiddleware(tools=[pay], classifier=decider)]))


@pytest.mark.parametrize(("risk", "told"), [(0.1, "paid 1"), (0.9, "blocked because it was classified")])
def test_a_decision_about_a_call_is_a_question_of_the_session(risk: float, told: str) -> None:
    decider = Decider(risk=risk)
    outcome = run(guarded(decider), policy)
    assert told in outcome.text
    assert (outcome.usage.calls, len(decider.asked)) == (3, 1)
    # The kit executes the program again for each step: a decision of its own would be made each time.
    simulate(guarded(decider), policy, "go")
    assert len(decider.asked) == 2


def test_a_router_asks_its_decision_model_and_then_the_model_that_it_has_chosen() -> None:
    fast, slow = OwnChat(model_name="fast"), OwnChat(model_name="slow", says="slow")
    choices = {"a": ModelChoice(fast, "easy"), "b": ModelChoice(slow, "hard")}
    with pytest.warns(match="ModelRouterMiddleware"):
        router = ModelRouterMiddleware(choices=choices, instructions="Which?", classifier=Decider())
    brain = langgraph_agent(agent(middleware=[router]))
    assert [one.spec.name for one in brain.models] == [
        "langchain:fake:fast",
        "langchain:fake:slow",
        "langchain:fake:judge",
    ]
    outcome = run(brain)
    assert (outcome.text, outcome.usage.calls, fast.asked) == ("slow 1", 2, [])


def test_a_synchronous_node_decides_too_though_one_model_answers_for_all_chat_models() -> None:
    decider, other = Decider(risk=0.75), Decider()

    def node(state: MessagesState) -> Any:
        asked = ClassifierRequest(state="x", questions={"q": Noul(instructions="?")})
        risks = [one.invoke(asked).nouls["q"].noul for one in (decider, other)]
        return {"messages": [AIMessage(f"{risks} {SessionChatModel().invoke('y').text}")]}

    brain = langgraph_agent(one_node(node), model=ScriptedModel(["all"]))
    assert [one.spec.name for one in brain.models] == ["langchain:fake:judge", "langchain:fake:judge#2"]
    assert run(brain).text == "[0.75, 0.1] all"


def test_a_state_keeps_its_messages_without_the_ids_that_are_chance() -> None:
    decider = Decider()
    said: list[BaseMessage] = [
        HumanMessage([{"type": "image", "base64": "AA==", "mime_type": "image/png"}], id="by chance"),
        AIMessage("x", tool_calls=[{"id": "c", "name": "pay", "args": {"euros": 1}}], id="1"),
        ToolMessage("paid", tool_call_id="c", status="error"),
    ]
    state: Any = {"messages": said, "more": [{"n": None, "at": 1.5}], "last": said[-1]}

    async def node(_: MessagesState) -> Any:
        asked = ClassifierRequest(state=state, questions={"q": Noul(instructions={"a": [1]})})
        await decider.ainvoke(asked)
        return {"messages": [AIMessage("done")]}

    assert run(langgraph_agent(one_node(node))).text == "done"
    found = decider.asked[0]
    assert [one.id for one in found["messages"]] == [None, None, None]
    assert found["messages"] == [one.model_copy(update={"id": None}) for one in said]
    assert (found["more"], found["last"]) == (state["more"], said[-1])


def test_a_decision_that_fails_is_tried_again_and_one_past_a_limit_ends_the_brain() -> None:
    decider = Decider(fails=[ConnectionError("gone")])
    assert "paid 1" in run(guarded(decider), policy).text
    assert len(decider.asked) == 2
    wrong = run(guarded(Decider(fails=[ZeroDivisionError("none")])), policy)
    assert (wrong.kind, "ZeroDivisionError" in wrong.detail) == ("model_error", True)
    capped = run(guarded(Decider()), policy, limits=Limits(max_iterations=1))
    assert (capped.kind, capped.usage.calls) == ("iteration_cap", 1)


def test_a_decision_model_that_a_node_makes_is_refused() -> None:
    async def node(state: MessagesState) -> Any:
        late = type(Decider())()
        await late.ainvoke({"state": "x", "questions": {"q": Noul(instructions="?")}})

    outcome = run(langgraph_agent(one_node(node)))
    assert (outcome.kind, "Decider is made while the graph runs" in outcome.detail) == ("crashed", True)


def test_a_reply_without_answers_says_how_a_test_answers() -> None:
    with pytest.raises(MisuseError, match=r"'judge' has no answers \(.*ClassifierResponse"):
        answers_of("fine", "judge")
