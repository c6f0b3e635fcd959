"""Workers, sessions, a server and a model's capacity, in steps of simulated time.

Real: the rules of leases, claims, shares and tokens (`actors/cluster`), with the reports and answers that
workers and the server exchange. Aggregated: sessions, because these rules tell them apart only by their host
and since when they wait. So a worker counts its sessions and calls, and sessions that wait are counts by the
time since when; a claim looks at as many of them as the statement does, each by its own name.
Modelled: the server's processor and disk, by measured costs.

After each step the world checks the promises:

  - No more calls run than places are, also at workers that are lost.
  - No worker acts while others may take its sessions.
  - No session is lost, and none is in two places.
"""

from collections import deque
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from callboard.actors.cluster.claims import LOOKED_AT, WaitingSession, WorkerState, claims
from callboard.actors.cluster.leases import LEASE_MS, Lease, may_take_over
from callboard.actors.cluster.model_home import ModelHome, Part
from callboard.actors.cluster.shares import Sharer
from callboard.actors.session.capacity import Capacity, Demand
from callboard.runtime.cluster.worker import OPENING_MAX, POLL_MS
from tests.growth.costs import Costs

STEP_MS = 100
CALL_MS = 5_000
TOOL_MS = 400
EVENTS_A_CALL = 7
MODEL_TIMEOUT_MS = 15_000


class Plan(NamedTuple):
    """A cluster and its faults. active: sessions of a worker that call models. places: of the model.

    lost: workers that die at lose_ms. pauses: longer than a lease, in the first half of a run.
    set_back_ms: by which the server's clock is set back once. cores: of the server.
    """

    workers: int
    sessions: int
    active: int = 100
    places: int | None = None
    cores: int = 8
    lost: int = 0
    lose_ms: int = 10_000
    pauses: int = 0
    set_back_ms: int = 0
    seed: int = 1
    costs: Costs = Costs()


class Second(NamedTuple):
    """The figures of a second. cpu: of the server's processors, 1 if all are busy.

    batch: events of a commit. waiting: sessions without a worker. cut_ms: since the oldest report of a worker
    that has calls or waits for places.
    """

    events: int
    commits: int
    log_bytes: int
    cpu: float
    waiting: int
    renewals: int
    claims: int
    reports: int
    lapsed: int
    cut_ms: int
    calls: int


class Node:
    """A worker. pace: of its clock, in hundredths. calls: when how many of them end."""

    def __init__(self, number: int, now: int, rng: Random, sessions: int) -> None:
        self.number, self.sessions, self.pace = number, sessions, rng.choice((98, 100, 100, 102))
        self.offset, self.born = rng.randrange(10**6), now
        self.lease = Lease(self.clock(now), LEASE_MS)
        self.calls: deque[tuple[int, int]] = deque()
        self.in_flight = self.waiting = self.opening = 0
        self.resting: deque[tuple[int, int]] = deque()
        self.part = Part(number)
        self.asleep_until, self.is_dead = 0, False
        self.events = 0
        self.sent: int | None = None  # a renewal that has no answer yet
        self.is_asking = self.is_reporting = self.is_appending = False
        self.claims_at = now + rng.randrange(POLL_MS)

    def clock(self, now: int) -> int:
        """Return the time by the worker's own clock."""
        return self.offset + (now - self.born) * self.pace // 100

    def demand(self) -> Demand:
        """Return what its line needs. Each session has one call at a time."""
        return Demand(self.in_flight, self.waiting, self.in_flight + self.waiting)


