"""A support desk of the OpenAI Agents SDK: a hand-off, a check, and a refund that a person approves.

    python examples/support_desk.py

The agents are those of the SDK, unchanged. The model is a script here, so no key is needed.
"""

import asyncio

from agents import Agent as OpenAIAgent
from agents import function_tool
from pydantic import BaseModel

from callboard import Call, Limits, ModelRequest, Reply, Runtime, ScriptedModel, call, calls
from callboard.brains import openai_agent


class Answer(BaseModel):
    """The answer of the desk."""

    text: str
    refunded: int


@function_tool
def find_order(number: str) -> str:
    """Find an order."""
    return f"order {number}: a lamp, 40 euros, arrived broken"


@function_tool(needs_approval=True)
def refund(number: str, euros: int) -> str:
    """Refund an order."""
    return f"refunded {euros} euros of order {number}"


billing = OpenAIAgent(
    "Billing agent",
    handoff_description="Answers questions about orders and money.",
    instructions="Find the order first. Refund what arrived broken.",
    tools=[find_order, refund],
    output_type=Answer,
)
desk = OpenAIAgent("Support desk", instructions="Hand off.", handoffs=[billing], output_type=Answer)


def policy(request: ModelRequest) -> Reply | Call:
    """Stand for the model."""
    steps: list[Reply | Call] = [
        call("transfer_to_billing_agent"),
        call("find_order", number="A7"),
        calls(call("refund", number="A7", euros=40), text="It arrived broken."),
        call("final_output", text="Your 40 euros are on the way.", refunded=40),
    ]
    return steps[request.length // 2]


async def main() -> None:
    """Ask the desk, and approve the refund."""
    brain = openai_agent(desk, effects={"find_order": "read"}, limits=Limits(max_iterations=10))
    async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
        session = await runtime.open(brain)
        ask = asyncio.create_task(session.ask("My lamp arrived broken. Order A7."))
        async for approval in session.approvals():
            print(f"approved: {approval.tool} {approval.arguments}")
            approval.approve()
            break
        outcome = await ask
        print(f"{outcome.kind}: {outcome.text}")
        print(f"{outcome.usage.calls} model calls")


if __name__ == "__main__":
    asyncio.run(main())
