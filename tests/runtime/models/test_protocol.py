"""Models by name: the provider that makes each one, and the errors if it cannot."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel
from callboard.actors.protocol.errors import InvalidAgent, ScriptError
from callboard.errors import MisuseError, UnknownModel, UnknownName
from callboard.models import ModelSpec
from callboard.runtime.models.anthropic.model import AnthropicModel
from callboard.runtime.models.protocol import GROUP, import_for, model_named
from tests.tables import table

HERE = "tests.runtime.models.test_protocol"

SCRIPT = ["Hello from the script."]
READY = ScriptedModel(["Hello from a model."], name="ready")
NUMBER = 7


class Nested:
    script = staticmethod(lambda request: f"turn {request.turn}")


def made(name: str) -> ScriptedModel:
    return ScriptedModel([name], name=name)


def made_wrong(name: str) -> str:
    return name


def raising(name: str) -> ScriptedModel:
    raise RuntimeError(f"no weights for {name}")


Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Add entry points to the installed ones: install(name=value)."""
    known = list(metadata.entry_points(group=GROUP))

    def add(*more: EntryPoint) -> None:
        def entry_points(**wanted: Any) -> EntryPoints:
            return EntryPoints([*known, *more]).select(**wanted)

        monkeypatch.setattr(metadata, "entry_points", entry_points)

    yield add
    model_named.cache_clear()


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("claude-sonnet-5", "claude-sonnet-5"),
        ("anthropic:claude-sonnet-5", "claude-sonnet-5"),
        ("anthropic:an/own:name", "an/own:name"),
    ],
)
def test_anthropic_is_a_provider_and_claude_needs_none(text: str, name: str) -> None:
    model = model_named(text)
    assert isinstance(model, AnthropicModel)
    assert model.spec.name == name


def test_a_provider_of_another_package_is_called_with_the_name(install: Install) -> None:
    install(entry("local", f"{HERE}:made"))
    assert model_named("local:tiny").spec == ModelSpec("tiny", 1_024)


def test_the_same_name_is_the_same_model_so_two_agents_can_have_it(install: Install) -> None:
    install(entry("local", f"{HERE}:made"))
    sub = Agent("sub", model="local:tiny")
    host = Agent("host", model="local:tiny", agents=[sub])
    assert host.model is sub.model
    outcome = Runtime(":memory:", model="local:other").run_sync(host, "go")
    assert outcome.text == "tiny"


def test_a_runtime_takes_a_name_too() -> None:
    runtime = Runtime(":memory:", model=f"scripted:{HERE}:SCRIPT", limits=Limits(tokens=10_000))
    assert runtime.run_sync(Agent("host"), "go").text == "Hello from the script."


def test_a_script_is_named_by_where_it_stands() -> None:
    script = model_named(f"scripted:{HERE}:SCRIPT")
    assert isinstance(script, ScriptedModel)
    assert script.spec.name == f"scripted:{HERE}:SCRIPT"
    assert model_named(f"scripted:{HERE}:READY").spec.name == "ready"
    assert isinstance(model_named(f"scripted:{HERE}:Nested.script"), ScriptedModel)


@table("text", ["", ":", "claude", "gpt-5", "local:", ":name"])
def test_a_text_without_a_provider_or_a_name_is_refused(text: str) -> None:
    with pytest.raises(UnknownName, match=r"provider:name, .* installed providers: anthropic, .*scripted"):
        model_named(text)


def test_a_provider_without_a_model_is_told_so() -> None:
    with pytest.raises(UnknownName, match="'openai:' names no model"):
        model_named("openai:")
    with pytest.raises(UnknownName, match="':gpt-5' names no provider"):
        model_named(":gpt-5")


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("gpt-5", "openai:gpt-5"),
        ("o3-mini", "openai:o3-mini"),
        ("llama3", "ollama:llama3"),
        ("x", "anthropic:"),
    ],
)
def test_a_well_known_model_without_a_provider_is_named_with_it(text: str, example: str) -> None:
    with pytest.raises(UnknownModel, match=f"for example {example}"):
        model_named(text)


