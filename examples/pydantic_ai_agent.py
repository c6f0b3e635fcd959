"""An agent of Pydantic AI as a sub-agent: a typed result, a tool that a person approves, and a restart.

    python examples/pydantic_ai_agent.py

The model is a script here. An agent of the framework that has a model of its own asks that one.
"""

import asyncio
import contextlib
import tempfile
from pathlib import Path

from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelRetry

from callboard import Agent, Call, Limits, ModelRequest, Reply, Runtime, ScriptedModel, call, calls, say
from callboard.brains import pydantic_ai_agent
from callboard.errors import SessionDetached


class Receipt(BaseModel):
    """What was paid."""

    euros: int
    to: str


cashier: PydanticAgent[None, Receipt] = PydanticAgent(
    name="cashier", description="Pays bills.", instructions="Pay what the bill says.", output_type=Receipt
)


@cashier.tool_plain
def bill_of(shop: str) -> str:
    """Read the bill of a shop."""
    return f"{shop}: 40 euros"


@cashier.tool_plain(requires_approval=True)
def pay(euros: int, to: str) -> str:
    """Pay."""
    return f"paid {euros} euros to {to}"


@cashier.output_validator
def is_whole(receipt: Receipt) -> Receipt:
    """Let the model correct a receipt without a shop."""
    if not receipt.to:
        raise ModelRetry("say to whom")
    return receipt


brain = pydantic_ai_agent(cashier, effects={"bill_of": "read", "pay": "write"}, limits=Limits(tokens=20_000))
host = Agent("host", instructions="Let the cashier pay.", agents=[brain])


def answer(request: ModelRequest) -> Reply | Call:
    """Stand for the models of the host and of the cashier."""
    turn = sum(said["role"] == "assistant" for said in request.conversation)
    who = "host" if request.profile == "host" else "cashier"
    print(f"  {who} asks the model, with {turn} replies before")
    if who == "host":
        return (
            say("The baker is paid.") if turn else calls(call("task", agent="cashier", prompt="The baker."))
        )
    steps = [
        call("bill_of", shop="baker"),
        call("pay", euros=40, to="baker"),
        call("final_result", euros=40, to=""),
        call("final_result", euros=40, to="baker"),
    ]
    return calls(steps[turn])


async def main() -> None:
    """Ask, stop while a person thinks, and go on in another runtime."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "bills.db"
        print("first process:")
        async with Runtime(log, model=ScriptedModel(answer)) as runtime:
            session = await runtime.open(host, session_id="bills")
            ask = asyncio.ensure_future(session.ask("Pay the baker."))
            question = await anext(aiter(session.approvals()))
            print(f"  a person is asked: {question.tool} {question.arguments['euros']}")
        with contextlib.suppress(SessionDetached):
            await ask
        print("second process:")
        async with Runtime(log, model=ScriptedModel(answer)) as runtime:
            session = await runtime.resume("bills", host)
            question = await anext(aiter(session.approvals()))
            question.approve(by="ann")
            outcome = await session.outcome
        print(f"{outcome.text} {outcome.usage.calls} model calls")
        print(*(one.text for one in outcome.delegations if one.profile == "cashier"))


if __name__ == "__main__":
    asyncio.run(main())