class World:
    """A cluster. now: the true time in milliseconds; skew: of the server's clock."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.costs, self.rng = plan, plan.costs, Random(plan.seed)
        self.now = self.skew = 0
        each, rest = divmod(plan.sessions, plan.workers)
        self.slots = plan.sessions * 5 // (4 * max(1, plan.workers - plan.lost)) + 1
        self.places = plan.places or plan.workers * plan.active
        self.home = ModelHome(Capacity(self.places), MODEL_TIMEOUT_MS)
        self.nodes = [Node(at, 0, self.rng, each + (at < rest)) for at in range(plan.workers)]
        self.named = {node.number: node for node in self.nodes}
        self.ends = {node.number: LEASE_MS for node in self.nodes}
        self.owned = {node.number: node.sessions for node in self.nodes}
        self.pool: deque[tuple[int, int]] = deque()  # since when, how many
        self.free = {node.number: self.slots - node.sessions for node in self.nodes}
        self.urgent: deque[tuple[str, Node]] = deque()  # renewals and reports
        self.claiming: deque[tuple[str, Node]] = deque()
        self.appending: deque[Node] = deque()
        self._left_us = 0.0  # below 0: spent of the next step
        self.names = plan.workers
        self.lapsed = 0
        self.seconds: list[Second] = []
        self._count = dict.fromkeys(("events", "commits", "renew", "claim", "report"), 0)
        self._busy_us = 0.0
        for node in self.nodes:
            self._begin(node, min(plan.active, node.sessions))

    def _begin(self, node: Node, active: int) -> None:
        """Let the active sessions of a worker come to their next call one after another."""
        first = self.now + self.rng.randrange((CALL_MS + TOOL_MS) // 10)
        for at in range(10):
            count = active * (at + 1) // 10 - active * at // 10
            node.resting.append((first + (CALL_MS + TOOL_MS) * at // 10, count))

    @property
    def server_ms(self) -> int:
        """Return the time by the server's clock."""
        return self.now + self.skew

    def run(self, duration_ms: int) -> list[Second]:
        """Run for some time. Return the figures of each second."""
        plan = self.plan
        pauses = sorted(self.rng.randrange(duration_ms // 2) for _ in range(plan.pauses))
        while self.now < duration_ms:
            self.now += STEP_MS
            if self.now == plan.lose_ms:
                for node in self.rng.sample(self.nodes, plan.lost):
                    node.is_dead = True
                self.skew -= plan.set_back_ms
            while pauses and pauses[0] <= self.now:
                pauses.pop(0)
                node = self.rng.choice(self.nodes)
                node.asleep_until = self.now + self.rng.randrange(LEASE_MS, 3 * LEASE_MS)
            self._step()
            if self.now % 1_000 == 0:
                self._note()
        return self.seconds

    def _step(self) -> None:
        for node in list(self.nodes):
            self._end_calls(node)
            if self._is_awake(node):
                self._act(node)
        self._take_over()
        self._serve()
        self._check()

    # --- workers ------------------------------------------------------------------

    def _is_awake(self, node: Node) -> bool:
        return not node.is_dead and node.asleep_until <= self.now

    def _end_calls(self, node: Node) -> None:
        while node.calls and node.calls[0][0] <= self.now:
            _, count = node.calls.popleft()
            node.in_flight -= count
            node.events += count * EVENTS_A_CALL
            node.resting.append((self.now + TOOL_MS, count))

    def _act(self, node: Node) -> None:
        clock = node.clock(self.now)
        standing = node.lease.standing(clock)
        if standing in {"aborts", "lost"}:
            self._lapse(node)
            return
        if node.sent is None and node.lease.renews_in_ms(clock) == 0:
            node.sent = clock
            self.urgent.append(("renew", node))
        node.opening = max(0, node.opening - STEP_MS // self.costs.open_ms)
        has_room = node.sessions < self.slots and node.opening < OPENING_MAX
        if has_room and not node.is_asking and node.claims_at <= self.now:
            node.is_asking = True
            self.claiming.append(("claim", node))
        while node.resting and node.resting[0][0] <= self.now:
            node.waiting += node.resting.popleft()[1]
        if standing == "acts":
            count = max(0, min(node.waiting, node.part.share - node.in_flight))
            if count:
                node.waiting -= count
                node.in_flight += count
                node.calls.append((self.now + CALL_MS, count))
        if not node.is_reporting and node.part.due_in_ms(node.demand(), self.now) == 0:
            node.is_reporting = True
            self.urgent.append(("report", node))
        if node.events and not node.is_appending:
            node.is_appending = True
            self.appending.append(node)

    def _lapse(self, node: Node) -> None:
        """Let a worker abort its calls, leave its sessions, and register again under another number."""
        self.lapsed += 1
        self._drop(node)
        node.is_dead = True
        self.home.shares.leave(node.number)  # nothing is in flight any more
        fresh = Node(self.names, self.now, self.rng, 0)
        self.names += 1
        self.nodes.append(fresh)
        self.named[fresh.number] = fresh
        self.ends[fresh.number] = self.server_ms + LEASE_MS
        self.owned[fresh.number] = 0
        self.free[fresh.number] = self.slots
        node.calls.clear()
        node.in_flight = 0

    def _drop(self, node: Node) -> None:
        """Give the sessions of a worker back, if no other has them yet."""
        count = self.owned.pop(node.number, 0)
        self.ends.pop(node.number, None)
        self.free.pop(node.number, None)
        if count:
            self.pool.append((self.now, count))

    # --- the server ---------------------------------------------------------------

    def _take_over(self) -> None:
        """Let the sessions of ended leases wait. A worker that is awake must have stopped before that."""
        for number in [one for one, ends in self.ends.items() if may_take_over(ends, self.server_ms)]:
            node = self.named[number]
            assert not self._is_awake(node) or node.lease.standing(node.clock(self.now)) != "acts", number
            self._drop(node)

    def _serve(self) -> None:
        """Spend the processor time of a step. Claims get half of it while appends wait, as backends share."""
        self._left_us = STEP_MS * 1_000 * self.plan.cores + self._left_us
        whole = self._left_us
        self._answer(self.urgent, 0.0)
        self._answer(self.claiming, whole / 2)
        self._append()
        self._answer(self.claiming, 0.0)
        self._busy_us += whole - self._left_us
        self._left_us = min(0.0, self._left_us)

    def _answer(self, queue: "deque[tuple[str, Node]]", until_us: float) -> None:
        home_ms = float(STEP_MS)  # reports of one model come one after another
        late = list[tuple[str, Node]]()
        while queue and self._left_us > until_us:
            kind, node = queue.popleft()
            if kind == "report" and home_ms <= 0:
                late.append((kind, node))
                continue
            if kind == "report":
                home_ms -= self._report_ms()
            self._left_us -= getattr(self, f"_{kind}")(node)
            self._count[kind] += 1
        queue.extendleft(reversed(late))

    def _append(self) -> None:
        costs = self.costs
        syncs = STEP_MS // costs.sync_ms  # of one connection; the disk syncs for all at once
        while self.appending and self._left_us > 0:
            node = self.appending.popleft()
            # A busy server answers later, so more events share a commit.
            each_us = self._left_us / (len(self.appending) + 1) - node.events * costs.event_us
            commits = max(1, min(node.events, syncs, int(each_us // costs.commit_us)))
            self._left_us -= commits * costs.commit_us + node.events * costs.event_us
            self._count["events"] += node.events
            self._count["commits"] += commits
            node.events = 0
            node.is_appending = False

    def _report_ms(self) -> float:
        costs, count = self.costs, len(self.home.shares.holdings)
        server = costs.report_us + costs.report_each_us * count
        return 2 * costs.trip_ms + server / 1_000 + costs.decide_ms * max(0.1, count / 100)

    def _renew(self, node: Node) -> float:
        sent, node.sent = node.sent, None
        if node.number in self.ends and sent is not None:
            self.ends[node.number] = self.server_ms + LEASE_MS
            if not node.is_dead:
                node.lease = node.lease.renewed(sent)
            if (held := self.home.shares.holdings.get(Sharer(node.number))) is not None:
                last = replace(held.last, ends_ms=self.ends[node.number])
                self.home.shares.holdings[Sharer(node.number)] = replace(held, last=last)
        return self.costs.renewal_us

    def _claim(self, node: Node) -> float:
        node.is_asking, node.claims_at = False, self.now + POLL_MS
        if node.number not in self.ends or not self.pool or node.is_dead:
            return self.costs.claim_us
        room = min(OPENING_MAX - node.opening, self.free[node.number])
        state = WorkerState(node.number, ("host",), self.slots, self.owned[node.number])
        chosen = claims(self._candidates(room * LOOKED_AT), state, sum(self.free.values()), room)
        for one in chosen:
            since, count = self.pool.popleft()
            assert since == one.since_ms
            if count > 1:
                self.pool.appendleft((since, count - 1))
        taken = len(chosen)
        self.owned[node.number] += taken
        self.free[node.number] -= taken
        node.sessions += taken
        node.opening += taken
        node.events += taken * 2  # `Resumed`, and what follows
        if taken and len(self.pool):
            node.claims_at = self.now + STEP_MS
        share = self.plan.active * self.plan.workers * taken // self.plan.sessions
        if share or self.rng.random() < self.plan.active * self.plan.workers * taken / self.plan.sessions:
            node.resting.appendleft((self.now, max(1, share)))
        return taken * (self.costs.claim_us + self.costs.takeover_us + self.costs.resume_us)

    def _candidates(self, count: int) -> list[WaitingSession]:
        found: list[WaitingSession] = []
        for since, many in self.pool:
            for at in range(min(many, count - len(found))):
                found.append(WaitingSession(f"{len(found):05}-{at}", "host", since))
        return found

    def _report(self, node: Node) -> float:
        node.is_reporting = False
        if self._is_awake(node):
            said = replace(node.part.report(node.demand(), self.now), ends_ms=self.ends.get(node.number, 0))
            node.part.take(said.number, self.home.report(said, 0, self.server_ms))
        return self.costs.report_us + self.costs.report_each_us * len(self.home.shares.holdings)

    # --- promises and figures -------------------------------------------------------

    def _check(self) -> None:
        running = sum(node.in_flight for node in self.nodes)
        assert running <= self.places, (self.now, running, self.places)
        assert self.home.shares.held <= self.places
        assert sum(self.owned.values()) + sum(count for _, count in self.pool) == self.plan.sessions
        gone = [node for node in self.nodes if node.is_dead and not node.calls]
        if gone and self.now % 1_000 == 0:
            self.nodes = [node for node in self.nodes if not (node.is_dead and not node.calls)]

    def _note(self) -> None:
        count = self._count
        live = self.home.shares.live(self.server_ms)
        ages = [
            self.server_ms - self.home.shares.holdings[name].at_ms
            for name, one in live.items()
            if one.wants and self._is_awake(self.named[name.worker])
        ]
        log_bytes = count["events"] * self.costs.event_bytes + count["commits"] * self.costs.commit_bytes
        self.seconds.append(
            Second(
                count["events"],
                count["commits"],
                log_bytes,
                self._busy_us / (1_000_000 * self.plan.cores),
                sum(many for _, many in self.pool),
                count["renew"],
                count["claim"],
                count["report"],
                self.lapsed,
                max([0, *ages]),
                sum(node.in_flight for node in self.nodes),
            )
        )
        self._count = dict.fromkeys(count, 0)
        self._busy_us = 0.0
        self.lapsed = 0
