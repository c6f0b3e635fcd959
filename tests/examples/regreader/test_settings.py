"""The settings, and the contexts that they give the specialists."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from regreader.index import Index
from regreader.settings import Settings, SettingsError, load
from regreader.specialists import NAMES, registry, single
from regreader.tools import Tools

from callboard import Agent, ModelAnalyzer, QueryIntent
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
        {"REGREADER_ORCHESTRATOR_MODE": "both"},
        {"REGREADER_ENABLE_ORCHESTRATOR": "maybe"},
        {"REGREADER_SUBAGENT_MAX_ITERATIONS": "x"},
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="settings are index, model"):
        load({}, environment)


@pytest.mark.parametrize("text", ["x = ", "moon = 1"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(SettingsError):
        load({}, {}, tmp_path / "x.toml")


def tokens(agent: Agent) -> int:
    """Estimate the tokens of an agent's instructions and tools."""
    profile = agent.profile()
    tools = sum(len(msgspec.json.encode(spec)) for spec in profile.tools)
    return (len(bytes(profile.instructions)) + tools) // CHARS_PER_TOKEN


def test_a_specialist_has_a_small_context() -> None:
    tools = Tools(Index(":memory:"))
    every = [*registry(tools, Settings(enabled_subagents=NAMES)), single(tools, Settings())]
    counts = {one.name: tokens(replace(one, policy=None).agent()) for one in every}
    alone = counts.pop("reader")
    assert all(count <= 600 for count in counts.values()), counts
    assert alone > 2 * max(counts.values())


def test_a_model_backed_analyser_has_a_small_context() -> None:
    schema = len(bytes(output_type(QueryIntent).schema))
    assert (len(ModelAnalyzer(NAMES).system) + schema) // CHARS_PER_TOKEN <= 800
