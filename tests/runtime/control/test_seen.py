"""An act on a prompt that began behind the last event of a page is refused."""

import asyncio
from pathlib import Path

import pytest

from callboard import Runtime, ScriptedModel
from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.control.server import carry_out
from callboard.runtime.control.wire import CancelAsk, Command, TellAgent
from tests.runtime.control.test_forking import HOST, policy


def test_an_act_on_a_prompt_that_the_page_did_not_show_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Runtime(tmp_path / "a.db", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(HOST, session_id="one")
            await session.ask("How warm?")
            seen = len(await runtime.log.read("one", 1, 1_000))
            await session.ask("And now?")
            acts: list[Command] = [CancelAsk("one", seen=seen), TellAgent("one", "host", "Stop.", seen=seen)]
            for act in acts:
                with pytest.raises(MisuseError, match="another prompt began at event"):
                    await carry_out(runtime, act)
            assert await carry_out(runtime, CancelAsk("one")) == ""

    asyncio.run(scene())
