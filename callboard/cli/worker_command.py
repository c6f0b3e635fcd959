"""`callboard worker` and `submit`: processes that share the sessions of a log on a server."""

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Final

import click
from rich.text import Text

from callboard.actors.cluster.claims import LOSSES_MAX
from callboard.actors.cluster.leases import LEASE_MS, LEASE_MS_MIN
from callboard.actors.protocol.errors import MisuseError
from callboard.cli.errors import misused
from callboard.cli.foreground import Setting, setting_options
from callboard.cli.loading import choose_model, load_agent
from callboard.cli.metrics_server import address_of, serving
from callboard.cli.options import log_option, model_option, parse_capacity, parse_limits
from callboard.cli.output import emit_lines, talk
from callboard.cli.recordings import log_keys
from callboard.cli.terminal_escape import safe_line
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import new_request_id, new_session_id
from callboard.runtime.cluster.worker import SLOTS, ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.leases import WorkerRow
from callboard.runtime.log.reading import is_server, server_of
from callboard.runtime.runtime import Runtime
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.labels import checked_tags

COLLECTIONS: Final = (20_000, 20, 20)  # new objects before one of the youngest, and of these before an older


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
@click.option(
    "--fair-by",
    metavar="PATTERN",
    default="",
    help="Give each tag that the pattern names (tenant:*) an equal part of the slots and of the capacity, "
    "however many sessions of it wait. Give it to each worker.",
)
@click.option(
    "--max-losses",
    "losses_max",
    type=click.IntRange(0, 1_000),
    default=LOSSES_MAX,
    show_default=True,
    help="Leave a session alone after so many workers in a row ended while they ran it; 0: never.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    default="",
    help="Serve the worker's metrics for Prometheus at this address, /metrics.",
)
@model_option
@partial(setting_options, approve="wait")
def worker(
    agents: tuple[str, ...],
    slots: int,
    lease_s: float,
    capacity: tuple[str, ...],
    fair_by: str,
    losses_max: int,
    metrics: str,
    model: str,
    setting: Setting,
) -> int:
    """Run submitted sessions of a log on a server, together with other workers.

    The worker claims sessions whose host is one of its agents, and resumes those of workers that died. With
    Ctrl-C or SIGTERM it leaves its sessions to the others at once. `callboard submit` adds sessions,
    `callboard cluster status` lists workers and waiting sessions, and `callboard approvals` answers for
    people.

    \b
    Examples:
      callboard worker survey:host --log postgresql://app@db/agents
      callboard worker survey:host survey:critic --slots 500 --metrics 9464
      callboard worker survey:host --capacity claude=40 --fair-by 'tenant:*'
    """
    above = parse_capacity(capacity, fair_by)
    # Without any, a session that it takes over keeps its own.
    limits = parse_limits(setting.limits) if setting.limits else None
    leases, hosts, own = leases_of(setting.log), list[Agent](), None
    page = address_of(metrics) if metrics else None
    for spec in agents:
        agent, found = choose_model(setting.equipped(load_agent(spec)), model)
        hosts.append(agent)
        own = own or found
    make = partial(
        ClusterWorker,
        leases=leases,
        hosts=hosts,
        slots=slots,
        lease_ms=round(lease_s * 1_000),
        limits=limits,
        losses_max=losses_max,
        fair_by=fair_by or None,
    )
    with rare_collections():
        event_loop.run(_work(leases, partial(setting.runtime, own, capacity=above), make, page))
    return 0


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage less often, for a process that makes many objects which live long.

    A session that is taken over is some thousand objects, which each collection looks at again: they took a
    quarter of the processor time in which a worker takes sessions over.
    """
    former = gc.get_threshold()
    gc.collect()
    gc.freeze()  # the modules
    gc.set_threshold(*COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*former)
        gc.unfreeze()


async def _work(
    leases: Leases,
    runtime_of: Callable[..., Runtime],
    make: Callable[[Runtime], ClusterWorker],
    page: tuple[str, int] | None,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with leases, runtime_of(metrics=page is not None) as runtime, AsyncExitStack() as stack:
        if page is not None:
            talk(f"metrics: {await stack.enter_async_context(serving(runtime.metrics, *page))}")
        one = make(runtime)
        talk(f"worker {one.name}: agents {', '.join(one.hosts)}; {one.slots} slots")
        await one.run(stop)
        talk(f"worker {one.name} has left its sessions to others")


@click.command("submit")
@click.argument("host")
@click.argument("prompt")
@click.option(
    "--session", "name", metavar="ID", default="", help="The id of the session; a new one if omitted."
)
@click.option(
    "--tag",
    "tags",
    metavar="TAG",
    multiple=True,
    help="A tag of a new session, such as tenant:acme. May be repeated.",
)
@log_option
def submit(host: str, prompt: str, name: str, tags: tuple[str, ...], log: str) -> None:
    """Submit a prompt to the agent HOST of any worker, and print the id of its session.

    The same --session again submits nothing new, so a client that got no answer may repeat it. A session that
    was left alone, because workers ended while they ran it, goes to workers again. `callboard delete`
    withdraws a session that no worker has opened yet.

    \b
    Examples:
      callboard submit host "What is here?" --log postgresql://app@db/agents
      callboard submit host "What is here?" --session survey-17 --tag tenant:acme
    """
    session = name or new_session_id()
    try:
        known = checked_tags(tags, Secrets())
    except MisuseError as error:
        raise misused(f"--tag: {error}") from None

    async def work() -> list[WorkerRow]:
        async with leases_of(log) as leases:
            await leases.change(lambda one: one.submit(session, host, new_request_id(), prompt, known))
            return await leases.change(lambda one: one.workers())

    live = [one.state for one in event_loop.run(work()) if one.left_ms > 0]
    emit_lines([Text(session)])
    if not any(host in one.hosts for one in live):
        talk(f"no worker has an agent {safe_line(host, 80)!r} now; the session waits for one")
