"""A web service: people ask an assistant, watch it work, stop it, and approve its payments.

    pip install callboard fastapi uvicorn
    python examples/service/app.py

Stop it in any way and start it again: every session goes on.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import Body, Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from offline import Offline
from stopping import at_signals

from callboard import Agent, Approval, Outcome, Runtime, Session, tool
from callboard.errors import CallboardError, SessionBusy, SessionDetached
from callboard.log import SessionRow


@tool(approval="before")
def pay(euros: int) -> str:
    """Pay an amount, once a person has allowed it."""
    with Path("paid.txt").open("a") as file:
        file.write(f"{euros}\n")
    return f"paid {euros} euros"


host = Agent("assistant", instructions="Answer. Pay if you are told to.", tools=[pay])
runtime = Runtime("service.db", model=Offline(), metrics=True)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Go on with the sessions that the last process left in the middle of an ask."""
    async with runtime:
        async for found in runtime.resume_all([host]):
            if found.error is not None:
                logging.error("session %s is not resumed: %s", found.row.session_id, found.error)
        at_signals(runtime.stopping)  # streams end, and requests that the server cancels cancel no ask
        yield


app = FastAPI(lifespan=lifespan)


async def opened(session_id: str) -> Session:
    """Return the session that runs here, or that of an earlier process, or a new one."""
    return await runtime.open(host, session_id=session_id, resume=True)


Opened = Annotated[Session, Depends(opened)]


@app.post("/sessions/{session_id}/questions", status_code=202)
async def ask(session: Opened, text: Annotated[str, Body()], request_id: Annotated[str, Body()]) -> str:
    """Take a question; it is on disk when this returns. One that comes twice, with one id, is asked once."""
    return await session.submit(text, request_id=request_id)


@app.get("/sessions/{session_id}/stream")
async def stream(session: Opened, last_event_id: Annotated[int | None, Header()] = None) -> StreamingResponse:
    """Show the session at work. A browser that comes back sends `Last-Event-ID` by itself."""
    return StreamingResponse(session.stream(last_event_id).sse(), media_type="text/event-stream")


@app.get("/sessions/{session_id}/outcome")
async def outcome(session: Opened) -> Outcome:
    """Wait for the outcome of the running ask, or return the latest one."""
    return await session.outcome


@app.post("/sessions/{session_id}/cancel")
async def cancel(session: Opened) -> Outcome | None:
    """Stop the running ask, with all agents below it."""
    return await session.cancel("the user stopped it")


@app.get("/sessions/{session_id}/approvals")
async def approvals(session: Opened) -> tuple[Approval, ...]:
    """List the calls that wait for a person."""
    return session.open_approvals


@app.post("/sessions/{session_id}/approvals/{seq}")
async def approve(session: Opened, seq: int, allow: Annotated[bool, Body(embed=True)]) -> bool:
    """Answer an approval. Return false if another answer came first."""
    return await (session.approve(seq) if allow else session.deny(seq))


@app.get("/sessions")
async def sessions(after: str = "") -> list[SessionRow]:
    """List sessions, newest first. after: the cursor of the last one of the page before."""
    return [row async for row in runtime.sessions(limit=50, after=after)]


@app.get("/metrics")
async def metrics() -> PlainTextResponse:
    """Return what Prometheus collects: asks, tokens, costs, times and sessions since this process began."""
    return PlainTextResponse(runtime.metrics(), media_type="text/plain; version=0.0.4")


@app.exception_handler(CallboardError)
async def refused(request: Request, error: CallboardError) -> JSONResponse:
    """Answer with the error's text, which names the fault and the next step."""
    status = {SessionBusy: 409, SessionDetached: 503}.get(type(error), 400)
    return JSONResponse({"error": str(error)}, status)


if __name__ == "__main__":
    # Requests that wait for an outcome are cut off after two seconds; the sessions go on in the next process.
    uvicorn.run(app, port=8000, timeout_graceful_shutdown=2)
