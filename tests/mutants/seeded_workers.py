"""Mutants of the rules of workers, of budgets on a server, and of the Claude client's requests: no session of
the kit has them, so tests where the code stands find them."""

from typing import Final

from tests.mutants.mutant import Mutant

LEASES: Final = (
    Mutant(
        "lease-acts-to-its-end",
        "A worker starts calls in the last quarter of its lease.",
        "cluster.leases",
        "self.lease_ms * 3 // 4 else",
        "self.lease_ms else",
    ),
    Mutant(
        "lease-ends-late",
        "A worker acts at the moment at which others may take over.",
        "cluster.leases",
        "        if passed >= self.lease_ms:\n",
        "        if passed > self.lease_ms:\n",
    ),
    Mutant(
        "clock-set-back-starts",
        "A worker whose clock went back starts calls.",
        "cluster.leases",
        '"acts" if 0 <= passed < ',
        '"acts" if passed < ',
    ),
    Mutant(
        "renewal-counts-from-the-answer",
        "A lease counts from its end, not from when its renewal was sent.",
        "cluster.leases",
        "return Lease(sent_ms, self.lease_ms)",
        "return Lease(sent_ms + self.lease_ms, self.lease_ms)",
    ),
    Mutant(
        "places-free-with-the-lease",
        "The places of a lost worker are free while its last call still runs.",
        "cluster.leases",
        "return ends_ms + model_timeout_ms",
        "return ends_ms",
    ),
)

CLAIMS: Final = (
    Mutant(
        "claims-what-it-refused",
        "A worker takes a session again that it has refused.",
        "cluster.claims",
        "one.host in worker.hosts and worker.worker not in one.refused_by",
        "one.host in worker.hosts",
    ),
    Mutant(
        "claims-any-host",
        "A worker takes sessions of agents that it does not have.",
        "cluster.claims",
        "one.host in worker.hosts and worker.worker not in one.refused_by",
        "worker.worker not in one.refused_by",
    ),
    Mutant(
        "first-worker-takes-all",
        "A worker takes as many sessions as it has free slots.",
        "cluster.claims",
        "min(worker.free, -(-waiting",
        "max(worker.free, -(-waiting",
    ),
    Mutant(
        "part-rounded-down",
        "A small part of a worker is nothing, so a session waits beside free slots.",
        "cluster.claims",
        "-(-waiting * worker.free // max(free_of_all, worker.free))",
        "waiting * worker.free // max(free_of_all, worker.free)",
    ),
    Mutant(
        "draining-worker-claims",
        "A worker that drains takes sessions.",
        "cluster.claims",
        "0 if self.is_draining else ",
        "",
    ),
    Mutant(
        "slots-to-the-crowd",
        "A tag gets slots by its waiting sessions, however many of it run.",
        "cluster.claims",
        "Counter(running)",
        "Counter[str]()",
    ),
)

SHARES: Final = (
    Mutant(
        "share-counts-without-calls",
        "A worker that acts by a smaller share holds no place for the calls beyond it.",
        "cluster.shares",
        "min(max(renewal.share, renewal.in_flight), former.held)",
        "min(renewal.share, former.held)",
    ),
    Mutant(
        "share-counts-only-calls",
        "A share that a worker may still be using is free for others.",
        "cluster.shares",
        "min(max(renewal.share, renewal.in_flight), former.held)",
        "min(renewal.in_flight, former.held)",
    ),
    Mutant(
        "late-report-counts",
        "A report that comes behind its successor is taken.",
        "cluster.shares",
        "renewal.ends_ms <= now or (former is not None and renewal.number <= former.last.number)",
        "renewal.ends_ms <= now",
    ),
    Mutant(
        "report-behind-the-lease-counts",
        "A report that comes behind the end of its lease is taken.",
        "cluster.shares",
        "renewal.ends_ms <= now or (former is not None and renewal.number <= former.last.number)",
        "former is not None and renewal.number <= former.last.number",
    ),
    Mutant(
        "share-beyond-the-free",
        "A share grows out of places that others hold.",
        "cluster.shares",
        "min(fair.get(name, 0), max(held, held + self.limit - self.held))",
        "fair.get(name, 0)",
    ),
    Mutant(
        "place-stays-with-the-first",
        "Where there are fewer places than workers, they do not go around.",
        "cluster.shares",
        "used = {name: self.holdings[name].used for name in own}",
        "used = dict.fromkeys(own, 0)",
    ),
    Mutant(
        "places-by-session-alone",
        "Places are divided among all sessions, whatever their tags.",
        "cluster.shares",
        "tags.setdefault(name.tag, {})",
        'tags.setdefault("", {})',
    ),
    Mutant(
        "place-stays-with-the-first-tag",
        "Where there are fewer places than tags, they do not go around.",
        "cluster.shares",
        "order = {tag: self._had_by(tag) for tag in tags}",
        "order = dict.fromkeys(tags, 0)",
    ),
    Mutant(
        "tag-counts-each-worker",
        "What a tag has had is what one of its workers has had.",
        "cluster.shares",
        "had = self._had_by(renewal.tag)",
        "had = former.tag_used if former is not None else 0",
    ),
)


def _server(name: str, what: str, old: str, new: str) -> Mutant:
    return Mutant(name, what, "server_budgets", old, new, folder="runtime")


SERVER: Final = (
    _server(
        "given-up-reservation-stays",
        "A reservation whose call was given up meanwhile is never released.",
        "            asking.add_done_callback(lambda done: self._release(one, done))\n",
        "",
    ),
    _server(
        "reservations-of-others-unseen",
        "A call is given although the store has not reserved it.",
        "            if await self._reserved(one, limits):\n",
        "            if await self._reserved(one, limits) or True:\n",
    ),
    _server(
        "waits-for-what-is-spent",
        "A call that can never fit waits instead of being refused.",
        "            return self._refusal(await self._server.read(scopes), limits, need)\n",
        "            return None\n",
    ),
)


def _claude(name: str, what: str, old: str, new: str) -> Mutant:
    return Mutant(name, what, "brains.claude_requests", old, new, folder="runtime")


CLAUDE: Final = (
    _claude(
        "environment-is-asked",
        "What the client says of its machine is part of the request, so that a restart asks another.",
        'if not str(one.get("text", "")).startswith(_ABOUT_CLIENT)',
        "if one",
    ),
    _claude(
        "marks-are-asked",
        "Cache marks are part of the request.",
        'if key not in ("cache_control", "caller")',
        'if key != "caller"',
    ),
    _claude(
        "arguments-lose-a-key",
        "An argument of a call with the name of a mark is left out.",
        'key: one if key == "input" else _unmarked(one)',
        "key: _unmarked(one)",
    ),
    _claude(
        "signature-not-streamed",
        "Reasoning comes to the client without its signature.",
        '        if block.get("signature"):\n',
        '        if not block.get("signature", ""):\n',
    ),
)
