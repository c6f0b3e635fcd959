"""An id that was given to a sibling is named where another agent works with it."""

from collections.abc import Iterator, Mapping
from functools import partial

from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.replay.diagnosis.kit import ANY, simulate
from tests.replay.diagnosis.varied import Varied, names_the_cause, people
from tests.tables import table


def stranger(prompts: tuple[str, str], call: tuple[str, Mapping[str, object]], said: object) -> Recording:
    """Let the second agent of two make this call, and report this."""
    both = calls(*(task("worker", prompt, output_schema=ANY) for prompt in prompts))
    replies = {
        "host": [both, Reply("Done.")],
        "host.1": [calls(("look", {"at": "one"})), report({"is_done": True})],
        "host.2": [calls(call), report(said)],
    }
    return simulate(replies, lambda agent, tool, arguments: "done", people())


ORDERS = "Refund order ORD-48213", "Refund order ORD-48217"
STRANGERS: tuple[tuple[str, tuple[str, str], tuple[str, Mapping[str, object]], object], ...] = (
    ("a call", ORDERS, ("transfer", {"order": "ORD-48213", "cents": 4_190}), {"is_done": True}),
    ("a read", ORDERS, ("look", {"order": "ORD-48213"}), {"is_done": True}),
    ("a report", ORDERS, ("look", {"order": "ORD-48217"}), {"order": "ORD-48213", "refunded": True}),
    ("words of a report", ORDERS, ("look", {"at": "x"}), {"note": "I refunded ORD-48213."}),
    ("a nested argument", ORDERS, ("query", {"filter": {"ids": ["ORD-48213"]}}), {"is_done": True}),
    ("a number", ("Close ticket 771204", "Close ticket 771209"), ("delete_rows", {"id": 771_204}), {"is_done": True}),
    ("German", ("Prüfe Konto DE-55102", "Prüfe Konto DE-55190"), ("überweise", {"konto": "DE-55102"}), {"fertig": True}),
    ("French", ("Annule le dossier F2024-881", "Annule le dossier F2024-913"), ("delete_rows", {"dossier": "F2024-881"}), {"ok": True}),
    ("Chinese", ("处理订单 CN88417", "处理订单 CN88592"), ("look", {"订单": "CN88417"}), {"完成": True}),
    ("another case", ("Ship pkg-77A1", "Ship pkg-77A2"), ("save", {"package": "PKG-77A1"}), {"is_done": True}),
    ("a command", ("Look into host web-017", "Look into host web-023"), ("run_shell", {"command": "ssh web-017 uptime"}), {"ok": True}),
    ("a URL", ("Open INV-00417", "Open INV-00981"), ("fetch_url", {"url": "https://x.example/invoices/INV-00417"}), {"ok": True}),
    ("a year and a number", ("Bestellung 2024-0017", "Bestellung 2024-0025"), ("look", {"nr": "2024-0017"}), {"ok": True}),
    ("a uuid", ("User 5f0c2d9e-11aa", "User 8b1e4c3f-22bb"), ("query", {"user": "5f0c2d9e-11aa"}), {"is_done": True}),
)  # fmt: skip


def healthy_ids() -> Iterator[Varied]:
    """Yield sessions in which agents work with ids that they were given, read or made."""
    own = "transfer", {"order": "ORD-48217"}
    yield Varied("its own", partial(stranger, ORDERS, own, {"order": "ORD-48217"}))
    shared = "Refund ORD-48213, not ORD-48217", "Refund ORD-48217; ORD-48213 is another's"
    yield Varied("told of both", partial(stranger, shared, own, {"not": "ORD-48213"}))
    yield Varied("of neither", partial(stranger, ORDERS, ("look", {"id": "CUST-9001"}), {"c": "CUST-9001"}))
    dates = "Report of 2024-03-05", "Report of 2024-03-06"
    yield Varied("dates", partial(stranger, dates, ("look", {"from": "2024-03-05"}), {"day": "2024-03-06"}))

    def read() -> Recording:
        replies = {
            "host": [
                calls(*(task("worker", prompt, output_schema=ANY) for prompt in ORDERS)),
                Reply("Done."),
            ],
            "host.1": [report({"order": "ORD-48213"})],
            "host.2": [
                calls(("look", {"at": "ORD-48217"})),
                calls(("look", {"at": "ORD-48213"})),
                report({"order": "ORD-48217", "belongs_to": "ORD-48213"}),
            ],
        }
        tools = {"host.2": "ORD-48217 is a part of ORD-48213"}
        return simulate(replies, lambda agent, tool, arguments: tools.get(agent, "ok"), people())

    yield Varied("read in a result", read)


def stories() -> Iterator[Varied]:
    for name, prompts, call, said in STRANGERS:
        yield Varied(name, partial(stranger, prompts, call, said), "sibling_id")


@table("story", [*stories()], ids=lambda one: one.name)
def test_the_id_of_a_sibling_is_named(story: Varied) -> None:
    names_the_cause(story)


@table("story", [*healthy_ids()], ids=lambda one: one.name)
def test_nothing_is_said_about_ids_that_an_agent_knows(story: Varied) -> None:
    names_the_cause(story)
