"""Sessions with one planted cause each, of twelve kinds and more, and what a person has to be told."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from callboard.actors.protocol.bundles import Allowed, Bundle
from callboard.actors.protocol.client_messages import Tell
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.diagnosis.finding import FindingKind
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.replay.diagnosis.kit import Arguments, delegate, host, ok, simulate, use, worker


class Planted(NamedTuple):
    """A session, the finding that names its cause, and words of the sentence."""

    name: str
    make: Callable[[], Recording]
    kind: FindingKind
    agent: str
    words: str


def _nothing(agent: str, tool: str, arguments: Arguments) -> str:
    return "0 tickets found"


def _broken(agent: str, tool: str, arguments: Arguments) -> str:
    if tool == "count" and "8" in str(arguments):
        raise OSError("503 unavailable")
    return ok(agent, tool, arguments)


def loop() -> Recording:
    """Ask the same until another way is taken."""
    return simulate({"host": [*[use("look", key="A-1")] * 4, Reply("I could not find it.")]}, _nothing)


def loop_of_two() -> Recording:
    """Ask two things in turn."""
    asked = [use("look", key="A-1"), use("look", key="A-2")] * 4
    return simulate({"host": [*asked, Reply("I could not find it.")]}, _nothing)


def loop_below() -> Recording:
    """Let a child ask the same until its turns are used up."""
    limited = worker(limits=Limits(max_iterations=5))
    people = (host("worker"), limited)
    return simulate(
        {"host": [delegate("Find A-1"), Reply("Not found.")], "host.1": [use("look", key="A-1")]},
        _nothing,
        people,
    )


def tried_again() -> Recording:
    """Give one task three times, in other words, to children that use all their turns."""
    tries = [
        delegate("Find the owner of order A-17"),
        delegate("Please find the owner of order A-17"),
        delegate("Find the owner of order A-17 now"),
    ]
    looks = [use("look", text=f"word {n}") for n in range(9)]
    limited = worker(limits=Limits(max_iterations=5))
    replies = {"host": [*tries, Reply("It has no owner.")], "*": looks}
    return simulate(replies, people=(host("worker"), limited))


def tried_in_vain() -> Recording:
    """Give one task twice, to agents that never report."""
    again = delegate("Find the owner of A-17")
    return simulate({"host": [again, again, Reply("It has no owner.")], "*": [Reply("Hm.")]})


def always_the_same() -> Recording:
    """Search for thirty things by a tool that finds nothing."""
    return simulate(
        {"host": [*(use("look", ticket=f"cyd {n}") for n in range(30)), Reply("There are none.")]}, _nothing
    )


def _team(values: list[dict[str, object]], asked: str, said: str) -> Recording:
    replies = {f"host.{n}": [use("look", at=f"p{n}"), report(one)] for n, one in enumerate(values, 1)}
    return simulate(
        {"host": [delegate(*(f"{asked} {n}" for n in range(1, len(values) + 1))), Reply(said)], **replies}
    )


METRES = (20.5, 21.0, 24.0, 22.3, 73.8, 23.1, 20.9, 21.7)


def feet() -> Recording:
    """Measure in feet once."""
    return _team([{"height": one} for one in METRES], "Measure at", "About 28 m.")


def cents() -> Recording:
    """Report cents once, among prices in euros."""
    prices: list[dict[str, object]] = [{"price": n} for n in (419.0, 375.5, 50_200, 448.0, 399.9)]
    return _team(prices, "Find the price of", "51,842.40 in all.")


def lost_digits() -> Recording:
    """Sum up less than all in one of twelve close sums."""
    sums = [1_170_000 + 1_837 * n for n in range(11)]
    values: list[dict[str, object]] = [{"total": one} for one in (*sums, 823_591)]
    return _team(values, "Sum up part", "In all 13,794,625.")


def currency() -> Recording:
    """Report one price in another currency."""
    prices: list[dict[str, object]] = [{"price": 400 + n, "currency": "EUR"} for n in range(5)]
    return _team([*prices, {"price": 405, "currency": "USD"}], "Find the price of", "2,415 EUR.")


def pounds() -> Recording:
    """Weigh one box in pounds."""
    weights: list[dict[str, object]] = [
        {"weight": one} for one in ("12.1 kg", "900 g", "26.7 lb", "12.4 kg", "11.9kg")
    ]
    return _team(weights, "Weigh box", "12.1 kg, 900 g, 26.7 lb, 12.4 kg, 11.9kg")


def ignored() -> Recording:
    """Ask for a sum, and answer another one."""
    replies = {"host.1": [report({"refund_cents": 41_900})]}
    return simulate({"host": [delegate("Find the refund of A-1"), Reply("You get a voucher.")], **replies})


def ignored_one_of_many() -> Recording:
    """Repeat all reports but one."""
    values: list[dict[str, object]] = [{"total": 4_190 + 137 * n} for n in range(6)]
    said = ", ".join(str(one["total"]) for one in values[:-1])
    return _team(values, "Find the total of", f"The totals are {said}.")


def late_words() -> Recording:
    """Correct a price while the mail with the wrong one is sent."""
    words = Tell("t1", "host", "The price is 6, not 5.")
    return simulate({"host": [use("send", text="The price is 5."), Reply("Sent.")]}, tell=(words, "send"))


def late_words_above() -> Recording:
    """Correct the host while its child saves."""
    words = Tell("t1", "host", "Not this file!")
    replies = {
        "host": [delegate("Save it"), Reply("It is saved.")],
        "host.1": [use("save", path="a"), report({"saved": True})],
    }
    return simulate(replies, tell=(words, "save"))


def late_words_below() -> Recording:
    """Correct a child while it saves."""
    words = Tell("t1", "host.1", "Not this file!")
    replies = {
        "host": [delegate("Save it"), Reply("It is saved.")],
        "host.1": [use("save", path="a"), report({"saved": True})],
    }
    return simulate(replies, tell=(words, "save"))


def small_model() -> Recording:
    """Measure by the fallback of an overloaded model."""
    busy = Reply(failure=ModelFailure("overloaded", is_retryable=True))
    people = (host("worker"), worker(fallback=(ModelSpec("small"),)))
    replies = {
        "host": [delegate("Measure it"), Reply("It is 73.8 m.")],
        "host.1": [busy, report({"height": 73.8})],
    }
    return simulate(replies, people=people)


def _approving(arguments: bytes) -> Callable[[str, RequestApproval], ApprovalGiven]:
    return lambda agent, asked: ApprovalGiven(
        asked.turn, asked.call, "approved", arguments=Json(arguments), by="ann"
    )


def another_sum() -> Recording:
    """Approve a tenth of the sum."""
    return simulate({"host": [use("pay", cents=4545), Reply("Paid.")]}, approve=_approving(b'{"cents":454}'))


def another_order() -> Recording:
    """Approve the payment of another order."""
    asked = use("pay", order="A-1", cents=5)
    return simulate({"host": [asked, Reply("Paid.")]}, approve=_approving(b'{"order":"A-2","cents":5}'))


def stale() -> Recording:
    """Test with limits that another agent changes meanwhile."""
    wait = [use("count", of=str(n)) for n in range(4)]
    replies = {
        "host": [delegate("Test it", "Edit it"), Reply("Tested.")],
        "host.1": [use("look", path="limits.toml"), *wait, report({"works": True})],
        "host.2": [use("count"), use("save", path="limits.toml", text="x = 1"), report({"saved": True})],
    }
    return simulate(replies)


def stale_order() -> Recording:
    """Answer about an order that another agent cancels meanwhile."""
    wait = [use("count", of=str(n)) for n in range(4)]
    replies = {
        "host": [delegate("Tell of it", "Cancel it"), Reply("It comes on Monday.")],
        "host.1": [use("status", order="A-1007"), *wait, report({"comes": "Monday"})],
        "host.2": [use("count"), use("send", order="A-1007", text="cancel"), report({"sent": True})],
    }
    return simulate(replies)


def stale_under_another_name() -> Recording:
    """Read a file that another agent writes under another name of the argument."""
    wait = [use("count", of=str(n)) for n in range(4)]
    replies = {
        "host": [delegate("Test it", "Edit it"), Reply("Tested.")],
        "host.1": [use("look", file="etc/limits.toml"), *wait, report({"works": True})],
        "host.2": [use("count"), use("save", path="etc/limits.toml"), report({"saved": True})],
    }
    return simulate(replies)


def denied() -> Recording:
    """Make a rate up after the tool was refused."""
    bounded = msgspec.structs.replace(host(), permissions=Bundle(do=Allowed(tools=("count",))))
    return simulate(
        {"host": [use("look", pair="EURUSD"), Reply("The rate of today is 1.10.")]}, people=(bounded,)
    )


def unknown() -> Recording:
    """Call a tool that does not exist, and go on."""
    return simulate({"host": [use("rates", pair="EURUSD"), Reply("The rate of today is 1.10.")]})


def unusable() -> Recording:
    """Delegate without a prompt, and answer without the report."""
    return simulate({"host": [calls(task("worker", "")), Reply("The worker says 4.")]})


def defaulted() -> Recording:
    """Report 0 after an error."""
    steps = [use("count", path="folder8"), report({"files": 0})]
    return simulate({"host": [delegate("Count folder8"), Reply("0 files.")], "host.1": steps}, _broken)


def dropped() -> Recording:
    """Report an empty list of owners after an error."""
    steps = [use("count", path="folder8"), report({"files": 12, "owner": ""})]
    return simulate({"host": [delegate("Count folder8"), Reply("12 files.")], "host.1": steps}, _broken)


def refused_report() -> Recording:
    """Fill a field in, once the report without it is refused."""
    schema = {"type": "object", "required": ["files", "owner"]}
    steps = [report({"files": 12}), report({"files": 12, "owner": ""})]
    asked = calls(task("worker", "Count folder8", output_schema=schema))
    return simulate({"host": [asked, Reply("12 files.")], "host.1": steps})


def left_out() -> Recording:
    """Leave a field out after an error, which all siblings have."""
    replies = {
        f"host.{n}": [
            use("count", path=f"folder{n}"),
            report({"files": 10 + n} if n == 8 else {"files": 10 + n, "owner": f"ann{n}"}),
        ]
        for n in range(1, 10)
    }
    prompts = [f"Look at folder{n}" for n in range(1, 10)]
    return simulate({"host": [delegate(*prompts), Reply("All have owners.")], **replies}, _broken)


def same_error() -> Recording:
    """Try a broken tool with other arguments, and give up."""
    steps = [*(use("count", path=f"8/{n}") for n in range(3)), Reply("There are 4 files.")]
    return simulate({"host": steps}, _broken)


def same_error_below() -> Recording:
    """Let a child try a broken tool."""
    steps = [*[use("count", path="8")] * 3, report({"note": "estimated", "files": 4})]
    return simulate({"host": [delegate("Count"), Reply("4 files.")], "host.1": steps}, _broken)


def capped() -> Recording:
    """Go on after a child that used all its turns."""
    people = (host("worker"), worker(limits=Limits(max_iterations=2)))
    looks = [use("look", text=f"word {n}") for n in range(9)]
    return simulate({"host": [delegate("Find it"), Reply("It is fine.")], "host.1": looks}, people=people)


def failed() -> Recording:
    """Fail by the model."""
    return simulate({"host": [Reply(failure=ModelFailure("not_found_error", "no such model"))]})


def cut() -> Recording:
    """Answer in more tokens than a reply may have."""
    return simulate({"host": [Reply("The three causes are: first, the", stop_reason="max_tokens")]})


def made_up() -> Recording:
    """Answer with a number after the one tool that has it has failed."""
    return simulate({"host": [use("count", path="8"), Reply("There are 4 files.")]}, _broken)


def made_up_below() -> Recording:
    """Report a number that a tool did not give."""
    below = [use("count", path="8"), report({"files": 4})]
    return simulate({"host": [delegate("Count"), Reply("There are 4 files.")], "host.1": below}, _broken)


def failures_untold() -> Recording:
    """Call a suite good of which a child has reported failures."""
    below = [use("run_tests", path="x"), report({"failed": 3, "passed": 10})]
    return simulate({"host": [delegate("Test it"), Reply("All tests pass.")], "host.1": below})


def sent_twice() -> Recording:
    """Send one mail twice."""
    mail = use("send", to="ann", text="Your refund is on its way")
    return simulate({"host": [mail, mail, Reply("Ann was told.")]})


def paid_twice() -> Recording:
    """Let two children pay one order."""
    below = [use("send", order="A-1", cents=419), report({"is_done": True})]
    host_steps = [delegate("Refund A-1", "Refund A-1"), Reply("Refunded.")]
    return simulate({"host": host_steps, "host.1": below, "host.2": below})


PLANTED = (
    Planted("a loop", loop, "loop", "host", "look with the same arguments 4 times"),
    Planted("a loop of two", loop_of_two, "loop", "host", "2 different arguments"),
    Planted("a loop below", loop_below, "loop", "host.1", "got the same result every time"),
    Planted("one task three times", tried_again, "retried", "host", "3 times, to host.1, host.2, host.3"),
    Planted("one task in vain", tried_in_vain, "retried", "host", "2 times, to host.1, host.2"),
    Planted("nothing found thirty times", always_the_same, "same_answers", "host", "0 tickets found"),
    Planted("feet among metres", feet, "outlier", "host.5", "73.8"),
    Planted("cents among euros", cents, "outlier", "host.3", "50,200"),
    Planted("lost digits", lost_digits, "outlier", "host.12", "823,591"),
    Planted("another currency", currency, "outlier", "host.6", "USD"),
    Planted("pounds among kilograms", pounds, "outlier", "host.3", "26.7 lb"),
    Planted("an ignored report", ignored, "unused_report", "host.1", "appears in any later reply"),
    Planted("one ignored report of six", ignored_one_of_many, "unused_report", "host.6", "no value"),
    Planted("a late correction", late_words, "late_message", "host", "after send"),
    Planted("a late correction above", late_words_above, "late_message", "host", "after save"),
    Planted("a late correction below", late_words_below, "late_message", "host.1", "after save"),
    Planted("a small model", small_model, "other_model", "host.1", "and small answered turn 1"),
    Planted("another sum", another_sum, "changed_approval", "host", "ann approved"),
    Planted("another order", another_order, "changed_approval", "host", "A-2"),
    Planted("a stale file", stale, "stale_read", "host.1", "limits.toml"),
    Planted("a stale order", stale_order, "stale_read", "host.1", "A-1007"),
    Planted("a stale file by another name", stale_under_another_name, "stale_read", "host.1", "limits"),
    Planted("a refused tool", denied, "refused_call", "host", "is denied by"),
    Planted("an unknown tool", unknown, "refused_call", "host", "no tool named 'rates'"),
    Planted("unusable arguments", unusable, "refused_call", "host", "needs a prompt"),
    Planted("0 after an error", defaulted, "defaulted", "host.1", "files = 0"),
    Planted("an empty text after an error", dropped, "defaulted", "host.1", "owner"),
    Planted("a refused report", refused_report, "defaulted", "host.1", "without that was refused"),
    Planted("a field left out", left_out, "defaulted", "host.8", "reported no owner"),
    Planted("the same error", same_error, "repeated_error", "host", "the same error 3 times"),
    Planted("the same error below", same_error_below, "repeated_error", "host.1", "nothing else after it"),
    Planted("all turns used", capped, "failed_delegation", "host.1", "iteration_cap"),
    Planted("a failed model", failed, "failed_ask", "host", "no such model"),
    Planted("a cut answer", cut, "cut_answer", "host", "cut at max_tokens"),
    Planted("a made-up count", made_up, "untold_error", "host", "count had given it an error"),
    Planted("a made-up count below", made_up_below, "untold_error", "host.1", "does not mention that"),
    Planted("failures untold", failures_untold, "untold_error", "host", "host.1 had reported failed = 3"),
    Planted("a mail sent twice", sent_twice, "repeated_effect", "host", "may have come twice"),
    Planted("an order paid twice", paid_twice, "repeated_effect", "host.2", "called before by host.1"),
)  # fmt: skip