def test_an_unknown_provider_is_refused_with_those_that_are_installed() -> None:
    with pytest.raises(UnknownName) as caught:
        model_named("nowhere:x")
    assert "'nowhere'; installed providers: anthropic, " in str(caught.value)
    assert ", scripted; install the package" in str(caught.value)


def test_a_server_of_ones_own_is_made_in_the_program() -> None:
    with pytest.raises(UnknownModel, match=r"OpenAICompatibleModel\(name, base_url=\.\.\.\)"):
        model_named("compatible:my-model")


def test_a_missing_library_is_answered_with_the_extra_that_brings_it(install: Install) -> None:
    install(entry("local", "no_such_library.models:Local [local]"), entry("old", f"{HERE}:gone"))
    with pytest.raises(MisuseError, match=r"No module named 'no_such_library'; .* pip install '.*\[local\]'"):
        model_named("local:tiny")
    with pytest.raises(MisuseError, match=r"has no attribute 'gone'; .* pip install 'its package'"):
        model_named("old:tiny")


def test_the_advice_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "odd_models-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-models\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{GROUP}]\nodd = no_such_library:Odd [fast]\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MisuseError, match=r"pip install 'odd-models\[fast\]'"):
        model_named("odd:x")


def test_a_provider_that_fails_is_named_with_its_error(install: Install) -> None:
    install(entry("raising", f"{HERE}:raising"), entry("wrong", f"{HERE}:made_wrong"))
    with pytest.raises(MisuseError, match="'raising:big': its provider raised RuntimeError: no weights for"):
        model_named("raising:big")
    with pytest.raises(MisuseError, match=r"made_wrong returned 'x', not a Model"):
        model_named("wrong:x")


def test_two_packages_with_one_provider_are_refused_and_one_that_is_listed_twice_is_not(
    install: Install,
) -> None:
    install(entry("local", f"{HERE}:made"), entry("local", f"{HERE}:made"))
    assert model_named("local:tiny").spec.name == "tiny"
    install(entry("rival", f"{HERE}:made"), entry("rival", f"{HERE}:raising"))
    with pytest.raises(MisuseError, match="two packages provide the model provider 'rival'"):
        model_named("rival:tiny")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("no_such_module:x", "No module named 'no_such_module'"),
        (f"{HERE}:gone", "has no attribute 'gone'"),
        (HERE, "has no attribute ''"),
        (":x", "Empty module name"),
    ],
)
def test_a_script_that_is_not_there_is_refused(source: str, why: str) -> None:
    with pytest.raises(UnknownName, match=f"{why}.*; write scripted:MODULE:NAME"):
        model_named(f"scripted:{source}")


def test_an_object_that_is_not_a_script_is_refused() -> None:
    with pytest.raises(ScriptError, match="a script is a list of steps or a function, not 7"):
        model_named(f"scripted:{HERE}:NUMBER")


def test_an_agent_refuses_a_model_that_is_neither() -> None:
    with pytest.raises(InvalidAgent, match=r"model=7 is not a model; pass AnthropicModel"):
        Agent("host", model=7)  # type: ignore[arg-type]  # a wrong value on purpose


class Late(ScriptedModel):
    imports = ("no_such_client", "broken_client", "late_client")


def test_the_imports_of_a_model_are_made_on_a_thread_and_one_that_fails_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_client.py").write_text("raise ValueError('no configuration')")
    (tmp_path / "late_client.py").write_text("import threading; thread = threading.current_thread()")
    monkeypatch.syspath_prepend(tmp_path)
    asyncio.run(import_for([ScriptedModel([]), Late(["Hi."])]))
    found = sys.modules.pop("late_client")
    assert found.thread is not threading.current_thread()
    assert Runtime(":memory:", model=Late(["Hi."])).run_sync(Agent("host"), "Go.").text == "Hi."
    assert "late_client" in sys.modules
    del sys.modules["late_client"]
