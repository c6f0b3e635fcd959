"""A client of the Claude Agent SDK as a sub-agent: its tools, a tool that is not repeated, and a budget.

    python examples/claude_agent.py

The client is the real one, in a process of its own. The model is a script here.
"""

from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from callboard import Agent, Call, Limits, ModelRequest, Reply, Runtime, ScriptedModel, call, calls, say
from callboard.brains import claude_agent


@tool("bill_of", "Read the bill of a shop.", {"shop": str})
async def bill_of(given: dict[str, Any]) -> dict[str, Any]:
    """Read the bill of a shop."""
    return {"content": [{"type": "text", "text": f"{given['shop']}: 40 euros"}]}


@tool("pay", "Pay.", {"euros": int, "to": str})
async def pay(given: dict[str, Any]) -> dict[str, Any]:
    """Pay."""
    print(f"  paid {given['euros']} euros to {given['to']}")
    return {"content": [{"type": "text", "text": "paid"}]}


options = ClaudeAgentOptions(
    system_prompt="Pay what the bill says.",
    mcp_servers={"till": create_sdk_mcp_server("till", tools=[bill_of, pay])},
)
cashier = claude_agent(
    options,
    "cashier",
    description="Pays bills.",
    effects={"bill_of": "read"},
    limits=Limits(tokens=60_000),
)
host = Agent("host", instructions="Let the cashier pay.", agents=[cashier])


def answer(request: ModelRequest) -> Reply | Call:
    """Stand for the models of the host and of the cashier."""
    turn = sum(said["role"] == "assistant" for said in request.conversation)
    if request.profile == "host":
        return say("The baker is paid.") if turn else call("task", agent="cashier", prompt="The baker.")
    if turn == 0:
        return calls(call("mcp__till__bill_of", shop="baker"))
    return calls(call("mcp__till__pay", euros=40, to="baker")) if turn == 1 else say("Paid 40 euros.")


if __name__ == "__main__":
    outcome = Runtime(":memory:", model=ScriptedModel(answer)).run_sync(host, "Pay the baker.")
    print(outcome.text, outcome.usage.calls, "model calls")
    print(*(one.text for one in outcome.delegations if one.profile == "cashier"))
