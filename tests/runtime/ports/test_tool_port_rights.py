"""Tools of live sessions reach files and secrets within the rights of their agents, also after a resume."""

import asyncio
from pathlib import Path

from callboard import Agent, Files, Runtime, ScriptedModel, SecretRef, ToolContext, call, calls, say, tool
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.uses import Use
from callboard.permissions import Allowed, Bundle, LabelRule
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.tools.files import FILE_TOOLS
from tests.runtime.http.servers import answer, at_loopback, server


@tool(effect="read", untrusted=True)
def read_mail() -> str:
    """Read a mail."""
    return "mail"


@tool(effect="read")
def sign(ctx: ToolContext) -> str:
    """Use a secret, without a declared capability."""
    return "signed" + ctx.secret("TOKEN")[:0]


def answers(log: Path, session: str) -> list[ToolReturned]:
    """Return the answers of tools, after all checks of the log."""
    with Recording.open(log, session) as recording:
        assert recording.verify().is_ok
        events = list(recording.events)
        assert not [*check_log(events)]
        return [event.body for event in events if isinstance(event.body, ToolReturned)]


def texts(found: list[ToolReturned]) -> list[str]:
    return [bytes(one.output).decode() for one in found]


def test_a_child_reads_and_writes_within_every_bundle_above_it(tmp_path: Path) -> None:
    for folder in ("docs", "src"):
        (tmp_path / "root" / folder).mkdir(parents=True)
        (tmp_path / "root" / folder / "a").write_text("words")
    kid = Agent("kid", tools=FILE_TOOLS, permissions=Bundle(do=Allowed(read=("docs", "src"), write=(".",))))
    below = Allowed(read=("docs",), write=("docs", "tmp"))
    host = Agent("host", agents=[kid], permissions=Bundle(delegate=below))
    asks = calls(
        call("read_file", path="docs/a"),
        call("read_file", path="src/a"),
        call("write_file", path="src/b", content="1"),
        call("write_file", path="docs/b", content="1"),
    )
    model = ScriptedModel(
        lambda request: (
            (asks if request.turn == 1 else say("done"))
            if request.profile == "kid"
            else (call("task", agent="kid", prompt="go") if request.turn == 1 else say("done"))
        )
    )

    async def run() -> str:
        files = Files(tmp_path / "root", write=["docs", "src"])
        async with Runtime(tmp_path / "log.db", model=model, files=files) as runtime:
            return (await runtime.run(host, "go")).session_id

    found = answers(tmp_path / "log.db", asyncio.run(run()))
    by_text = "\n".join(texts(found))
    assert "reading 'src/a' is denied by agent host" in by_text
    assert "writing 'src/b' is denied by agent host" in by_text
    assert not (tmp_path / "root/src/b").exists()
    assert (tmp_path / "root/docs/b").read_text() == "1"
    assert [(use.entry, use.name) for one in found for use in one.uses] == [("write", "docs/b")]


def test_labels_go_into_files_and_come_back_after_a_resume(tmp_path: Path) -> None:
    log, folder = tmp_path / "log.db", tmp_path / "root"
    folder.mkdir()
    host = Agent("host", tools=[*FILE_TOOLS, read_mail, sign])

    async def first() -> str:
        steps = [call("read_mail"), call("write_file", path="note", content="it said"), say("done")]
        files = Files(folder, write=["."], files_label="secret")
        async with Runtime(log, model=ScriptedModel(steps), files=files) as runtime:  # type: ignore[arg-type]  # replies
            session = await runtime.open(host)
            await session.ask("go")
            return session.id

    async def later(session_id: str) -> None:
        secrets = [SecretRef("TOKEN", get=lambda: "a-secret-value")]
        model = ScriptedModel(
            lambda request: (
                calls(call("read_file", path="other"), call("sign"), call("read_file", path="note"))
                if request.turn == 4
                else (call("sign") if request.turn == 5 else say("done"))
            )
        )
        files = Files(folder, write=["."])
        async with Runtime(log, model=model, files=files, secrets=secrets) as runtime:
            bundle = Bundle(when=(LabelRule("secret", "secrets"),))
            session = await runtime.resume(session_id, host, permissions=bundle)
            await session.ask("go on")
            await session.close()

    session_id = asyncio.run(first())
    (folder / "other").write_text("from elsewhere")
    asyncio.run(later(session_id))
    found = answers(log, session_id)
    by_path = {use.name: use for one in found for use in one.uses if use.entry == "read"}
    assert by_path["other"].labels == ("secret",)
    assert by_path["note"].labels == ("untrusted",)
    assert found[1].uses[0].labels == ("untrusted",)
    assert "once the label 'secret' was read" in texts(found)[-1]
    with Recording.open(log, session_id) as recording:
        called = [event.body for event in recording.events if isinstance(event.body, CallTool)]
    assert called[-1].labels == ("secret", "untrusted")


def test_the_log_names_the_secret_and_not_its_value(tmp_path: Path) -> None:
    log, host = tmp_path / "log.db", Agent("host", tools=[sign])

    async def run() -> str:
        secrets = [SecretRef("TOKEN", get=lambda: "a-secret-value")]
        async with Runtime(log, model=ScriptedModel([call("sign"), say("ok")]), secrets=secrets) as runtime:
            return (await runtime.run(host, "go")).session_id

    found = answers(log, asyncio.run(run()))
    assert found[0].uses == (Use("secrets", "TOKEN"),)
    assert all(b"a-secret-value" not in one.read_bytes() for one in tmp_path.iterdir() if one.is_file())


@tool(effect="read")
async def fetch(ctx: ToolContext, url: str) -> str:
    """Fetch a page, without a declared capability."""
    return (await ctx.http.send("GET", url, headers={"X-Key": ctx.secret("TOKEN")})).text


def test_requests_stay_within_the_hosts_of_the_bundles_also_after_a_resume(tmp_path: Path) -> None:
    log = tmp_path / "log.db"

    async def run() -> str:
        async with server(answer(b"a-secret-value came back")) as at:
            allowed = Bundle(do=Allowed(hosts=(f"http://a.example:{at.port}", f"http://b.example:{at.port}")))
            wide = Agent("host", tools=[fetch], permissions=allowed)
            steps = [call("fetch", url=at.url()), say("done")]
            options = {"http": at_loopback(), "secrets": {"TOKEN": "a-secret-value"}}
            async with Runtime(log, model=ScriptedModel(steps), **options) as runtime:  # type: ignore[arg-type]  # replies
                session = await runtime.open(wide)
                await session.ask("go")
            model = ScriptedModel(
                lambda request: (
                    calls(call("fetch", url=at.url()), call("fetch", url=at.url(name="b.example")))
                    if request.turn == 3
                    else say("done")
                )
            )
            async with Runtime(log, model=model, **options) as runtime:  # type: ignore[arg-type]  # options
                narrow = Bundle(do=Allowed(hosts=(f"http://b.example:{at.port}",)))
                again = await runtime.resume(session.id, wide, permissions=narrow)
                await again.ask("go on")
                await again.close()
            assert all("x-key: a-secret-value" in head.lower() for head in at.heads)
        return session.id

    found = answers(log, asyncio.run(run()))
    said = texts(found)
    assert "[secret:TOKEN] came back" in said[0]
    assert "is denied by the session" in "".join(said[1:])
    assert sum("came back" in one for one in said) == 2
    assert {use.entry for one in found for use in one.uses} == {"hosts", "secrets"}
    assert all(b"a-secret-value" not in one.read_bytes() for one in tmp_path.iterdir() if one.is_file())
