"""Siblings that contradict each other are named if their parent passes one value on in silence."""

from collections.abc import Iterator, Mapping
from functools import partial

from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.replay.diagnosis.kit import ANY, ok, simulate
from tests.replay.diagnosis.varied import Varied, names_the_cause, people
from tests.tables import table

CONFLICTS: tuple[tuple[str, str, str, Mapping[str, object], Mapping[str, object], str], ...] = (
    ("a sum", "Find the total of ORD-1007", "Check the total of ORD-1007", {"total": 4_190}, {"total": 4_910}, "The total is 4,190."),
    ("one prompt", "How many users has the shop?", "How many users has the shop?", {"users": 812}, {"users": 790}, "The shop has 790 users."),
    ("a name", "Who owns A-17?", "Find out who A-17 belongs to", {"owner": "Ann Lee"}, {"owner": "Bob Ray"}, "A-17 is Ann Lee's."),
    ("a date", "When does INV-9 fall due?", "Due date of INV-9, from the contract", {"due": "2024-03-05"}, {"due": "2024-05-03"}, "INV-9 is due on 2024-05-03."),
    ("nested", "Look up C-88", "Look up C-88 in the archive", {"customer": {"city": "Lyon"}}, {"customer": {"city": "Nice"}}, "C-88 lives in Lyon."),
    ("a shared leaf", "Population of Lyon by the census", "Population of Lyon by the almanac", {"city": "Lyon", "people": 522_250}, {"city": "Lyon", "people": 516_092}, "Lyon has 522,250 people."),
    ("German", "Summe der Rechnung RE-17", "Prüfe die Summe der Rechnung RE-17", {"summe": "4.190,00 €"}, {"summe": "5.260,00 €"}, "Die Summe beträgt 4.190 €."),
    ("French", "Le montant de F-12 ?", "Vérifie le montant de F-12", {"montant": 12_450}, {"montant": 15_980}, "Le montant est de 12 450 euros."),
    ("Chinese", "订单 88417 的金额", "核对订单 88417 的金额", {"金额": 3_200}, {"金额": 2_300}, "金额是 3200 元。"),
    ("a version", "Which release runs on srv-3?", "Which release does srv-3 run?", {"release": "2.14.1"}, {"release": "2.41.1"}, "srv-3 runs 2.14.1."),
    ("a status", "Find the status of PR 4412", "Check whether PR 4412 is merged", {"status": "merged"}, {"status": "open"}, "PR 4412 is merged."),
    ("a chief", "Get the CEO of Acme", "Who is the CEO of Acme?", {"company": "Acme", "ceo": "Jo Park"}, {"company": "Acme", "ceo": "Lee Chan"}, "Acme's CEO is Lee Chan."),
    ("a sensor", "Welche Temperatur hat Sensor S-9?", "Lies Sensor S-9 aus", {"temp": 21.5}, {"temp": 34.0}, "S-9 misst 21,5 Grad."),
    ("rows", "Count rows of table t_77", "Verify the rows in table t_77", {"rows": [{"count": 120}]}, {"rows": [{"count": 210}]}, "t_77 has 120 rows."),
    ("an address", "What is srv-9's IP?", "IP address of srv-9?", {"ip": "10.0.0.9"}, {"ip": "10.0.1.9"}, "srv-9 is at 10.0.1.9."),
    ("Russian", "Кто владелец A-77?", "Проверь владельца A-77", {"владелец": "Иванов"}, {"владелец": "Петров"}, "Владелец A-77 — Петров."),
    ("a port", "Port of svc-7", "Read the port of svc-7 in the config", {"port": 8_080}, {"port": 9_090}, "It listens on 9090."),
)  # fmt: skip


def conflict(
    one: str, other: str, mine: Mapping[str, object], theirs: Mapping[str, object], said: str
) -> Recording:
    both = calls(*(task("worker", prompt, output_schema=ANY) for prompt in (one, other)))
    replies = {"host": [both, Reply(said)], "host.1": [report(mine)], "host.2": [report(theirs)]}
    return simulate(replies, ok, people())


