"""One call of a layered model beside the provider's client alone, over a loopback server.

    python benchmarks/layered_call.py [--dialects chat converse] [--turns 1 30 300] [--bytes 1200]

Prints one row of JSON for each dialect and length of the conversation: CPU milliseconds of the client alone,
of a call whose conversation is known but for the last turn (`warm`), and of one of which nothing is known
(`cold`, as after a resume), the least of all times; the bound of a warm call, 1.1 times the client and 0.3
ms; and the CPU milliseconds of the loop's thread for which a call held the event loop.

The three ways take turns, so that all have the same minutes of a machine with other work. The client of
Bedrock blocks; it runs on a thread, as its users run it.
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

import boto3
import msgspec
from botocore import UNSIGNED
from botocore.config import Config
from google import genai
from openai import AsyncOpenAI

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.layered.model import LayeredModel
from tests.openai_api import ProviderApi, Reply
from tests.runtime.models.layered.kit import KEY, LOOK, WIRES, asked, model_at

Work = Callable[[], Awaitable[object]]
Messages = list[Any]
DIALECTS = ("chat", "responses", "generate-content", "converse")


def serve(link: Any) -> None:
    """Answer every request with one text, in another process."""
    answer = Reply(("x" * 600,), piece_chars=600)
    with ProviderApi(lambda seen: answer, is_strict=False, wires=WIRES) as api:
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
    return [Json(msgspec.json.encode(message)) for message in found]  # in the form of the log's own


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


def with_key(params: dict[str, Any], **_: object) -> None:
    params["headers"]["Authorization"] = f"Bearer {KEY}"


def clients(url: str) -> dict[str, Callable[[Messages], Awaitable[object]]]:
    """Return the provider's client alone, by dialect: each takes a conversation and reads the answer."""
    openai = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    google = genai.Client(api_key=KEY, http_options=genai.types.HttpOptions(base_url=url))
    unsigned = Config(signature_version=UNSIGNED)  # it shows a key over https only
    aws = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=unsigned)
    aws.meta.events.register("before-call.bedrock-runtime", with_key)
    schema: Any = {"name": "look", "description": LOOK["description"]}
    parameters: Any = LOOK["input_schema"]

    async def chat(messages: Messages) -> None:
        tools: Any = [{"type": "function", "function": {**schema, "parameters": parameters}}]
        usage: Any = {"include_usage": True}
        create = openai.chat.completions.create
        async for _ in await create(
            model="m", stream=True, tools=tools, messages=messages, stream_options=usage
        ):
            pass

    async def responses(messages: Messages) -> None:
        tools: Any = [{"type": "function", "strict": False, **schema, "parameters": parameters}]
        create = openai.responses.create
        async for _ in await create(model="m", stream=True, tools=tools, input=messages, store=False):
            pass

    async def generate(messages: Messages) -> None:
        roles = {"user": "user", "assistant": "model"}
        contents: Any = [
            {"role": roles[one["role"]], "parts": [{"text": one["content"]}]} for one in messages
        ]
        config: Any = {
            "tools": [{"function_declarations": [{**schema, "parameters_json_schema": parameters}]}]
        }
        ask = google.aio.models.generate_content_stream
        async for _ in await ask(model="m", contents=contents, config=config):
            pass

    def converse(messages: Messages) -> None:
        said = [{**one, "content": [{"text": one["content"]}]} for one in messages]
        tool = {"toolSpec": {**schema, "inputSchema": {"json": parameters}}}
        for _ in aws.converse_stream(modelId="m", messages=said, toolConfig={"tools": [tool]})["stream"]:
            pass

    return {
        "chat": chat,
        "responses": responses,
        "generate-content": generate,
        "converse": lambda messages: asyncio.to_thread(converse, messages),
    }


async def cpu_ms(ways: dict[str, tuple[Work, Work | None]], times: int) -> dict[str, float]:
    """Return the CPU time of each way, the least of all times. The ways take turns."""
    best = dict.fromkeys(ways, float("inf"))
    gc.collect()
    gc.disable()  # as `timeit`; a collection before each call would empty the caches of the processor
    for _ in range(times):
        for name, (work, prepare) in ways.items():
            if prepare:
                await prepare()
            started = time.process_time()
            await work()
            best[name] = min(best[name], time.process_time() - started)
    gc.enable()
    return {name: round(seconds * 1e3, 2) for name, seconds in best.items()}


async def held_ms(work: Work, prepare: Work | None, times: int) -> float:
    """Return the CPU time of the longest turn of the loop, the least of all runs."""
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
        await asyncio.sleep(0)
        ticker.cancel()
        found.append(max(gaps))
    return round(min(found) * 1e3, 1)


async def tick(gaps: list[float]) -> None:
    last = time.thread_time()  # of the loop alone: no other process and no other thread counts
    while True:
        await asyncio.sleep(0)
        now = time.thread_time()
        gaps.append(now - last)
        last = now


def plain(messages: list[Json]) -> Messages:
    """Return a conversation as the clients take it: each message with a text."""
    found = [json.loads(bytes(message)) for message in messages]
    for message in found:
        if isinstance(message["content"], list):
            message["content"] = message["content"][0]["text"]
    return found


async def measured(url: str, dialect: Any, turns: int, size: int, times: int) -> dict[str, object]:
    messages = conversation(turns, size)
    alone = clients(url)[dialect]
    model: LayeredModel = model_at(url, dialect)
    numbers = iter(range(10**6))

    async def ask(request: ModelRequest) -> None:
        answer = await model.call(request, lambda text: None)
        assert answer.failure is None, answer.failure

    async def forget_and_ask_before() -> None:
        model.ended("warm")
        await ask(request_of(messages[:-2] or messages, "warm"))

    async def ask_as_new() -> None:
        session = f"cold {next(numbers)}"
        await ask(request_of(messages, session))
        model.ended(session)

    ways: dict[str, tuple[Work, Work | None]] = {
        "client": (lambda: alone(plain(messages)), None),
        "cold": (ask_as_new, None),
        "warm": (lambda: ask(request_of(messages, "warm")), forget_and_ask_before),
    }
    for work, _ in ways.values():
        await work()
    row: dict[str, object] = {"dialect": dialect, "turns": turns, "bytes": sum(map(len, messages))}
    cpu = await cpu_ms(ways, times)
    row |= {f"{name}_cpu_ms": value for name, value in cpu.items()}
    row["bound_ms"] = round(1.1 * cpu["client"] + 0.3, 2)
    for name, (work, prepare) in ways.items():
        row[f"{name}_held_ms"] = await held_ms(work, prepare, min(times, 5))
    await model.aclose()
    return row


async def main(url: str, options: argparse.Namespace) -> None:
    for dialect in options.dialects:
        for turns in options.turns:
            print(json.dumps(await measured(url, dialect, turns, options.bytes, options.times)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One call of a layered model.")
    parser.add_argument("--dialects", nargs="+", choices=DIALECTS, default=DIALECTS)
    parser.add_argument("--turns", type=int, nargs="+", default=[1, 30, 300])
    parser.add_argument("--bytes", type=int, default=1_200, help="of a turn")
    parser.add_argument("--times", type=int, default=15)
    chosen = parser.parse_args()
    with server() as address:
        asyncio.run(main(address, chosen))
