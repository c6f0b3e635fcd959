"""A secret that a tool asks for is in no log, on every way out of the tool."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import Agent, Runtime, ScriptedModel, ToolContext, call, calls, say, tool
from callboard.errors import ToolError
from callboard.replay import Recording
from callboard.runtime.sessions.session import Session
from tests.effort import effort

VALUE = "v-4711-äöü-open/sesame+9"
WAYS = ("text", "object", "blocks", "raise", "error", "progress", "state", "label", "argument")


def leaking(way: str, before: str, after: str, shown: list[str]) -> Agent:
    """Return an agent whose tool lets a secret out in one way, within other text."""

    @tool(effect="read")
    def leak(ctx: ToolContext, given: str = "") -> object:
        """Let a secret out."""
        text = before + ctx.secret("TOKEN") + after
        if way == "progress":
            ctx.progress(text)
        if way == "state":
            ctx.update_state("kept", {text: [text]})
        if way == "label":
            ctx.label("x" + ctx.secret("TOKEN"))
        if way in ("raise", "error"):
            raise (ToolError if way == "error" else ValueError)(text)
        shown.append(repr(ctx))
        blocks = [{"type": "text", "text": text}]
        return {"text": text, "object": {text: {"deep": [text, 1]}}, "blocks": blocks}.get(way, "done")

    return Agent("host", tools=[leak], state={"kept": {}})


async def watch(session: Session, shown: list[str]) -> None:
    """Show the progress of tools."""
    async for news in session.progress():
        shown.append(str(news))


@given(st.sampled_from(WAYS), st.text(max_size=6), st.text(max_size=6), st.booleans())
@settings(max_examples=effort(6, 500), deadline=None)
def test_a_secret_is_in_no_log_whatever_way_it_leaves_a_tool(
    way: str, before: str, after: str, is_function: bool
) -> None:
    shown: list[str] = []

    async def run(folder: Path) -> None:
        steps = [calls(call("leak", given=VALUE if way == "argument" else "")), say("done")]
        secrets = (lambda name: VALUE) if is_function else {"TOKEN": VALUE}
        before_it = [calls(call("leak"))] if is_function and way == "argument" else []
        model = ScriptedModel([*before_it, *steps])
        host = leaking(way, before, after, shown)
        async with Runtime(folder / "log.db", model=model, secrets=secrets, durability="process") as runtime:
            session = await runtime.open(host)
            watcher = asyncio.create_task(watch(session, shown))
            outcome = await session.ask("go")
            shown.append(repr(outcome))
            await session.close()
            await watcher
        with Recording.open(folder / "log.db", outcome.session_id) as recording:
            assert recording.verify().is_ok
            shown.extend(str(event) for event in recording.events)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
        written = b"".join(one.read_bytes() for one in Path(folder).iterdir())
    assert VALUE.encode() not in written
    assert VALUE not in "".join(shown)
