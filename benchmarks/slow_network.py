"""A network between a client and a server: `python benchmarks/slow_network.py FROM TO MILLISECONDS`.

Listens on the socket FROM, and passes the bytes of each connection on to the socket TO and back. A round trip
takes that many milliseconds more, half of them in each direction.
"""

import asyncio
import sys
from contextlib import suppress


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Pass on what a side says, each piece some time after it came."""
    loop, last = asyncio.get_running_loop(), 0.0
    while data := await reader.read(65_536):
        last = loop.time() + delay_s
        loop.call_at(last, writer.write, data)
    await asyncio.sleep(max(0.0, last - loop.time()))
    with suppress(OSError):
        writer.close()


async def serve(here: str, there: str, delay_ms: float) -> None:
    """Serve until the process ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(there)
        ways = (reader, far_writer), (far_reader, writer)
        await asyncio.gather(*(passed_on(*way, delay_ms / 2_000) for way in ways), return_exceptions=True)

    server = await asyncio.start_unix_server(connected, here)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], float(sys.argv[3])))
