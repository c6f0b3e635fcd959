"""The contexts of the specialists."""

import asyncio
from collections.abc import Iterable

from regreader.index import Index
from regreader.reader import SPECIALISTS, Settings, registry
from regreader.tools import Tools

from callboard import Call, ModelRequest, Runtime, ScriptedModel, call
from callboard.orchestrator import ModelAnalyzer, Orchestrator, QueryIntent, Specialist
from callboard.runtime.schemas.output_types import output_type

CHARS_PER_TOKEN = 4


def requests_of(specialists: Iterable[Specialist]) -> dict[str, ModelRequest]:
    """Return the first request of each specialist, as its model is sent it."""
    found: dict[str, ModelRequest] = {}

    def policy(request: ModelRequest) -> Call:
        found[request.profile] = request
        return call("report_back", success=True, content="x")

    async def body() -> None:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            for one in specialists:
                await runtime.run(Orchestrator([one]), "x")

    asyncio.run(body())
    return found


def test_a_specialist_has_a_small_context_with_its_report_tool() -> None:
    tools = Tools(Index(":memory:"))
    several = registry(tools, Settings(model="x", orchestrate=True))
    requests = requests_of([*several, *registry(tools, Settings(model="x"))])
    counts = {
        name: (len(bytes(one.system)) + sum(len(bytes(tool)) for tool in one.tools)) // CHARS_PER_TOKEN
        for name, one in requests.items()
    }
    alone = counts.pop("reader")
    assert counts.keys() == {*SPECIALISTS}
    assert all(count <= 600 for count in counts.values()), counts
    assert alone > 1.4 * max(counts.values())


def test_a_model_backed_analyser_has_a_small_context() -> None:
    schema = len(bytes(output_type(QueryIntent).schema))
    assert (len(ModelAnalyzer(SPECIALISTS).system) + schema) // CHARS_PER_TOKEN <= 800
