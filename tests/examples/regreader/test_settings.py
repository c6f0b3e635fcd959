"""The settings, and the contexts that they give the specialists."""

import asyncio
from pathlib import Path

import msgspec
import pytest
import regreader.cli as cli
from click.testing import CliRunner, Result
from regreader.index import Index
from regreader.settings import Settings
from regreader.specialists import NAMES, registry, single
from regreader.tools import Tools

from callboard import (
    Call,
    ModelAnalyzer,
    ModelRequest,
    Orchestrator,
    OrchestratorResult,
    QueryIntent,
    Runtime,
    ScriptedModel,
    Specialist,
    call,
)
from callboard.runtime.schemas.output_types import output_type

CHARS_PER_TOKEN = 4


@pytest.fixture
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Return the settings that `ask` was called with, which asks nothing here."""
    found: list[Settings] = []

    class Answers:
        def __init__(self, settings: Settings, agent: str) -> None:
            found.append(settings)

        async def __aenter__(self) -> "Answers":
            return self

        async def aclose(self) -> None: ...

        async def ask(self, *asked: object) -> OrchestratorResult:
            return OrchestratorResult(True)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "Reader", Answers)
    monkeypatch.setattr(cli, "_known", lambda path: ["x"])
    return found


def ask(*words: str, environment: dict[str, str] | None = None, at_group: tuple[str, ...] = ()) -> Result:
    return CliRunner().invoke(cli.main, [*at_group, "ask", "x", *words], env=environment)


def test_arguments_win_over_the_environment_and_that_over_the_file(used: list[Settings]) -> None:
    Path("regreader.toml").write_text('model = "file"\nindex = "file.db"\norchestrator_mode = "parallel"\n')
    environment = {
        "REGREADER_MODEL": "env",
        "REGREADER_INDEX": "env.db",
        "REGREADER_ENABLE_ORCHESTRATOR": "true",
    }
    done = ask(environment=environment, at_group=("--index", "arg.db"))
    assert done.exit_code == 0, done.output
    assert used == [Settings("arg.db", "env", enable_orchestrator=True, orchestrator_mode="parallel")]


def test_every_setting_is_an_argument_and_a_variable_and_a_value_of_a_file(used: list[Settings]) -> None:
    wanted = Settings("x.db", "m", True, ("table", "discovery"), 3, "parallel")
    words = (
        "-o",
        "--model",
        "m",
        "--subagents",
        "table,discovery",
        "--max-iterations",
        "3",
        "--mode",
        "parallel",
    )
    ask(*words, at_group=("--index", "x.db"))
    given = msgspec.to_builtins(wanted)
    ask(environment={f"REGREADER_{name.upper()}": str(value) for name, value in given.items()} | {
        "REGREADER_ENABLED_SUBAGENTS": "table, discovery"
    })  # fmt: skip
    Path("y.toml").write_text(
        "\n".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in given.items())
    )
    ask(at_group=("--config", "y.toml"))
    ask(environment={"REGREADER_CONFIG": "y.toml"})
    assert used == [wanted] * 4


@pytest.mark.parametrize(
    "environment",
    [
        {"REGREADER_ORCHESTRATOR_MODE": "both"},
        {"REGREADER_ENABLE_ORCHESTRATOR": "maybe"},
        {"REGREADER_SUBAGENT_MAX_ITERATIONS": "x"},
        {"REGREADER_SUBAGENT_MAX_ITERATIONS": "0"},
    ],
)
def test_a_variable_that_cannot_be_used_is_named(used: list[Settings], environment: dict[str, str]) -> None:
    done = ask(environment=environment)
    assert (done.exit_code, used) == (2, [])
    assert next(iter(environment)) in done.stderr


@pytest.mark.parametrize(
    "text", ["x = ", "moon = 1", 'orchestrator_mode = "both"', 'enabled_subagents = "all"']
)
def test_a_file_that_cannot_be_used_is_named(used: list[Settings], text: str) -> None:
    Path("regreader.toml").write_text(text)
    done = ask()
    assert (done.exit_code, used) == (2, [])
    assert "regreader.toml: " in done.stderr
    assert "settings are index, model" in done.stderr


def requests_of(specialists: list[Specialist]) -> dict[str, ModelRequest]:
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
    settings = Settings(model="x", enabled_subagents=NAMES)
    requests = requests_of([*registry(tools, settings), single(tools, settings)])
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
