"""The imports of each service: its own client while a runtime or a session opens, and that of no other."""

import json
import subprocess
import sys

import pytest

from tests.effort import long_search
from tests.runtime.models.layered.kit import KEY

CLIENTS = {"openai:gpt-5": "openai", "google:gemini-2.5-pro": "google.genai", "bedrock:m": "botocore"}
LATER = ("pydantic_ai", "genai_prices", "httpx2", "anthropic", *CLIENTS.values())
OPENED = """
import asyncio, json, sys
from callboard import Agent, Runtime, ScriptedModel, say
from callboard.runtime.models.protocol import model_named
place, name, *modules = sys.argv[1:]
scripted = ScriptedModel([say("Hi.")])
agent = Agent("host", model=name) if place == "agent" else Agent("host")
loaded = []

def note():
    loaded.append([module for module in modules if module in sys.modules])

async def main():
    model_named(name)
    note()
    async with Runtime(":memory:", model=scripted if place == "agent" else name) as runtime:
        note()
        async with runtime.open(agent):
            note()

asyncio.run(main())
print(json.dumps(loaded))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "client"),
    [
        *(
            pytest.param("runtime", name, client, marks=long_search if at else ())
            for at, (name, client) in enumerate(CLIENTS.items())
        ),
        ("agent", "anthropic:claude-sonnet-5", "anthropic"),
    ],
)
def test_a_client_is_imported_before_the_first_call_and_no_other_is(
    place: str, name: str, client: str
) -> None:
    keys = {f"{one}_API_KEY": KEY for one in ("OPENAI", "GOOGLE", "ANTHROPIC")}
    done = subprocess.run(
        [sys.executable, "-c", OPENED, place, name, *LATER],
        capture_output=True,
        text=True,
        check=True,
        env=keys | {"AWS_REGION": "us-east-1"},
    )
    named, with_runtime, with_session = json.loads(done.stdout)
    assert named == []  # a name alone costs nothing
    assert (client in with_runtime) == (place == "runtime")
    assert client in with_session
    others = {*CLIENTS.values(), "anthropic"} - {client}
    assert not others & set(with_session)
