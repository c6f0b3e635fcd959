"""Budget the tenants of a service: no tenant spends more than its share, and the bill is a report.

    python examples/tenants.py

It needs no network and no key: a script stands for the model service.
"""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

from callboard import Agent, Budget, Runtime, ScriptedModel, Usage, say

# Each call may use up to 1,000 tokens of output, and uses 800.
MODEL = ScriptedModel(
    lambda request: say("Done."), name="service", max_tokens=1_000, usage=Usage(output_tokens=800)
)
CLERK = Agent("clerk", instructions="Answer the customer.", model=MODEL)
BUDGETS = {
    "tenant:*": Budget(tokens=4_000, per="day"),  # one for each tenant
    "*": Budget(tokens=1_000_000, per="month"),  # one for all of them
}
ASKED = {"acme": 8, "bikes": 2}


async def serve(path: Path) -> None:
    """Answer the questions of two tenants at once, then print who got answers and who pays what."""
    async with Runtime(path, budgets=BUDGETS) as runtime:

        async def ask(tenant: str) -> tuple[str, str]:
            outcome = await runtime.run(CLERK, "How much is it?", tags=[f"tenant:{tenant}"])
            return tenant, outcome.kind

        asks = [ask(tenant) for tenant, count in ASKED.items() for _ in range(count)]
        for (tenant, kind), count in sorted(Counter(await asyncio.gather(*asks)).items()):
            print(f"{tenant}: {count} {kind}")
        for scope in (await runtime.budgets()).scopes:
            print(f"{scope.scope}: {scope.spent_tokens:,} of {scope.budget.tokens:,} tokens")
        for line in (await runtime.usage(by="tag")).lines:
            print(f"bill of {line.key}: {line.usage.calls} calls, {line.usage.tokens:,} tokens")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(serve(Path(folder, "callboard.db")))
