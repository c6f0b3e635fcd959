"""A model service for the killed sessions: a server on loopback that speaks Chat Completions.

    python -m tests.crash.service     prints its address, and serves until stdin ends

The server knows no scripts. Each request says in its metadata how it is to be answered, because the replies
of the agents follow from their addresses and turns, which no service sees. All else is as with a real one:
the whole conversation in each request, checked by the rules of the API, and a stream as the answer.
"""

import copy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import msgspec

from callboard import OpenAICompatibleModel
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.models import scripted
from callboard.runtime.models.protocol import ModelAnswer, OnText
from tests.crash.agents import Script
from tests.messages_api import Canned, Seen
from tests.openai_api import Call, OpenAIApi, Reply, failed

ROOT: Final = Path(__file__).parent.parent.parent
_OUTPUT: Final = 60


class Wanted(msgspec.Struct):
    """An answer of the server. calls: names and arguments. overloaded_ms: the wait after a refusal."""

    turn: int
    text: str = ""
    calls: list[tuple[str, str]] = []
    overloaded_ms: int | None = None


class ServedScript(OpenAICompatibleModel):
    """A model of the server, whose answers are those of a script."""

    def __init__(self, url: str, seed: str) -> None:
        super().__init__("crash", base_url=f"{url}/v1", max_tokens=200, api_key="sk-crash-0123456789")
        self._script = Script(seed)

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Ask the server, and tell it what to answer."""
        wanted = _wanted(request, await self._script(request))
        told = {"metadata": {"answer": msgspec.json.encode(wanted).decode()}}
        asked = copy.copy(request)
        asked.model = msgspec.structs.replace(request.model, params=Json(msgspec.json.encode(told)))
        return await super().call(asked, on_text)


def _wanted(request: ModelRequest, step: scripted.Step) -> Wanted:
    match step:
        case ModelFailure():
            return Wanted(request.turn, overloaded_ms=step.retry_after_ms or 0)
        case str():
            return Wanted(request.turn, step)
        case scripted.Call():
            return Wanted(request.turn, calls=[_told(step)])
        case scripted.Reply():
            return Wanted(request.turn, step.text, [_told(call) for call in step.calls])


def _told(call: scripted.Call) -> tuple[str, str]:
    return call.tool, bytes(call.input).decode()


def _answer(seen: Seen) -> Canned:
    metadata = cast(dict[str, str], seen.body["metadata"])
    wanted = msgspec.json.decode(metadata["answer"], type=Wanted)
    if wanted.overloaded_ms is not None:
        return failed(529, "Overloaded.", **{"retry-after-ms": str(wanted.overloaded_ms)})
    calls = [
        Call(name, arguments, f"call_{wanted.turn}_{at}") for at, (name, arguments) in enumerate(wanted.calls)
    ]
    usage = {"input": len(seen.raw) // 4, "output": _OUTPUT}
    return cast(Canned, Reply((*([wanted.text] if wanted.text else []), *calls), usage))


@contextmanager
def serving() -> Iterator[str]:
    """Run the server in a process of its own, and give its address."""
    # A thread of this process would be lost in its forks, and could hold a lock there.
    command = [sys.executable, "-m", "tests.crash.service"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL  # killed clients leave requests that it complains of
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, cwd=ROOT) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().decode().strip()
        finally:
            server.stdin.close()


def main() -> None:
    """Serve until stdin ends."""
    with OpenAIApi(_answer) as api:
        print(api.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
