"""Bundles and labels of live sessions: checked when they open, obeyed while they run, shown afterwards."""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

import pytest
from click.testing import CliRunner

from callboard import Agent, Runtime, ScriptedModel, SecretRef, ToolContext, call, calls, say, tool
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.cli.main import cli
from callboard.errors import InvalidAgent, MisuseError, UnknownName
from callboard.permissions import Allowed, Bundle, Denied, LabelRule
from callboard.replay import Recording

LiveTest: TypeAlias = Callable[[Path], Coroutine[object, object, None]]


def live(test: LiveTest) -> Callable[[Path], None]:
    """Run a test on a loop of its own."""

    @functools.wraps(test)
    def run_it(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run_it


NOBODY = Bundle(do=Allowed(tools=(), capabilities=(), effects=(), agents=(), secrets=()))


@tool(effect="read", capabilities=("network",))
def fetch(url: str) -> str:
    """Fetch a page."""
    return f"page {url}"


@tool(effect="read", untrusted=True)
def read_mail() -> str:
    """Read a mail."""
    return "mail"


@tool(effect="read")
def token(ctx: ToolContext) -> str:
    """Use a secret."""
    return "used " + ctx.secret("TOKEN")[:0]


@tool(effect="read")
def keep(ctx: ToolContext) -> str:
    """Keep the text."""
    ctx.update_state("note", "kept")
    return "kept"


@tool(effect="read")
def recall(ctx: ToolContext) -> str:
    """Recall the text."""
    ctx.label("recalled")
    return str(ctx.state["note"])


def tree(log: Path, *options: str) -> str:
    done = CliRunner().invoke(cli, ["tree", *options, "--log", str(log)], prog_name="callboard")
    assert done.exit_code == 0, done.output
    return done.stdout


def outputs(log: Path, session: str) -> list[str]:
    with Recording.open(log, session) as recording:
        assert recording.verify().is_ok
        grants = [event.seq for event in recording.events if event.kind == "CallModel"]
        history = recording.request(grants[-1]).messages
        return [bytes(message).decode() for message in history]


async def run(log: Path, host: Agent, *replies: object, **options: object) -> list[str]:
    async with Runtime(log, model=ScriptedModel([*replies]), durability="process") as runtime:  # type: ignore[list-item]  # replies
        outcome = await runtime.run(host, "go", **options)  # type: ignore[call-overload]  # options of `run`
    assert outcome.is_ok
    return outputs(log, outcome.session_id)


@live
async def test_a_denied_call_is_answered_in_words_and_verified(tmp_path: Path) -> None:
    host = Agent("host", tools=[fetch, read_mail], permissions=Bundle(deny=Denied(capabilities=("network",))))
    said = await run(tmp_path / "log.db", host, calls(call("fetch", url="x"), call("read_mail")), say("done"))
    assert "capability 'network' is denied by agent host" in "".join(said)


@live
async def test_the_bundles_of_runtime_and_session_bound_every_agent(tmp_path: Path) -> None:
    host = Agent("host", tools=[fetch, read_mail])
    log = tmp_path / "log.db"
    model = ScriptedModel([calls(call("fetch", url="x"), call("read_mail")), say("done")])
    runtime_bundle = Bundle(deny=Denied(tools=("fetch",)))
    async with Runtime(log, model=model, durability="process", permissions=runtime_bundle) as runtime:
        outcome = await runtime.run(host, "go", permissions=Bundle(do=Allowed(tools=("fetch",))))
    said = "".join(outputs(log, outcome.session_id))
    assert "tool 'fetch' is denied by the runtime" in said
    assert "tool 'read_mail' is denied by the session" in said


@live
async def test_a_rule_for_a_label_denies_the_network_after_a_mail(tmp_path: Path) -> None:
    host = Agent(
        "host", tools=[fetch, read_mail], permissions=Bundle(when=(LabelRule("untrusted", "network"),))
    )
    first, later = calls(call("fetch", url="x"), call("read_mail")), call("fetch", url="y")
    said = await run(tmp_path / "log.db", host, first, later, say("done"))
    assert "page x" in said[2]
    assert "denied by agent host once the label 'untrusted' was read" in said[4]


@live
async def test_a_secret_is_withheld_by_name(tmp_path: Path) -> None:
    host = Agent("host", tools=[token], permissions=Bundle(do=Allowed(secrets=("OTHER",))))
    secret = SecretRef("TOKEN", get=lambda: "a-value-nobody-may-see")
    log = tmp_path / "log.db"
    async with Runtime(
        log, model=ScriptedModel([call("token"), say("done")]), secrets=[secret], durability="process"
    ) as runtime:
        outcome = await runtime.run(host, "go")
    assert "secret 'TOKEN' is denied by agent host" in "".join(outputs(log, outcome.session_id))
    assert b"a-value-nobody-may-see" not in log.read_bytes()  # nothing else runs here


@live
async def test_shared_state_carries_the_labels_of_its_writer(tmp_path: Path) -> None:
    host = Agent("host", tools=[read_mail, keep, recall], state={"note": ""})
    log = tmp_path / "log.db"
    model = ScriptedModel([call("read_mail"), call("keep"), call("recall"), say("done")])
    async with Runtime(log, model=model, durability="process") as runtime:
        outcome = await runtime.run(host, "go", labels=["ticket"])
    with Recording.open(log, outcome.session_id) as recording:
        returned = [event.body for event in recording.events if isinstance(event.body, ToolReturned)]
        called = [event.body for event in recording.events if isinstance(event.body, CallTool)]
        assert [body.labels for body in called][1:] == [("ticket", "untrusted")] * 2
        assert returned[1].state_update[0].labels == ("ticket", "untrusted")
        assert returned[2].labels == ("recalled", "ticket", "untrusted")
        found = {one.label: one.how for one in recording.rights()["host"].labels}
    assert found == {
        "ticket": "given with its prompt",
        "untrusted": "a result of read_mail",
        "recalled": "a result of recall",
    }


@live
async def test_a_resume_keeps_the_recorded_bundle_and_adds_its_own(tmp_path: Path) -> None:
    host, log = Agent("host", tools=[fetch, read_mail]), tmp_path / "log.db"
    async with Runtime(log, model=ScriptedModel([say("hi")]), durability="process") as runtime:
        session = await runtime.open(host, permissions=Bundle(deny=Denied(tools=("fetch",))))
        await session.ask("go")
    model = ScriptedModel([say("hi"), calls(call("fetch", url="x"), call("read_mail")), say("done")])
    async with Runtime(log, model=model, durability="process") as runtime:
        session = await runtime.resume(
            session.id, host, permissions=Bundle(deny=Denied(tools=("read_mail",)))
        )
        await session.ask("go on")
        await session.close()
    said = "".join(outputs(log, session.id))
    assert "tool 'fetch' is denied by the session" in said
    assert "tool 'read_mail' is denied by the session" in said


@live
async def test_a_policy_that_denies_everything_lets_an_agent_speak(tmp_path: Path) -> None:
    host = Agent("host", tools=[fetch], permissions=NOBODY)
    said = await run(tmp_path / "log.db", host, call("fetch", url="x"), say("I may not."))
    assert "tool 'fetch' is denied by agent host" in said[2]


@live
async def test_an_unknown_capability_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    host = Agent("host", tools=[fetch], permissions=Bundle(deny=Denied(capabilities=("netwrok",))))
    async with Runtime(tmp_path / "log.db", model=ScriptedModel([say("hi")])) as runtime:
        with pytest.raises(UnknownName, match="did you mean 'network'"):
            await runtime.run(host, "go")


@live
async def test_a_label_that_no_tool_states_warns(tmp_path: Path) -> None:
    host = Agent("host", tools=[fetch], permissions=Bundle(when=(LabelRule("untrustd", "network"),)))
    async with Runtime(tmp_path / "log.db", model=ScriptedModel([say("hi")])) as runtime:
        with pytest.warns(UserWarning, match="did you mean 'untrusted'"):
            await runtime.run(host, "go")


@live
async def test_misuse_is_refused_with_the_correction(tmp_path: Path) -> None:
    with pytest.raises(InvalidAgent, match="permissions"):
        Agent("host", permissions="all")  # type: ignore[arg-type]  # not a bundle
    with pytest.raises(MisuseError, match=r"Bundle\(do=Allowed"):
        Runtime(tmp_path / "log.db", permissions={"tools": []})  # type: ignore[arg-type]  # not a bundle
    with pytest.raises(InvalidAgent, match="single names"):
        tool(effect="read", capabilities=("net*",), name="x", description="")(lambda: "x")
    async with Runtime(tmp_path / "log.db", model=ScriptedModel([say("hi")])) as runtime:
        with pytest.raises(MisuseError, match="leave out `delegate`"):
            await runtime.run(Agent("host"), "go", permissions=Bundle(delegate=Allowed()))
        with pytest.raises(MisuseError, match="is a list of names"):
            await runtime.run(Agent("host"), "go", labels=["a*b"])


@live
async def test_the_tree_shows_rights_and_labels_with_their_origin(tmp_path: Path) -> None:
    kid = Agent("kid", tools=[fetch, read_mail], permissions=Bundle(do=Allowed(tools=("fetch", "read_mail"))))
    bundle = Bundle(
        delegate=Allowed(tools=("read_mail",)),
        deny=Denied(capabilities=("shell",)),
        when=(LabelRule("untrusted", "network"),),
    )
    host, log = Agent("host", agents=[kid], permissions=bundle), tmp_path / "log.db"
    model = ScriptedModel(
        {
            "host": [call("task", agent="kid", prompt="work"), say("done")],
            "kid": [call("read_mail"), say("ok")],
        }
    )
    async with Runtime(log, model=model, durability="process") as runtime:
        await runtime.run(host, "go")
    shown_tree = tree(log, "--permissions")
    assert "tools: read_mail (by agent host, agent kid)" in shown_tree
    assert "capabilities: not shell (by agent host)" in shown_tree
    assert "capabilities: not network once untrusted was read (by agent host)" in shown_tree
    assert "tools: asks for fetch, narrowed (by agent host)" in shown_tree
    labels = tree(log, "--labels")
    assert "a result of read_mail" in labels
    assert "the end of host.1" in labels
    shown = json.loads(tree(log, "--permissions", "--json"))
    assert shown["agents"][1]["narrowed"] == [{"entry": "tools", "name": "fetch", "by": "agent host"}]
    named = json.loads(tree(log, "--labels", "--json"))
    assert [one["label"] for one in named["agents"][0]["labels"]] == ["untrusted"]
