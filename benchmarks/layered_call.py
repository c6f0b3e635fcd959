"""One call of a layered model beside the provider's client alone, over a loopback server.

    python benchmarks/layered_call.py [--turns 1 30 300] [--bytes 1200] [--times 15]

Prints one row of JSON for each dialect and length of the conversation: CPU milliseconds of the client alone,
of a call whose conversation is known but for the last turn (`warm`), and of one of which nothing is known
(`cold`, as after a resume), the least of all times; and the milliseconds for which the event loop was held.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from openai import AsyncOpenAI

from callboard import OpenAICompatibleModel
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.request import ModelRequest
from tests.openai_api import OpenAIApi, Reply
from tests.runtime.models.layered.kit import LOOK, asked

Work = Callable[[], Awaitable[object]]


def serve(link: Any) -> None:
    """Answer every request with one text, in another process."""
    with OpenAIApi(lambda seen: Reply(("x" * 600,), piece_chars=600), is_strict=False) as api:
        link.send(api.url)
        link.recv()


@contextmanager
def server() -> Iterator[str]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there,))
    process.start()
    yield here.recv()
    here.send("end")
    process.join()


def conversation(turns: int, size: int) -> list[Json]:
    """Return a conversation of this many turns, each of so many bytes."""
    text = "x" * (size // 2)
    reply = {"role": "assistant", "content": [{"type": "text", "text": text, "part": {"part_kind": "text"}}]}
    found: list[object] = [{"role": "user", "content": text}]
    for _ in range(turns - 1):
        found += [reply, {"role": "user", "content": text}]
    return [Json(json.dumps(message).encode()) for message in found]


def request_of(messages: list[Json], session_id: str) -> ModelRequest:
    history: IntMap[Json] = IntMap()
    for at, message in enumerate(messages):
        history = history.put(at, message)
    blank = asked()
    request = ModelRequest(
        address="host",
        profile="host",
        model=blank.model,
        turn=len(messages),
        attempt=1,
        system=blank.system,
        tools=blank.tools,
        history=history,
    )
    request.session_id = session_id
    return request


async def client_alone(client: AsyncOpenAI, dialect: str, messages: list[Json]) -> None:
    plain: Any = [json.loads(bytes(message)) for message in messages]
    for message in plain:
        if isinstance(message["content"], list):
            message["content"] = message["content"][0]["text"]
    schema: Any = {"name": "look", "description": LOOK["description"], "parameters": LOOK["input_schema"]}
    create: Any
    if dialect == "chat":
        create, tools = client.chat.completions.create, [{"type": "function", "function": schema}]
        settings: Any = {"messages": plain, "stream_options": {"include_usage": True}}
    else:
        create, tools = client.responses.create, [{"type": "function", "strict": False, **schema}]
        settings = {"input": plain, "store": False}
    async for _ in await create(model="m", stream=True, tools=tools, **settings):
        pass


async def cpu_ms(work: Work, prepare: Work | None, times: int) -> float:
    best = float("inf")
    for _ in range(times):
        if prepare:
            await prepare()
        gc.collect()
        started = time.process_time()
        await work()
        best = min(best, time.process_time() - started)
    return round(best * 1e3, 2)


async def held_ms(work: Work, prepare: Work | None, times: int) -> float:
    """Return the longest time between two turns of the loop, the least of all runs."""
    found = []
    for _ in range(times):
        if prepare:
            await prepare()
        gc.collect()
        gaps: list[float] = []
        ticker = asyncio.create_task(tick(gaps))
        await asyncio.sleep(0.02)
        gaps.clear()
        await work()
        ticker.cancel()
        found.append(max(gaps))
    return round(min(found) * 1e3, 1)


async def tick(gaps: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


async def measured(url: str, dialect: Any, turns: int, size: int, times: int) -> dict[str, object]:
    messages = conversation(turns, size)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0)
    model = OpenAICompatibleModel("m", base_url=f"{url}/v1", api=dialect)
    numbers = iter(range(10**6))

    async def ask(request: ModelRequest) -> None:
        answer = await model.call(request, lambda text: None)
        assert answer.failure is None, answer.failure

    async def forget_and_ask_before() -> None:
        model.ended("warm")
        await ask(request_of(messages[:-2] or messages, "warm"))

    ways: dict[str, tuple[Work, Work | None]] = {
        "client": (lambda: client_alone(client, dialect, messages), None),
        "cold": (lambda: ask(request_of(messages, f"cold {next(numbers)}")), None),
        "warm": (lambda: ask(request_of(messages, "warm")), forget_and_ask_before),
    }
    row: dict[str, object] = {"dialect": dialect, "turns": turns, "bytes": sum(map(len, messages))}
    for name, (work, prepare) in ways.items():
        await work()
        row[f"{name}_cpu_ms"] = await cpu_ms(work, prepare, times)
        row[f"{name}_held_ms"] = await held_ms(work, prepare, min(times, 5))
    await model.aclose()
    await client.close()
    return row


async def main(url: str, options: argparse.Namespace) -> None:
    for dialect in ("chat", "responses"):
        for turns in options.turns:
            print(json.dumps(await measured(url, dialect, turns, options.bytes, options.times)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One call of a layered model.")
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 30, 300])
    parser.add_argument("--bytes", type=int, default=1_200, help="of a turn")
    parser.add_argument("--times", type=int, default=15)
    chosen = parser.parse_args()
    with server() as address:
        asyncio.run(main(address, chosen))
