"""The imports of each service: its own client, before the first call, and that of no other."""

import json
import subprocess
import sys

import pytest

from tests.runtime.models.layered.kit import KEY

CLIENTS = {"openai:gpt-5": "openai", "google:gemini-2.5-pro": "google.genai", "bedrock:m": "botocore"}
LATER = ("pydantic_ai", "genai_prices", "httpx2", "anthropic", *CLIENTS.values())
PROGRAM = """
import json, sys
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.protocol import model_named
model = model_named(sys.argv[1])
said = IntMap().put(0, Json(b'{"role":"user","content":"Hi."}'))
request = ModelRequest(
    address="host", profile="host", model=model.spec, turn=1, attempt=1, system=NULL, tools=(), history=said
)
before = [name for name in sys.argv[2:] if name in sys.modules]
model.written(request)
print(json.dumps([before, [name for name in sys.argv[2:] if name in sys.modules]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_the_first_request_imports_one_client_and_the_ones_before_none(name: str) -> None:
    keys = {"OPENAI_API_KEY": KEY, "GOOGLE_API_KEY": KEY, "AWS_REGION": "us-east-1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, *LATER], capture_output=True, text=True, check=True, env=keys
    )
    before, after = json.loads(done.stdout)
    assert before == []
    assert CLIENTS[name] in after
    others = {*CLIENTS.values(), "anthropic"} - {CLIENTS[name]}
    assert not others & set(after)


OPENED = """
import asyncio, json, sys
from callboard import Agent, Runtime, ScriptedModel, say
place, name, client = sys.argv[1:]
scripted = ScriptedModel([say("Hi.")])
agent = Agent("host", model=name) if place == "agent" else Agent("host")
loaded = []

async def main():
    async with Runtime(":memory:", model=scripted if place == "agent" else name) as runtime:
        loaded.append(client in sys.modules)
        async with runtime.open(agent):
            loaded.append(client in sys.modules)

asyncio.run(main())
print(json.dumps(loaded))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "client"),
    [
        *(("runtime", name, client) for name, client in CLIENTS.items()),
        ("agent", "anthropic:claude-sonnet-5", "anthropic"),
    ],
)
def test_a_client_is_imported_before_the_first_call(place: str, name: str, client: str) -> None:
    keys = {f"{one}_API_KEY": KEY for one in ("OPENAI", "GOOGLE", "ANTHROPIC")}
    done = subprocess.run(
        [sys.executable, "-c", OPENED, place, name, client],
        capture_output=True,
        text=True,
        check=True,
        env=keys | {"AWS_REGION": "us-east-1"},
    )
    assert json.loads(done.stdout) == [place == "runtime", True]
