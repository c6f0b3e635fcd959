"""`callboard worker` and `submit`: processes that share the sessions of a log on a server."""

import asyncio
import signal
from contextlib import AsyncExitStack

import click
from rich.text import Text

from callboard.actors.cluster.leases import LEASE_MS, LEASE_MS_MIN
from callboard.cli.amounts import parse_limits
from callboard.cli.errors import misused
from callboard.cli.foreground import Setting, setting_options
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.metrics_server import address_of, serving
from callboard.cli.options import log_option, model_option
from callboard.cli.output import emit_lines, talk
from callboard.cli.recordings import log_keys
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import new_request_id, new_session_id
from callboard.runtime.cluster.worker import SLOTS, ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.reading import is_server, server_of
from callboard.runtime.models.fallback import ModelChoice


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
    "--metrics",
    metavar="[HOST:]PORT",
    default="",
    help="Serve the worker's metrics for Prometheus at this address, /metrics.",
)
@model_option
@setting_options
def worker(
    agents: tuple[str, ...], slots: int, lease_s: float, metrics: str, model: str, setting: Setting
) -> int:
    """Run submitted sessions of a log on a server, together with other workers.

    The worker claims sessions whose host is one of its agents, and resumes those of workers that died. With
    Ctrl-C or SIGTERM it leaves its sessions to the others at once. `callboard submit` adds sessions,
    `callboard cluster status` lists workers and waiting sessions.

    \b
    Examples:
      callboard worker survey:host --log postgresql://app@db/agents
      callboard worker survey:host survey:critic --slots 500 --metrics 9464
    """
    leases, hosts, own = leases_of(setting.log), list[Agent](), None
    page = address_of(metrics) if metrics else None
    for spec in agents:
        agent, found = choose_model(setting.equipped(load_agent(spec)), model)
        hosts.append(agent)
        own = own or found
    event_loop.run(_work(leases, hosts, own, setting, slots, round(lease_s * 1_000), page))
    return 0


async def _work(
    leases: Leases,
    hosts: list[Agent],
    model: ModelChoice | None,
    setting: Setting,
    slots: int,
    lease_ms: int,
    page: tuple[str, int] | None,
) -> None:
    stop, limits = asyncio.Event(), parse_limits(setting.limits)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with leases, setting.runtime(model, metrics=page is not None) as runtime, AsyncExitStack() as stack:
        if page is not None:
            talk(f"metrics: {await stack.enter_async_context(serving(runtime.metrics, *page))}")
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
