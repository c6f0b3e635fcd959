"""A chat in the browser, with the AI SDK: sub-agents at work, approvals, tabs that come back, and restarts.

    pip install callboard fastapi uvicorn
    python examples/web_chat/chat_app.py

Then open http://127.0.0.1:8000. The page needs no build step: page/ai-sdk.js is the client of the SDK.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from slow_typist import SlowTypist

from callboard import Agent, Runtime, Session, tool
from callboard.errors import CallboardError
from callboard.frontends import UIMessages

PAGE = Path(__file__).parent / "page"


@tool(effect="read")
async def offer() -> str:
    """Read the offer."""
    await asyncio.sleep(0.2)
    return "5 euros"


@tool(approval="before")
def pay(euros: int) -> str:
    """Pay an amount, once a person has allowed it."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{euros}\n")
    return f"paid {euros} euros"


reader = Agent("reader", instructions="Read the offer, and say what it is.", tools=[offer])
host = Agent("assistant", instructions="Answer. Pay if you are told to.", agents=[reader], tools=[pay])
runtime = Runtime("web_chat.db", model=SlowTypist())
chat = UIMessages()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Go on with the sessions that the last process left in the middle of an ask."""
    async with runtime:
        async for found in runtime.resume_all([host]):
            if found.error is not None:
                logging.error("chat %s is not resumed: %s", found.row.session_id, found.error)
        yield


app = FastAPI(lifespan=lifespan)


async def opened(chat_id: str) -> Session:
    """Return the session of a chat. A service with users checks here whose chat it is."""
    return await runtime.open(host, session_id=chat_id, resume=True)


Opened = Annotated[Session, Depends(opened)]


@app.post("/chat")
async def answer(request: Request) -> StreamingResponse:
    """Answer a new message, or a message with an answered approval."""
    asked = chat.read(await request.body())
    session = await opened(asked.thread)
    return StreamingResponse(chat.answer(session, asked), headers=dict(chat.headers))


@app.get("/chat/{chat_id}/stream")
async def back(session: Opened) -> Response:
    """Show the running ask to a page that comes back."""
    if session.activity != "running":
        return Response(status_code=204)
    request = chat.back(session.session_id)
    return StreamingResponse(chat.answer(session, request), headers=dict(chat.headers))


@app.get("/chat/{chat_id}")
async def messages(session: Opened) -> list[dict[str, object]]:
    """Return the messages so far."""
    return await chat.messages(session)


@app.post("/chat/{chat_id}/cancel")
async def cancel(session: Opened) -> None:
    """Stop the running ask, with all agents below it."""
    await session.cancel("the user stopped it")


@app.exception_handler(CallboardError)
async def refused(request: Request, error: CallboardError) -> JSONResponse:
    """Answer with the error's text, which names the fault and the next step."""
    return JSONResponse({"error": str(error)}, 400)


app.mount("/", StaticFiles(directory=PAGE, html=True))

if __name__ == "__main__":
    uvicorn.run(app, port=8000, timeout_graceful_shutdown=2)