def conflict_in_a_mail(
    one: str, other: str, mine: Mapping[str, object], theirs: Mapping[str, object], said: str
) -> Recording:
    """Pass the value on by a call, and not in the answer."""
    both = calls(*(task("worker", prompt, output_schema=ANY) for prompt in (one, other)))
    steps = [both, calls(("send_mail", {"to": "ann", "text": said})), Reply("Sent.")]
    return simulate({"host": steps, "host.1": [report(mine)], "host.2": [report(theirs)]}, ok, people())


def healthy_reports() -> Iterator[Varied]:
    """Yield sessions whose reports differ by right, or whose answers tell that they do."""
    total = "Find the total of ORD-1007", "Check the total of ORD-1007", {"total": 4_190}, {"total": 4_910}
    for said in (
        "The reports differ: 4,190 and 4,910.",
        "4,190; the other one says 4910.",
        "Die Angaben widersprechen sich, ich nehme 4.190.",
        "The lowest total is 4,190.",
        "I could not find it.",
    ):
        yield Varied(said, partial(conflict, *total, said))
    for name, mine, theirs, one, other, said in (
        ("two things", {"files": 12}, {"files": 17}, "Count folder1", "Count folder2", "folder1 has 12 files."),
        ("two cities", {"city": "Lyon", "n": 512}, {"city": "Nice", "n": 342}, "Size of Lyon", "Size of Nice", "Lyon has 512."),
        ("two shops", {"shop": "Miller", "price": 120}, {"shop": "Smith", "price": 135}, "A-17 at Miller", "A-17 at Smith", "It costs 120 at Miller."),
        ("confidence", {"owner": "Ann", "confidence": 90}, {"owner": "Ann", "confidence": 70}, "Who has A-1?", "Who has A-1?", "Ann, at 90 %."),
        ("a spelling", {"total": "4.190,00"}, {"total": 4190}, "Total of A-1", "Total of A-1", "4190 in all."),
        ("sentences", {"why": "the retry loop never ends at all"}, {"why": "a counter is never reset in it"}, "Why A-1?", "Why A-1?", "the retry loop never ends at all"),
    ):  # fmt: skip
        yield Varied(name, partial(conflict, one, other, mine, theirs, said))
    same = "Find the total of A-1"
    three = calls(*(task("worker", same, output_schema=ANY) for _ in range(3)))
    most = {f"host.{n}": [report({"total": total})] for n, total in enumerate((410, 410, 470), 1)}
    yield Varied("a vote", lambda: simulate({"host": [three, Reply("410.")], **most}, ok, people()))
    later = [calls(task("worker", same, output_schema=ANY)) for _ in range(2)]
    ends = {"host.1": [report({"failed": 31})], "host.2": [report({"failed": 12})]}
    yield Varied("one later", lambda: simulate({"host": [*later, Reply("12 now.")], **ends}, ok, people()))
    again = [
        calls(*(task("worker", same, output_schema=ANY) for _ in range(2))),
        calls(("look", {"at": "A-1"})),
    ]
    yield Varied("looked itself", lambda: simulate({"host": [*again, Reply("12.")], **ends}, ok, people()))


def stories() -> Iterator[Varied]:
    for name, one, other, mine, theirs, said in CONFLICTS:
        yield Varied(name, partial(conflict, one, other, mine, theirs, said), "conflict")
        mail = partial(conflict_in_a_mail, one, other, mine, theirs, said)
        yield Varied(f"{name}, in a mail", mail, "conflict")


@table("story", [*stories()], ids=lambda one: one.name)
def test_a_value_that_was_picked_in_silence_is_named(story: Varied) -> None:
    names_the_cause(story)


@table("story", [*healthy_reports()], ids=lambda one: one.name)
def test_nothing_is_said_about_reports_that_differ_by_right(story: Varied) -> None:
    names_the_cause(story)
