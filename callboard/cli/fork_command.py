"""`callboard fork`: go on from an event of a session, with something changed.

`callboard fork --n`: several forks with the same changes, beside the session that was forked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple, get_args

import click
import msgspec

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.fork_plan import Place
from callboard.actors.session.place_names import call_named, is_number
from callboard.cli.errors import FAILED, misused, not_found, refuse_if
from callboard.cli.foreground import Setting, attend, finish, setting_options
from callboard.cli.fork_base import Wanted, base_of
from callboard.cli.loading import load_agent
from callboard.cli.options import json_option, model_option, quiet_option
from callboard.cli.outcomes import billed_text
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.recordings import find_place, open_reader
from callboard.cli.run_command import changed_limits, with_recorded_model
from callboard.cli.terminal_escape import safe_line
from callboard.replay.forks import billing, without_steps
from callboard.replay.formats import dollars, tokens
from callboard.replay.recording import Recording
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent, roster
from callboard.runtime.files.restoring import named
from callboard.runtime.models.fallback import ModelChoice
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.resuming import RecordedSession, recorded_of
from callboard.runtime.sessions.session import Session

_TEXT_CHARS = 40
_HEADINGS = ("SESSION", "OUTCOME", "TURNS", "CALLED", "REUSED", "TOKENS", "BILLED", "COST", "TEXT")


class Variant(NamedTuple):
    """The figures of one fork, or of the session that was forked.

    turns: replies of models in the whole session. called, reused: of those of the fork itself, the ones that
    were made and the ones that were taken from the recording. used: of the whole session, recorded answers
    included. billed: for the calls that were made.
    """

    session: str
    outcome: OutcomeKind
    text: str
    turns: int
    called: int
    reused: int
    used: Usage
    billed: Usage


def variant_of(session_id: str, events: Sequence[Event]) -> Variant:
    """Return the figures of a session."""
    paid = billing(events)
    bodies = [event.body for event in without_steps(events)]
    replies = [body for body in bodies if isinstance(body, ModelReplied)]
    turns = sum(reply.status == "ok" for reply in replies)
    used = reduce(plus, (reply.usage or ZERO for reply in replies), ZERO)
    ends = [body for body in bodies if isinstance(body, AskEnded)]
    end = ends[-1] if ends else AskEnded("", "cancelled")
    figures = (turns, paid.called, paid.reused, used, paid.billed)
    report = bytes(end.value).decode() if end.value != NULL else ""
    return Variant(session_id, end.kind, end.text or report, *figures)


def emit_variants(origin: Variant, found: Sequence[Variant], *, as_json: bool) -> None:
    """Print a row for each fork, below the one of the session that was forked."""
    if as_json:
        emit_json({"origin": variant_json(origin), "forks": [variant_json(one) for one in found]})
        return
    emit_lines(table([_row(one) for one in (origin, *found)], _HEADINGS, right=range(2, 8)))


def _row(one: Variant) -> tuple[str, ...]:
    counts = (f"{one.turns:,}", f"{one.called:,}", f"{one.reused:,}")
    sums = (tokens(one.used.tokens), tokens(one.billed.tokens), dollars(one.billed.micro_usd))
    return (safe_line(one.session), one.outcome, *counts, *sums, safe_line(one.text, _TEXT_CHARS))


def variant_json(one: Variant) -> dict[str, object]:
    """Return the figures of a fork as JSON."""
    sums = {"tokens": one.used.tokens, "billed_tokens": one.billed.tokens}
    return {
        **{name: getattr(one, name) for name in ("session", "outcome", "text", "turns", "called", "reused")},
        **sums,
        "cost_micro_usd": one.used.micro_usd,
        "billed_micro_usd": one.billed.micro_usd,
    }


class _Wish(NamedTuple):
    """The wish for a fork. at: the last event to share. files_to: the folder of its copy, empty for none."""

    session_id: str
    at: int
    changes: Mapping[Place, object]
    effects: Effects | None
    until: int | None
    files_to: str = ""
    skip_lost: bool = False


@click.command("fork")
@click.argument("place", metavar="SESSION[#PLACE|@CHECKPOINT]")
@click.option("--with", "agent", metavar="MODULE:AGENT", required=True, help="The host, as it is now.")
@click.option(
    "--set",
    "sets",
    metavar="CALL=FILE",
    multiple=True,
    help="Give a call this result: AGENT:TURN:CALL for a tool, AGENT:TURN for a model's reply, or the seq of "
    "the recorded answer. May be repeated.",
)
@click.option(
    "--prompt", "prompts", metavar="AGENT=FILE", multiple=True, help="Give an agent these instructions."
)
@click.option(
    "--effects",
    type=click.Choice(get_args(Effects)),
    help="For a tool with an effect that has no recorded result: end the ask, ask a person, or run it. "
    "By default recorded; ask for an imported session.",
)
@click.option(
    "--n",
    "count",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Make this many forks, and compare them.",
)
@click.option(
    "--files-to",
    metavar="FOLDER",
    default="",
    help="Work in a copy of --files as of the event, in this new or empty folder; with --n, in FOLDER-1 ...",
)
@click.option(
    "--skip-lost", is_flag=True, help="In the copy, leave files that the log does not have as they are today."
)
@click.option("--until", type=int, metavar="SEQ", help="Repeat the client's inputs only up to this event.")
@model_option
@setting_options
@quiet_option
@json_option
def fork(
    place: str,
    agent: str,
    sets: tuple[str, ...],
    prompts: tuple[str, ...],
    effects: Effects | None,
    count: int,
    until: int | None,
    files_to: str,
    skip_lost: bool,
    model: str,
    setting: Setting,
    quiet: bool,
    as_json: bool,
) -> int:
    """Continue a session from one of its events in a new session, and pay only for the difference.

    The fork shares the events up to SEQ. After it, each request that is the same as in the recorded session
    gets the recorded answer, and its time. Other requests are made. Without SEQ the fork begins before the
    first changed answer, and before the first agent with changed instructions. A tool with an effect never
    runs without your consent: if it has no recorded result, the ask ends as `needs_effect`, unless you pass
    --effects live. A changed agent is used if it begins after SEQ.

    FILE contains a text, or a list of content blocks as JSON. The result, tree, summary and exit codes are
    those of `callboard run`. With --n several forks run at once, and a table compares them with the session:
    their outcomes, replies of models, calls made and reused, and costs. docs/fork.md has the details.

    \b
    Examples:
      callboard fork 2026 --with survey:host --set host.3:1:0=result.txt
      callboard fork 2026#41 --with survey:host --prompt counter=shorter.md
      callboard fork 2026@loaded --with survey:host --limit tokens=500k
      callboard fork 2026#41 --with survey:host --prompt counter=new.md --n 5
    """
    refuse_if(skip_lost and not files_to, "--skip-lost needs --files-to FOLDER")
    refuse_if(
        setting.files is not None and setting.files.area.write and not files_to,
        "a fork never writes into the folder of its origin: leave --files-write out, or add --files-to "
        "FOLDER to work in a copy",
    )
    name, past, at = _recorded(setting.log, place)
    found = _with_prompts(setting.equipped(load_agent(agent)), prompts)
    host, own = with_recorded_model(found, model, past)
    changes = dict(map(_change, sets))
    named = [pair.partition("=")[0] for pair in prompts]
    wanted = Wanted(
        changes, named, model, is_other=bool(setting.limits) or effects not in (None, "recorded"), until=until
    )
    at = base_of(name, past, at, wanted, host, own)
    wish = _Wish(name, at, changes, effects, until, files_to, skip_lost)
    if count > 1:
        forks = event_loop.run(_all_forked(setting, own, host, wish, past, count))
        emit_variants(variant_of(name, past.events), forks, as_json=as_json)
        return 0 if all(STATUS[one.outcome] == "ok" for one in forks) else FAILED
    costs: list[str] = []
    work = _forked(setting, own, host, wish, past, costs, is_quiet=quiet)
    return finish(work, setting.log, as_json=as_json, is_quiet=quiet, cost=lambda: "".join(costs))


def _recorded(log: str, wanted: str) -> tuple[str, RecordedSession, int | None]:
    """Find the session to fork, and read it. Its digests are checked."""
    with open_reader(log) as reader:
        row, at = find_place(reader, wanted)
        recording = Recording.open(reader, row.session_id)
        return row.session_id, recorded_of(row.session_id, recording.rows), at


async def _forked(
    setting: Setting,
    own: ModelChoice | None,
    host: Agent,
    wish: _Wish,
    past: RecordedSession,
    costs: list[str],
    *,
    is_quiet: bool,
) -> tuple[Outcome, int]:
    """Run a fork in the foreground. Return the outcome of its last ask and the exit code.

    costs: gets the cost of the fork, in words.
    """
    async with setting.runtime(own) as runtime:
        session = await _fork(runtime, setting, host, wish, past)
        if left_out := session._board.deps.left_out:
            talk(f"the copy in {wish.files_to} does not have: {named(left_out)}")
        title = f"session {session.session_id} in {setting.log}, a fork of {wish.session_id}#{wish.at}"
        found = await attend(
            session,
            lambda: _last_outcome(session),
            setting.approver,
            title=title,
            is_quiet=is_quiet,
            known=wish.at,
        )
        costs.append(billed_text(billing([event async for event in session.events()])))
        return found


async def _fork(
    runtime: Runtime, setting: Setting, host: Agent, wish: _Wish, past: RecordedSession
) -> Session:
    return await runtime.fork(
        wish.session_id,
        host,
        at=wish.at,
        changes=wish.changes,
        limits=changed_limits(past.events, setting.limits),
        effects=wish.effects,
        until=wish.until,
        files_to=wish.files_to or None,
        skip_lost=wish.skip_lost,
    )


async def _all_forked(
    setting: Setting, own: ModelChoice | None, host: Agent, wish: _Wish, past: RecordedSession, count: int
) -> list[Variant]:
    """Run several forks at once, without a tree. Return the figures of each."""
    async with setting.runtime(own) as runtime:
        wishes = (
            wish._replace(files_to=f"{wish.files_to}-{number}") if wish.files_to else wish
            for number in range(1, count + 1)
        )
        return await asyncio.gather(*(_one_of_all(runtime, setting, host, one, past) for one in wishes))


async def _one_of_all(
    runtime: Runtime, setting: Setting, host: Agent, wish: _Wish, past: RecordedSession
) -> Variant:
    session = await _fork(runtime, setting, host, wish, past)
    await _last_outcome(session)
    await session.close()
    return variant_of(session.session_id, [event async for event in session.events()])


async def _last_outcome(session: Session) -> Outcome:
    """Wait for the asks that are posted again, and return the last outcome."""
    outcome = await session.outcome
    while session._has_asks:
        outcome = await session.outcome
    return outcome


def _change(pair: str) -> tuple[Place, object]:
    """Return the call and the value of `CALL=FILE`."""
    place, mark, file = pair.partition("=")
    if not mark or not file:
        raise misused(f"--set {pair!r}: write CALL=FILE, such as host.1:2:0=result.txt")
    where = place.rpartition("#")[2]
    if is_number(where):
        return int(where), _value(file)
    if (call := call_named(where)) is None:
        raise misused(f"--set {place!r}: write AGENT:TURN:CALL, AGENT:TURN, or the seq of the answer")
    return call, _value(file)


def _value(file: str) -> object:
    """Return the value in a file: a list of content blocks, or else its text."""
    text = _text(file)
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, list) else text


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise not_found(f"the file {file} cannot be read: {error}") from None


def _with_prompts(host: Agent, pairs: Sequence[str]) -> Agent:
    """Return the host with other instructions for the named agents."""
    known = roster(host)
    for pair in pairs:
        name, mark, file = pair.partition("=")
        if not mark or not file:
            raise misused(f"--prompt {pair!r}: write AGENT=FILE")
        if name not in known:
            raise not_found(f"there is no agent {name!r}; there are: {', '.join(known)}")
        host = host.with_instructions(name, _text(file))
    return host
