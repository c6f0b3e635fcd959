"""Tools that change: the supervisor keeps each change for later `Begin`s, and passes it to living agents.

Rules
  - A change of a profile holds for every later `Begin` of that profile. A resume with other agents ends it.
  - A change for the host alone holds for every later ask, until its profile is changed.
  - It goes to each running agent that it is for, also to the one that made it: so all take several changes
    in the same order.
  - This is the one decision that looks at all living agents. Tools change seldom.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from callboard.actors.protocol.addresses import CLIENT, HOST
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import ToolsGiven
from callboard.actors.protocol.profiles import Profile, ToolsChange, ToolSpec
from callboard.actors.supervisor.state import Record
from callboard.actors.supervisor.unit_of_work import UnitOfWork


def on_tools_changed(work: UnitOfWork, sender: str, changed: ToolsChanged) -> None:
    """Keep a change, and pass it on. That of an agent that has ended counts no more."""
    change = changed.change
    if not _may_set(work, sender):
        return
    if change.address:
        _set_for_one(work, change)
    elif change.profile in work.state.profiles:
        _set_for_profile(work, change)


def _may_set(work: UnitOfWork, sender: str) -> bool:
    maker = work.record(sender)
    return sender == CLIENT or (maker is not None and maker.is_running)


def _set_for_one(work: UnitOfWork, change: ToolsChange) -> None:
    if change.address == HOST:
        work.update_session(host_tools=change.tools)
    record = work.record(change.address)
    if record is not None and record.is_running:
        work.post(record.address, ToolsGiven(change.tools))


def _set_for_profile(work: UnitOfWork, change: ToolsChange) -> None:
    name, known = change.profile, work.state.profiles[change.profile][0]
    work.update_session(profiles={**work.state.profiles, name: changed_profile(known, change.tools)})
    if name == work.state.host_name:
        work.update_session(host_tools=None)
    for record in _running(work):
        if record.profile.name == name:
            work.post(record.address, ToolsGiven(change.tools))


def changed_profile(profile: Profile, tools: tuple[ToolSpec, ...]) -> tuple[Profile, Json]:
    """Return a profile with other tools, and its bytes."""
    changed = replace(profile, tools=tools)
    return changed, Json(encode(changed))


def _running(work: UnitOfWork) -> Iterator[Record]:
    """Yield the records of running agents, each before those below it."""
    rest = [HOST]
    while rest:
        record = work.record(rest.pop())
        if record is not None:
            if record.is_running:
                yield record
            rest += [child.address for child in record.children.values()][::-1]
