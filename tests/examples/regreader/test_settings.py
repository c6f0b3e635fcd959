"""The settings, and the contexts that they give the specialists."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from regreader.cli import main
from regreader.index import Index
from regreader.reader import registry
from regreader.settings import NAMES, Settings, SettingsError, load
from regreader.tools import Tools

from callboard import (
    Call,
    ModelAnalyzer,
    ModelRequest,
    Orchestrator,
    QueryIntent,
    Runtime,
    ScriptedModel,
    Specialist,
    call,
)
from callboard.runtime.schemas.output_types import output_type

CHARS_PER_TOKEN = 4


def test_arguments_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('model = "file"\nindex = "file.db"\norchestrator_mode = "parallel"\n')
    environment = {
        "REGREADER_MODEL": "env",
        "REGREADER_INDEX": "env.db",
        "REGREADER_ENABLE_ORCHESTRATOR": "true",
    }
    found = load({"index": "arg.db", "model": None}, environment, file)
    assert found == Settings("arg.db", "env", enable_orchestrator=True, orchestrator_mode="parallel")


def test_the_environment_takes_lists_and_numbers() -> None:
    environment = {
        "REGREADER_ENABLED_SUBAGENTS": "table, discovery",
        "REGREADER_SUBAGENT_MAX_ITERATIONS": "3",
    }
    found = load({}, environment)
    assert (found.enabled_subagents, found.subagent_max_iterations) == (("table", "discovery"), 3)


@pytest.mark.parametrize(
    "environment",
    [
        {"REGREADER_MODLE": "x"},
        {"REGREADER_ENABLED_SUBAGENTS": "moon"},
        {"REGREADER_SUBAGENT_MAX_ITERATIONS": "0"},
        {"REGREADER_ORCHESTRATOR_MODE": "both"},
        {"REGREADER_ENABLE_ORCHESTRATOR": "maybe"},
        {"REGREADER_SUBAGENT_MAX_ITERATIONS": "x"},
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_is_named(environment: dict[str, str]) -> None:
    name = next(iter(environment)).removeprefix("REGREADER_").lower()
    with pytest.raises(SettingsError, match=rf"^environment: .*{name}.*; settings are index, model"):
        load({}, environment)


@pytest.mark.parametrize("text", ["x = ", "moon = 1", "model = 3", 'enabled_subagents = ["moon"]'])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"x\.toml: "):
        load({}, {}, tmp_path / "x.toml")


def test_every_setting_has_an_argument() -> None:
    names = {option.name for command in (main, main.commands["ask"]) for option in command.params}
    assert names >= set(Settings.__struct_fields__)


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
    several = registry(tools, Settings(model="x", enable_orchestrator=True, enabled_subagents=NAMES))
    requests = requests_of([*several, *registry(tools, Settings(model="x"))])
    counts = {
        name: (len(bytes(one.system)) + sum(len(bytes(tool)) for tool in one.tools)) // CHARS_PER_TOKEN
        for name, one in requests.items()
    }
    alone = counts.pop("reader")
    assert counts.keys() == {*NAMES}
    assert all(count <= 600 for count in counts.values()), counts
    assert alone > 1.9 * max(counts.values())


def test_a_model_backed_analyser_has_a_small_context() -> None:
    schema = len(bytes(output_type(QueryIntent).schema))
    assert (len(ModelAnalyzer(NAMES).system) + schema) // CHARS_PER_TOKEN <= 800
