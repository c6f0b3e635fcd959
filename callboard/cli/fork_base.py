"""The event at which `callboard fork` begins: before the first agent or answer that the fork changes.

A fork that would change nothing is refused, with the place at which it would: else the recorded answer would
pass for the result of the change.

    named by the user        without an event it begins         with an event it is refused if
    --set                    before the first changed answer    the answer stands before it
    --prompt, --model        before the first of its agents     none of its agents begins behind it
    none of these, but other before the first of these, or at   none of them begins behind it, and
      agents than recorded     the end of a session that runs     the session does not run
    none at all              -                                  no ask is left behind it
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import Profile, read_profile
from callboard.actors.session.fork_plan import (
    Place,
    begun_by_profile,
    plan_changed,
)
from callboard.cli.output import talk
from callboard.cli.terminal_escape import safe_line
from callboard.replay.formats import counted
from callboard.runtime.agent import Agent, roster
from callboard.runtime.forks.starting import result_json
from callboard.runtime.models.fallback import ModelChoice, models_of
from callboard.runtime.sessions.resuming import RecordedSession


class Wanted(NamedTuple):
    """The changes that the user has named.

    answers: new values of answers. prompts: the profiles with other instructions. model: of `--model`, '' for
    none. is_other: another limit, or another choice for tools with an effect. until: of `--until`.
    """

    answers: Mapping[Place, object]
    prompts: Sequence[str] = ()
    model: str = ""
    is_other: bool = False
    until: int | None = None


def base_of(
    session_id: str,
    past: RecordedSession,
    wished: int | None,
    wanted: Wanted,
    host: Agent,
    own: ModelChoice | None,
) -> int:
    """Return the last event to share.

    wished: the one that the user has named. host, own: the agents as they are now, and the runtime's model.
    Raises MisuseError if nothing would change behind it, UnknownName for a call that is not there.
    """
    events = past.events
    values = {place: result_json(value) for place, value in wanted.answers.items()}
    changed: dict[str, Sequence[Event]] = dict(begun_by_profile(events, wanted.prompts))
    if wanted.model and (other := _of_other_model(events, host, own)):
        changed["the model"] = other
    differing = begun_by_profile(events, sorted(_differing(past, host) - set(wanted.prompts)))
    differing = {name: begun for name, begun in differing.items() if begun}
    is_named = bool(changed or values or wanted.is_other or wanted.until is not None)
    if not is_named and differing and not past.running:  # one that still runs goes on in any case
        names = " and ".join(differing)
        changed = {names: [one for begun in differing.values() for one in begun]}
    planned = plan_changed(session_id, events, wished, values, changed, wanted.until)
    _tell_of_others(differing, planned.base)
    return planned.base


def _differing(past: RecordedSession, host: Agent) -> set[str]:
    """Return the names of the profiles that are others now than the session last recorded."""
    now = {one.name: _described(one.profile(), is_listed=bool(one.sources)) for one in roster(host).values()}
    found = set()
    for raw in past.profiles:
        was = read_profile(bytes(raw))
        mine = now.get(was.name)
        if mine is not None and mine != _described(was, is_listed=bool(roster(host)[was.name].sources)):
            found.add(was.name)
    return found


def _described(profile: Profile, *, is_listed: bool) -> bytes:
    """Return a profile to compare. is_listed: its tools come from servers, which nothing asks here."""
    return encode(msgspec.structs.replace(profile, tools=()) if is_listed else profile)


def _of_other_model(events: Sequence[Event], host: Agent, own: ModelChoice | None) -> list[Event]:
    """Return the `Begin`s of agents that ask another model now, since `--model` is the one they inherit."""
    named = own if host.model is None or host.model.spec.is_program else host.model
    name = next((one.spec.name for one in models_of(named)), "")
    apart: set[str] = set()
    found = []
    for event in events:
        if not isinstance(body := event.body, Begin):
            continue
        address = event.recipient
        has_own = read_profile(bytes(body.profile)).model is not None
        if address != HOST and (has_own or parent_of(address) in apart):
            apart.add(address)
        elif not body.model.is_program and body.model.name != name:
            found.append(event)
    return found


def _tell_of_others(differing: Mapping[str, Sequence[Event]], base: int) -> None:
    """Say which agents are others now than recorded, though none of them begins behind the base."""
    late = [name for name, begun in differing.items() if max(one.cause for one in begun) <= base]
    if late:
        names = ", ".join(safe_line(name, 64) for name in late[:5])
        talk(
            f"{counted(len(late), 'agent')} changed since the recording and already at work at event {base}: "
            f"{names}; the recorded description stays in force there"
        )
