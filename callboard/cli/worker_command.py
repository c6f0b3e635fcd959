"""`callboard worker`, `submit` and `cluster`: processes that share the sessions of a log on a server."""

import asyncio
import signal
from collections.abc import Mapping

import click
from rich.text import Text

from callboard.actors.cluster.claims import waits_for
from callboard.actors.cluster.leases import LEASE_MS, LEASE_MS_MIN
from callboard.actors.session.capacity import Capacity
from callboard.cli.amounts import parse_capacity, parse_limits
from callboard.cli.cluster_shares import SHARES, place_row
from callboard.cli.errors import misused
from callboard.cli.foreground import Setting, setting_options
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.options import json_option, log_option, model_option
from callboard.cli.output import emit_json, emit_lines, table, talk
from callboard.cli.recordings import log_keys
from callboard.cli.terminal_escape import safe_line
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import new_request_id, new_session_id
from callboard.runtime.cluster.worker import SLOTS, ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.places import PlaceTables
from callboard.runtime.log.reading import is_server, server_of
from callboard.runtime.models.fallback import ModelChoice

_LISTED = 50


def leases_of(log: str) -> Leases:
    """Return the leases of a log. Raises Failure for one that is not on a server."""
    if not is_server(log):
        raise misused("workers share a log on a server: give --log postgresql://USER@HOST/DATABASE")
    key, encryption_key = log_keys()
    return Leases(server_of(log), key, encryption_key=encryption_key)


@click.command("worker")
@click.argument("agents", metavar="MODULE:AGENT...", nargs=-1, required=True)
@click.option(
    "--slots",
    type=click.IntRange(1, 100_000),
    default=SLOTS,
    show_default=True,
    help="The sessions that run here at a time.",
)
@click.option(
    "--lease",
    "lease_s",
    type=click.FloatRange(LEASE_MS_MIN / 1_000, 3_600),
    default=LEASE_MS / 1_000,
    show_default=True,
    help="Seconds without news from this worker after which others take its sessions.",
)
@click.option(
    "--capacity",
    metavar="MODEL=CALLS[,TOKENS]",
    multiple=True,
    help="Limit a model's calls in flight, and its tokens a minute, over all workers of the log: claude=8, "
    "claude=8,400k. Give it to each worker. May be repeated.",
)
@model_option
@setting_options
def worker(
    agents: tuple[str, ...],
    slots: int,
    lease_s: float,
    capacity: tuple[str, ...],
    model: str,
    setting: Setting,
) -> int:
    """Run submitted sessions of a log on a server, together with other workers.

    The worker claims sessions whose host is one of its agents, and resumes those of workers that died. With
    Ctrl-C or SIGTERM it leaves its sessions to the others at once. `callboard submit` adds sessions,
    `callboard cluster status` lists workers and waiting sessions.

    \b
    Examples:
      callboard worker survey:host --log postgresql://app@db/agents
      callboard worker survey:host survey:critic --slots 500 --capacity claude-sonnet-4-5=40
    """
    above = parse_capacity(capacity)
    leases, hosts, own = leases_of(setting.log), list[Agent](), None
    for spec in agents:
        agent, found = choose_model(setting.equipped(load_agent(spec)), model)
        hosts.append(agent)
        own = own or found
    event_loop.run(_work(leases, hosts, own, setting, above, slots, round(lease_s * 1_000)))
    return 0


async def _work(
    leases: Leases,
    hosts: list[Agent],
    model: ModelChoice | None,
    setting: Setting,
    capacity: Mapping[str, Capacity],
    slots: int,
    lease_ms: int,
) -> None:
    stop, limits = asyncio.Event(), parse_limits(setting.limits)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with leases, setting.runtime(model, capacity) as runtime:
        one = ClusterWorker(runtime, leases, hosts, slots=slots, lease_ms=lease_ms, limits=limits)
        talk(f"worker {one.name}: agents {', '.join(one.hosts)}; {slots} slots")
        await one.run(stop)
        talk(f"worker {one.name} has left its sessions to others")


@click.command("submit")
@click.argument("host")
@click.argument("prompt")
@click.option(
    "--session", "name", metavar="ID", default="", help="The id of the session; a new one if omitted."
)
@log_option
def submit(host: str, prompt: str, name: str, log: str) -> None:
    """Submit a prompt to the agent HOST of any worker, and print the id of its session.

    The same --session again submits nothing new, so a client that got no answer may repeat it.

    \b
    Examples:
      callboard submit host "What is here?" --log postgresql://app@db/agents
      callboard submit host "Which files are here?" --session survey-17
    """
    session = name or new_session_id()

    async def work() -> None:
        async with leases_of(log) as leases:
            await leases.change(lambda one: one.submit(session, host, new_request_id(), prompt))

    event_loop.run(work())
    emit_lines([Text(session)])


@click.command("cluster")
@click.argument("subject", type=click.Choice(["status"]))
@log_option
@json_option
def cluster(subject: str, log: str, as_json: bool) -> None:
    """List workers with their leases, waiting sessions with what they wait for, and shares of capacity.

    \b
    Examples:
      callboard cluster status --log postgresql://app@db/agents
      callboard cluster status --json | jq '.waiting[] | .for'
    """

    async def look() -> tuple[list[tuple[str, ...]], list[tuple[str, ...]], list[tuple[str, ...]]]:
        async with leases_of(log) as leases:
            workers = await leases.change(lambda one: one.workers())
            waiting = await leases.change(lambda one: one.waiting(_LISTED))
            places = await leases.share(PlaceTables.places)
        live = [one.state for one in workers if one.left_ms > 0]
        return (
            [
                (
                    one.name,
                    " ".join(one.state.hosts),
                    f"{one.sessions}/{one.state.slots}",
                    f"{one.left_ms / 1_000:.1f} s" if one.left_ms > 0 else "ended",
                )
                for one in workers
            ],
            [(one.session, waits_for(one, live) or "its claim", why) for one, why in waiting],
            [place_row(one) for one in places],
        )

    workers, waiting, places = event_loop.run(look())
    if as_json:
        keys = ("worker", "agents", "sessions", "lease")
        emit_json(
            {
                "workers": [dict(zip(keys, row, strict=True)) for row in workers],
                "waiting": [dict(zip(("session", "for", "refusal"), row, strict=True)) for row in waiting],
                "shares": [dict(zip(SHARES, row, strict=True)) for row in places],
            }
        )
        return
    if not workers:
        talk("no worker is registered; start one with `callboard worker`")
    else:
        emit_lines(table([_safe(row) for row in workers], ("worker", "agents", "sessions", "lease")))
    if waiting:
        emit_lines(table([_safe(row) for row in waiting], ("session", "waits for", "refusal")))
    if places:
        emit_lines(table([_safe(row) for row in places], SHARES))


def _safe(row: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(safe_line(one, 80) for one in row)
