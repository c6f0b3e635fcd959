"""Tools that reach files, the network and a secret by their context, within the bundle of their agent.

    python examples/confined_tools.py

Starts a server on this machine. The model is a script here that also asks for what it may not have.
Prints what each tool answered, and what the log says about files, hosts and secrets.
"""

import asyncio
import tempfile
from pathlib import Path

from callboard import (
    Agent,
    Files,
    Http,
    ModelRequest,
    Reply,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.messages import ToolReturned
from callboard.permissions import Allowed, Bundle, LabelRule
from callboard.replay import Recording
from callboard.tools.files import read_file, write_file


@tool(effect="read", untrusted=True)
async def fetch(url: str, ctx: ToolContext) -> str:
    """Fetch a page, with the key of the service."""
    answer = await ctx.http.send("GET", url, headers={"Authorization": f"Bearer {ctx.secret('KEY')}"})
    return answer.text


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request with the header that it had."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    said = next(line for line in head.splitlines() if line.lower().startswith("authorization"))
    writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(said)}\r\n\r\n{said}".encode())
    await writer.drain()
    writer.close()


def plan(port: int) -> ScriptedModel:
    """Return a model that fetches two pages, keeps one, and reads it in another agent."""

    def answer(request: ModelRequest) -> Reply:
        if request.profile == "reader":
            return calls(call("read_file", path="notes/page")) if request.turn == 1 else say("read")
        if request.turn == 1:
            urls = (f"http://127.0.0.1:{port}/", "http://169.254.169.254/", "http://[::ffff:7f00:1]/")
            return calls(*(call("fetch", url=url) for url in urls))
        if request.turn == 2:
            paths = ("notes/page", "config")
            return calls(*(call("write_file", path=path, content="a page") for path in paths))
        return calls(call("task", agent="reader", prompt="Read it.")) if request.turn == 3 else say("Done.")

    return ScriptedModel(answer)


async def main() -> None:
    """Run the session and print what its tools did."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    bundle = Bundle(
        do=Allowed(write=("notes",), hosts=(f"http://127.0.0.1:{port}",), secrets=("KEY",)),
        when=(LabelRule("untrusted", "shell"),),
    )
    reader = Agent("reader", description="Reads a note.", tools=[read_file])
    host = Agent("host", tools=[fetch, write_file], agents=[reader], permissions=bundle)
    with tempfile.TemporaryDirectory() as folder:
        log, root = Path(folder) / "log.db", Path(folder) / "root"
        root.mkdir()
        async with (
            server,
            Runtime(
                log,
                model=plan(port),
                files=Files(root, write=["."]),
                http=Http(private=["127.0.0.1/32"]),
                secrets={"KEY": "a-key-that-is-in-no-log"},
            ) as runtime,
        ):
            outcome = await runtime.run(host, "Fetch the page.")
        with Recording.open(log, outcome.session_id) as recording:
            for event in recording.events:
                if isinstance(event.body, ToolReturned):
                    print(bytes(event.body.output).decode())
                    for use in event.body.uses:
                        print(f"    {use.entry} {use.name.replace(str(port), 'PORT')} {' '.join(use.labels)}")
        print("labels of the outcome:", *outcome.labels)


if __name__ == "__main__":
    asyncio.run(main())
