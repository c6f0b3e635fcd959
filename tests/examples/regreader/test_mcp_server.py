"""`regreader mcp` as a process, asked by the official client."""

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from regreader.index import Index
from regreader.tools import TOOL_NAMES

from tests.examples.regreader.kit import read
from tests.examples.regreader.test_tools import TEXT

PACKAGE = Path(__file__).parents[3] / "examples" / "regreader"


@pytest.fixture
def server(tmp_path: Path) -> StdioServerParameters:
    index = Index(tmp_path / "x.db")
    index.put(read(tmp_path, "lamps.md", TEXT))
    index.close()
    words = ["-m", "regreader", "--index", str(tmp_path / "x.db"), "mcp"]
    return StdioServerParameters(command=sys.executable, args=words, cwd=PACKAGE)


@pytest.mark.slow
def test_a_client_calls_the_tools_of_the_process_and_ends_it(server: StdioServerParameters) -> None:
    async def body() -> None:
        async with asyncio.timeout(60), Client(server) as client:
            listed = (await client.list_tools()).tools
            assert {one.name for one in listed} == set(TOOL_NAMES)
            assert all(one.description for one in listed)
            many = [
                client.call_tool("read_page_range", {"reg_id": "lamps", "start_page": 2}) for _ in range(8)
            ]
            for done in await asyncio.gather(*many):
                assert not done.is_error
                assert "油灯每天清洁" in str(done.content)
            table = await client.call_tool("get_table_by_id", {"reg_id": "lamps", "table_id": "1-1"})
            assert table.structured_content is not None
            assert table.structured_content["notes"][0]["text"] == "Less in wind."
            failed = await client.call_tool("get_toc", {"reg_id": "moon"})
            assert failed.is_error
            assert "no regulation 'moon'; there are: lamps" in str(failed.content)

    asyncio.run(body())
