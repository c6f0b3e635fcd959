import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import MissingKey
from callboard.cli.errors import FAILED, NOT_FOUND, USAGE, Failure
from callboard.cli.loading import choose_model, load_agent
from callboard.runtime.agent import Agent
from callboard.runtime.models.anthropic.model import AnthropicModel
from callboard.runtime.models.scripted import ScriptedModel
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program

MODULE = """
from callboard import Agent, AnthropicModel, ScriptedModel
print("loading")
explorer = Agent("explorer")
host = Agent("host", agents=[explorer], model=ScriptedModel(["hi"]))
number = 3

def make() -> Agent:
    return host

def broken() -> Agent:
    raise RuntimeError("no luck")

def wrong():
    return 3

def needs(something) -> Agent:
    return host

class Box:
    inner = host
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder with a module of agents the current one; restore the interpreter afterwards."""
    (tmp_path / "agents_of_test.py").write_text(MODULE)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other_agents.py").write_text(MODULE)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def failure(spec: str) -> Failure:
    with pytest.raises(Failure) as caught:
        load_agent(spec)
    return caught.value


def test_an_agent_is_found_in_a_module_of_the_current_folder() -> None:
    assert load_agent("agents_of_test:host").name == "host"


def test_an_agent_is_found_in_a_file() -> None:
    assert load_agent("sub/other_agents.py:explorer").name == "explorer"
    assert load_agent("sub/other_agents.py:host") is load_agent("sub/other_agents.py:host")


def test_a_function_without_arguments_makes_the_agent() -> None:
    assert load_agent("agents_of_test:make").name == "host"


def test_a_dotted_name_reaches_inside() -> None:
    assert load_agent("agents_of_test:Box.inner").name == "host"


def test_what_a_module_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    load_agent("agents_of_test:host")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "loading" in printed.err


def test_an_unknown_module_is_answered_with_the_modules_there_are() -> None:
    found = failure("agents_of_tset:host")
    assert found.exit_code == NOT_FOUND
    assert "agents_of_test.py" in found.message
    assert "pack/" in found.message


def test_an_unknown_file_is_answered_with_the_files_there_are() -> None:
    found = failure("sub/nothing.py:host")
    assert found.exit_code == NOT_FOUND
    assert "other_agents.py" in found.message


def test_an_unknown_attribute_is_answered_with_the_agents_there_are() -> None:
    found = failure("agents_of_test:hots")
    assert found.exit_code == NOT_FOUND
    assert "explorer, host, make (a function)" in found.message.replace("broken (a function), ", "")


def test_an_installed_module_of_the_same_name_is_named_with_its_file(folder: Path) -> None:
    (folder / "msgspec.py").write_text(MODULE)
    said = failure("msgspec:host").message
    assert "msgspec (" in said
    assert "__init__.py; rename the file msgspec.py here) has no 'host'" in said
    taken = failure("msgspec.py:host")
    assert taken.exit_code == USAGE
    assert "msgspec.py: a module 'msgspec' is already loaded from " in taken.message
    assert "(" not in failure("agents_of_test:nobody").message.split(" has no ")[0]


def test_the_current_folder_is_looked_at_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub" / "agents_of_test.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(folder / "sub"), str(folder), *sys.path])
    assert load_agent("agents_of_test:host").name == "host"


@pytest.mark.parametrize("attribute", ["number", "needs", "wrong"])
def test_an_attribute_that_neither_is_nor_makes_an_agent_is_refused(attribute: str) -> None:
    found = failure(f"agents_of_test:{attribute}")
    assert found.exit_code == USAGE
    assert "Agent" in found.message
    assert "explorer, host" in found.message.replace("broken (a function), ", "")


def test_a_name_without_a_colon_is_answered_with_what_to_write() -> None:
    found = failure("agents_of_test")
    assert found.exit_code == USAGE
    assert "agents_of_test:agent" in found.message
    assert "explorer, host" in found.message.replace("broken (a function), ", "")
    assert failure("nothing_there").exit_code == USAGE


def test_an_error_while_loading_is_told_in_one_line(folder: Path) -> None:
    (folder / "raises.py").write_text("1 / 0")
    (folder / "exits.py").write_text("raise SystemExit(3)")
    (folder / "imports.py").write_text("import nothing_of_that_name")
    for name, words in (
        ("raises", "ZeroDivisionError"),
        ("exits", "SystemExit"),
        ("imports", "nothing_of_that_name"),
    ):
        found = failure(f"{name}:host")
        assert found.exit_code == FAILED
        assert words in found.message
        assert "--debug" in found.message


def test_an_error_while_making_the_agent_is_told_in_one_line() -> None:
    found = failure("agents_of_test:broken")
    assert found.exit_code == FAILED
    assert "RuntimeError: no luck" in found.message


def test_no_model_is_an_error_that_says_how_to_name_one() -> None:
    with pytest.raises(Failure, match="--model PROVIDER:NAME") as caught:
        choose_model(Agent("host"), "")
    assert caught.value.exit_code == USAGE


def test_a_missing_key_is_found_before_anything_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(MissingKey):
        choose_model(Agent("host"), "claude-sonnet-5")
    hidden = Agent("host", agents=[Agent("sub", model=AnthropicModel("m"))], model=ScriptedModel(["x"]))
    with pytest.raises(MissingKey):
        choose_model(hidden, "")


def test_the_option_overrides_the_agents_own_model_and_leaves_the_agent_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not a real one")
    own = ScriptedModel(["x"])
    agent = Agent("host", model=own)
    chosen, _ = choose_model(agent, "claude-sonnet-5")
    assert chosen.model is not None
    assert chosen.model.spec.name == "claude-sonnet-5"
    assert agent.model is own


def test_without_a_model_of_its_own_the_agent_stays_and_inherits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not a real one")
    agent = Agent("host")
    chosen, model = choose_model(agent, "claude-sonnet-5")
    assert chosen is agent
    assert model is not None
    assert agent.model is None


def test_a_named_model_is_for_the_agents_below_a_program_and_not_for_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key")

    @program
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return prompt

    agent, model = choose_model(host, "anthropic:claude-sonnet-5")
    assert agent is host
    assert host.model.spec.is_program
    assert model is not None
    assert model.spec.name == "claude-sonnet-5"
