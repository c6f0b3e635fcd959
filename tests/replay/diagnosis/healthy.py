"""Healthy sessions: they poll, edit and test, vary widely, recover from errors, and use their reports."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any, Literal

from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.replay.diagnosis.kit import Arguments, delegate, host, ok, simulate, use, worker


def poll(times: int) -> Recording:
    """Ask for the status of a job until it is done."""
    asked = count(1)

    def tools(agent: str, tool: str, arguments: Arguments) -> str:
        return "pending" if next(asked) < times else "done"

    return simulate({"host": [*[use("status", job="j1")] * times, Reply("The job is done.")]}, tools)


def edit_and_test(rounds: int) -> Recording:
    """Read a file, edit it, test, and begin again; the tests say the same twice."""
    tested = count()
    failed = [3, 3, 2, 2, 1, 1, 0]

    def tools(agent: str, tool: str, arguments: Arguments) -> str:
        if tool == "run_tests":
            left = failed[max(0, 7 - rounds + next(tested))]
            return f"{left} failed" if left else "all passed"
        return ok(agent, tool, arguments)

    edits = [
        step
        for n in range(rounds)
        for step in (
            use("look", path="src/a.py"),
            use("save", path="src/a.py", text=f"edit {n}"),
            use("run_tests"),
        )
    ]
    return simulate({"host": [*edits, Reply("All tests pass.")]}, tools)


def folders(seed: int) -> Recording:
    """Let six agents count the files of folders of very different sizes."""
    dice = Random(seed)
    sizes = [3, *(round(dice.lognormvariate(3.5, 1.6)) + 1 for _ in range(4)), 950]
    replies = {
        f"host.{n}": [use("count", path=f"folder{n}"), report({"files": size})]
        for n, size in enumerate(sizes, 1)
    }
    prompts = [f"Count the files of folder{n}" for n in range(1, 7)]
    return simulate({"host": [delegate(*prompts), Reply(f"{sum(sizes)} files in all.")], **replies})


def verdicts(odd: int) -> Recording:
    """Let five agents review; one rejects, and the answer says so."""
    replies = {
        f"host.{n}": [use("look", path=f"part{n}"), report({"verdict": "reject" if n == odd else "accept"})]
        for n in range(1, 6)
    }
    prompts = [f"Give a verdict on part{n}" for n in range(1, 6)]
    said = Reply(f"Four accept; number {odd} rejects, for its names.")
    return simulate({"host": [delegate(*prompts), said], **replies})


def tests_of(modules: int) -> Recording:
    """Let agents run tests; the answer says in words what they reported in numbers."""
    replies = {
        f"host.{n}": [use("run_tests", module=f"m{n}"), report({"failed": 0, "seconds": 10.5 + n})]
        for n in range(1, modules + 1)
    }
    prompts = [f"Run the tests of m{n}" for n in range(1, modules + 1)]
    return simulate({"host": [delegate(*prompts), Reply("All tests pass.")], **replies})


def small_counts(seed: int) -> Recording:
    """Let eight agents count warnings: few, and by chance none."""
    dice = Random(seed)
    replies = {
        f"host.{n}": [
            use("look", path=f"log{n}"),
            report({"warnings": dice.choice([0, 0, 1, 1, 2, 3, 5]), "note": dice.choice(["", "seen"])}),
        ]
        for n in range(1, 9)
    }
    return simulate({"host": [delegate(*(f"Look at log{n}" for n in range(1, 9))), Reply("Few.")], **replies})


def measures(seed: int) -> Recording:
    """Let ten agents measure about the same."""
    dice = Random(seed)
    replies = {
        f"host.{n}": [
            use("look", at=f"place{n}"),
            report({"metres": round(dice.gauss(22, 2), 1), "unit": "m"}),
        ]
        for n in range(1, 11)
    }
    prompts = [f"Measure at place{n}" for n in range(1, 11)]
    return simulate({"host": [delegate(*prompts), Reply("About 22 m everywhere.")], **replies})


def recovered(first: Reply, error: str = "") -> Recording:
    """Make a call that fails or is refused, then the right one."""
    done = count()

    def tools(agent: str, tool: str, arguments: Arguments) -> str:
        if error and next(done) < 2:
            raise OSError(error)
        return ok(agent, tool, arguments)

    right = use("look", path="notes/a.txt")
    return simulate({"host": [first, first, right, right, Reply("It says: go on.")]}, tools)


def summed_up() -> Recording:
    """Sum up four reports, and repeat none of them."""
    prices = [4_190, 3_750, 5_020, 4_480]
    replies = {f"host.{n}": [report({"cents": one})] for n, one in enumerate(prices, 1)}
    prompts = [f"Find the cents of item {n}" for n in range(1, 5)]
    return simulate({"host": [delegate(*prompts), Reply(f"{sum(prices)} cents.")], **replies})


def in_other_words() -> Recording:
    """Answer in other words than the report."""
    found = "The retry loop in net/client.py never resets its counter, so the third failure is final."
    said = Reply("After three failures the client gives up, since a counter is not reset.")
    replies = {"host": [delegate("Find the cause"), said], "host.1": [report({"cause": found})]}
    return simulate(replies)


def approved(verdict: str) -> Recording:
    """Ask a person, who approves as asked, or denies it, which the answer says."""

    def approve(agent: str, asked: RequestApproval) -> ApprovalGiven:
        given: Literal["approved", "denied"] = "denied" if verdict == "denied" else "approved"
        arguments = asked.arguments if verdict == "same" else NULL
        return ApprovalGiven(asked.turn, asked.call, given, arguments=arguments)

    said = Reply("Not paid: it was denied." if verdict == "denied" else "Paid 45.45.")
    return simulate({"host": [use("pay", cents=4545), said]}, approve=approve)


def one_after_the_other() -> Recording:
    """Let one agent write what the one before it has read."""
    replies = {
        "host": [delegate("Read a.toml"), delegate("Write a.toml"), Reply("limit is 5 now, it was 3")],
        "host.1": [use("look", path="a.toml"), report({"limit": 3})],
        "host.2": [use("save", path="a.toml", text="limit = 5"), report({"limit": 5})],
    }
    return simulate(replies)


def read_again() -> Recording:
    """Let a reader read again after another agent has written."""
    look = use("look", path="a.toml")
    replies = {
        "host": [delegate("Test with a.toml", "Edit a.toml"), Reply("It works.")],
        "host.1": [look, use("count"), use("count", of="b"), look, report({"works": True})],
        "host.2": [use("save", path="a.toml", text="limit = 5"), report({"saved": True})],
    }
    return simulate(replies)


def told_in_time() -> Recording:
    """Hear a text while a read tool runs."""
    words = Tell("t1", "host", "Use the new price.")
    steps = [use("look", path="price"), use("send", text="The price is 5."), Reply("Sent.")]
    return simulate({"host": steps}, tell=(words, "look"))


def sought(terms: int) -> Recording:
    """Look for several things, most of which are not there."""
    steps = [use("look", text=f"term {n}") for n in range(terms)]

    def tools(agent: str, tool: str, arguments: Arguments) -> str:
        return "line 12" if arguments["text"].endswith(str(terms - 1)) else "no match"

    return simulate({"host": [*steps, Reply("It stands in line 12.")]}, tools)


def given_again() -> Recording:
    """Give a task again after its first agent has failed; then it ends well."""
    lost = delegate("Find the total of order 7")
    replies = {
        "host": [lost, lost, Reply("The total is 4190.")],
        "host.1": [Reply("I do not know."), Reply("I do not know.")],
        "host.2": [report({"total": 4190})],
    }
    return simulate(replies)


def nested() -> Recording:
    """Use the report of a report."""
    people = (host("lead"), worker("worker", name="lead"), worker())
    replies = {
        "host": [delegate("Find the total", agent="lead"), Reply("In all 7,341.")],
        "host.1": [delegate("Find the total"), report({"total": 7341})],
        "host.1.1": [use("look", path="total"), report({"total": 7341})],
    }
    return simulate(replies, people=people)


def told(said: str) -> Recording:
    """Answer that something could not be found out."""

    def tools(agent: str, tool: str, arguments: Arguments) -> str:
        raise OSError("503")

    return simulate({"host": [use("count", path="8"), Reply(said)]}, tools)


def tests_mended() -> Recording:
    """Test again after failures, by another child."""
    test = delegate("Test it")
    replies = {
        "host": [test, use("save", path="a.py", text="mended"), test, Reply("All tests pass.")],
        "host.1": [use("run_tests", path="x"), report({"failed": 3})],
        "host.2": [use("run_tests", path="x"), report({"failed": 0})],
    }
    return simulate(replies)


def same_mail_to_two() -> Recording:
    """Send one text to two people, and to one of them again after something new."""
    mails = [use("send", to=to, text="It is done") for to in ("ann", "bob", "ann")]
    return simulate({"host": [*mails, Reply("They know.")]})


def looked_before_again() -> Recording:
    """Look whether a mail that timed out was sent, and send it again."""
    done = count()

    def tools(agent: str, tool: str, arguments: Arguments) -> str:
        if tool == "send" and not next(done):
            raise OSError("timed out")
        return "not sent" if tool == "status" else ok(agent, tool, arguments)

    mail = use("send", to="ann", text="Your parcel is here")
    steps = [mail, use("status", to="ann"), mail, Reply("Ann was told.")]
    return simulate({"host": steps}, tools)


def file_handed_on() -> Recording:
    """Let one agent write a file, and another one rewrite it once the first has ended."""
    replies = {
        "host": [
            delegate("Draft notes/a.md"),
            delegate("Write notes/a.md again, shorter"),
            Reply("It is short."),
        ],
        "host.1": [use("save", path="notes/a.md", text="a long text"), report({"saved": True})],
        "host.2": [use("save", path="notes/a.md", text="a text"), report({"saved": True})],
    }
    return simulate(replies)


def file_read_first() -> Recording:
    """Let two agents add to one file, each of which reads it first."""
    look = use("look", path="notes/a.md")
    wait = [use("count", of=str(n)) for n in range(4)]
    replies = {
        "host": [delegate("Add one", "Add two"), Reply("Both stand there.")],
        "host.1": [look, use("save", path="notes/a.md", text="one"), report({"saved": True})],
        "host.2": [*wait, look, use("save", path="notes/a.md", text="one two"), report({"saved": True})],
    }
    return simulate(replies)


def asked_and_answered() -> Recording:
    """Answer the question of a child by another task."""
    task_of = calls(task("worker", "Pay the invoice")), calls(task("worker", "Pay the one of May"))
    replies = {
        "host": [*task_of, Reply("Paid.")],
        "host.1": [Reply("The one of March or of May?")],
        "host.2": [Reply("It is paid.")],
    }
    return simulate(replies)


def asked_on() -> Recording:
    """Ask the user what a child asks."""
    replies = {
        "host": [calls(task("worker", "Pay the invoice")), Reply("Do you mean that of March or of May?")],
        "host.1": [Reply("The one of March or of May?")],
    }
    return simulate(replies)


def offered_more() -> Recording:
    """Let a child end with its work and an offer."""
    said = Reply("The tests of net/client.py pass now, and the log is clean. Shall I look at the others?")
    return simulate({"host": [calls(task("worker", "Mend it")), Reply("It works.")], "host.1": [said]})


def numbered_on() -> Recording:
    """Ask for one page after the other, of which no result names the next."""
    steps = [use("look", page=f"PAGE-{n}") for n in range(1_001, 1_006)]
    return simulate(
        {"host": [*steps, Reply("Five pages.")]}, lambda agent, tool, arguments: f"of {arguments['page']}"
    )


def counted_on() -> Recording:
    """Work through numbered things, of which one looks like another with swapped digits."""
    steps = [use("look", item=f"fig{n:03}") for n in range(9, 24)]
    return simulate({"host": [*steps, Reply("All of them.")]})


def denied_and_left() -> Recording:
    """Be denied a payment, and write that it was denied."""
    note = use("send", to="ann", text="The payment of 4545 was not approved.")

    def approve(agent: str, asked: RequestApproval) -> ApprovalGiven:
        return ApprovalGiven(asked.turn, asked.call, "denied")

    return simulate({"host": [use("pay", cents=4545), note, Reply("Not paid: denied.")]}, approve=approve)


def denied_and_done_otherwise() -> Recording:
    """Be denied a payment, and do with a note instead."""

    def approve(agent: str, asked: RequestApproval) -> ApprovalGiven:
        return ApprovalGiven(asked.turn, asked.call, "denied", note="Write to her instead.")

    note = use("send", to="ann", text="Please come by.")
    return simulate({"host": [use("pay", cents=4545), note, Reply("I wrote to Ann.")]}, approve=approve)


def rounded(said: str) -> Recording:
    """Answer with a number in another unit, in another spelling or rounded."""

    def counts(agent: str, tool: str, arguments: Arguments) -> object:
        return {"bytes": 137_714.24, "cents": 390_534, "grams": 120_450, "share": 12.3456}

    return simulate({"host": [use("count"), Reply(said)]}, counts)


def healthy() -> Iterator[tuple[str, Callable[[], Recording]]]:
    """Yield the name of each healthy session, and a function that makes it."""
    many: list[tuple[Callable[[Any], Recording], Sequence[object]]] = [
        (poll, (3, 5, 9)),
        (edit_and_test, (2, 3, 5, 7)),
        (folders, tuple(range(8))),
        (verdicts, (1, 5)),
        (tests_of, (1, 5)),
        (small_counts, tuple(range(8))),
        (measures, tuple(range(8))),
        (approved, ("as asked", "same", "denied")),
        (sought, (4, 7)),
        (rounded, ("137,714 bytes", "3,905.34 euros", "12045 dag, 120.45 kg", "12.346", "524,938 in all")),
        (told, ("I could not count them.", "The counter is unavailable.", "Which folder is it?")),
        (
            told,
            (
                "Ich habe 503 erhalten.",
                "Die Dateien lassen sich nicht zählen.",
                "No hay 8: fallo.",
                "数えられません。",
            ),
        ),
    ]
    for make, arguments in many:
        for one in arguments:
            yield f"{make.__name__} {one}", partial(make, one)
    slips = {
        "an unknown tool": (use("lock", path="notes/a.txt"), ""),
        "unusable arguments": (calls(("look", "notes/a.txt")), ""),
        "an error": (use("look", path="docs"), "docs is a folder"),
    }
    for name, slip in slips.items():
        yield f"recovered from {name}", partial(recovered, *slip)
    for single in (
        summed_up, in_other_words, one_after_the_other, read_again, told_in_time, given_again, nested,
        tests_mended, same_mail_to_two, looked_before_again, file_handed_on, file_read_first,
        asked_and_answered, asked_on, offered_more, numbered_on, counted_on, denied_and_left,
        denied_and_done_otherwise,
    ):  # fmt: skip
        yield single.__name__, single
