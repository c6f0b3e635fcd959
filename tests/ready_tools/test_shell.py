"""The shell tool: its words, its limits, and a program around it."""

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard import Agent, Call, Files, ModelRequest, Reply, Runtime, ScriptedModel, call, say
from callboard.errors import MisuseError
from callboard.tools.shell import shell, shell_tool
from tests.attacks.test_process_attacks import told

SANDBOX = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--new-session"),
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
    *("--bind", "{root}", "/work", "--chdir", "/work"),
)
"""The line of docs/shell.md."""


def test_its_result_is_the_output_with_the_exit_code(tmp_path: Path) -> None:
    assert told(tmp_path, "echo out; echo err >&2") == "out\nerr\n[exit code 0]"
    assert told(tmp_path, "printf x; false") == "x\n[exit code 1]"
    assert told(tmp_path, "kill -9 $$") == "[ended by signal 9]"


def test_its_environment_has_three_names_and_those_that_were_given(tmp_path: Path) -> None:
    made = shell_tool(env={"LANG": "C", "MORE": "1"})
    names = {line.partition("=")[0] for line in told(tmp_path, "env", made=made).splitlines()[:-1]}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG", "MORE"}


def test_a_long_output_says_what_is_left_out(tmp_path: Path) -> None:
    text = told(tmp_path, "seq 100000")
    assert text.startswith("1\n2\n")
    assert "bytes are left out here]" in text
    assert text.endswith("100000\n[exit code 0]")


def test_a_model_reads_why_a_command_with_a_long_output_was_ended(tmp_path: Path) -> None:
    read: list[str] = []

    def policy(request: ModelRequest) -> Reply | Call:
        if request.turn == 1:
            return call("shell", command="seq 2000; sleep 30", seconds=0.3)
        content: Any = request.conversation[-1]["content"]
        read.append(content[0]["content"])
        return say("Done.")

    host = Agent("host", tools=[shell], model=ScriptedModel(policy))
    Runtime(":memory:", files=Files(tmp_path, write=["."])).run_sync(host, "Count.")
    assert read[0].startswith("[ended after 0.3 s, which is the limit of its time]\n1\n2\n")


def test_it_needs_an_effect_a_capability_and_shows_two_arguments() -> None:
    spec = shell.spec()
    assert (spec.effect, spec.capabilities) == ("write", ("shell",))
    assert list(msgspec.json.decode(spec.input_schema)["properties"]) == ["command", "seconds"]
    assert shell_tool(approval="before", name="run").spec().approval == "before"


@pytest.mark.parametrize("bad", [{"timeout_s": 0}, {"processes_max": 0}])
def test_limits_are_positive(bad: dict[str, int]) -> None:
    with pytest.raises(MisuseError, match="positive"):
        shell_tool(**bad)  # type: ignore[arg-type]  # one argument of several types


def test_the_line_of_the_page_is_the_one_that_is_tested() -> None:
    page = (Path(__file__).parents[2] / "docs" / "shell.md").read_text()
    for part in SANDBOX:
        assert f'"{part}"' in page, part


BWRAP = shutil.which("bwrap")


@pytest.mark.skipif(not BWRAP, reason="needs bubblewrap: `apt-get install bubblewrap` installs it")
@pytest.mark.skipif(
    bool(BWRAP) and os.system("bwrap --ro-bind / / --unshare-all true") != 0,
    reason="this system lets bubblewrap confine nothing",
)
def test_bubblewrap_shows_a_command_the_folder_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "root").mkdir()
    made = shell_tool(inside=SANDBOX)
    text = told(
        tmp_path / "root",
        f"pwd; echo x > made; cat {tmp_path}/secret; ls /home; ls /proc | grep -c '^[0-9]'",
        made=made,
    )
    assert text.startswith("/work\n")
    assert "No such file" in text
    assert "secret\n" not in text.replace("/secret", "")
    assert (tmp_path / "root" / "made").read_text() == "x\n"
