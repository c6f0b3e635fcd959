"""Telling: a client's words for a running agent.

Rules
  - Every `Tell` has exactly one `TellEnded`. `heard` is posted with the grant of the first request that holds
    the words, `refused` when there is no such agent, or when the agent ends first.
  - The words of one agent are numbered from 1 in each of its lives, so that a request can say up to which
    one it holds.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST, names_agent
from callboard.actors.protocol.client_messages import Tell, TellEnded
from callboard.actors.protocol.messages import Told, TurnRequested
from callboard.actors.supervisor.state import Record
from callboard.actors.supervisor.unit_of_work import UnitOfWork

UNHEARD_MAX: Final = 64
"""An agent with more unheard words than this takes none."""


def on_tell(work: UnitOfWork, tell: Tell) -> None:
    """Pass a client's words on to their agent, or refuse them."""
    record = work.record(tell.address) if names_agent(tell.address) else None
    refusal = _why_refused(record, tell.address)
    if record is None or refusal:
        work.post(CLIENT, TellEnded(tell.request_id, "refused", detail=refusal))
        return
    number = record.told + 1
    work.update_record(record.address, told=number, unheard=record.unheard.put(number, tell.request_id))
    work.post(record.address, Told(number, tell.text, tell.labels))


def _why_refused(record: Record | None, address: str) -> str:
    """Return the reason to refuse words, or '' if the agent takes them."""
    if record is not None and record.is_running:
        return _why_deaf(record)
    if address == HOST:
        return "the host works on no ask; use ask"
    return f"there is no running agent '{address[:100]}'"


def _why_deaf(running: Record) -> str:
    address, is_full = running.address, running.unheard.size >= UNHEARD_MAX
    if running.profile.is_eager:
        return f"{address} is a program, which hears nothing but its prompt and the answers to its asks"
    return f"{address} has not heard {UNHEARD_MAX} earlier ones yet" if is_full else ""


def hear(work: UnitOfWork, agent: Record, granted: TurnRequested) -> Record:
    """Post the end of every `Tell` that a granted request holds. Return the agent's record."""
    unheard = agent.unheard
    while (first := unheard.first()) is not None and first[0] <= granted.told:
        unheard = unheard.drop(first[0])
        work.post(CLIENT, TellEnded(first[1], "heard", granted.turn))
    return agent if unheard is agent.unheard else replace(agent, unheard=unheard)


def refuse_unheard(work: UnitOfWork, agent: Record) -> None:
    """Refuse the words that an agent which ends has not heard."""
    for request_id in agent.unheard.values():
        detail = f"{agent.address} ended before it heard this"
        work.post(CLIENT, TellEnded(request_id, "refused", detail=detail))
