"""Sessions with one planted cause, written from what users told and recorded by the real runtime."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from callboard.actors.protocol.bundles import Allowed, Bundle
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.diagnosis.finding import FindingKind
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, Step, call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

Script = Mapping[str, Sequence[Step]]


class Story(NamedTuple):
    """A session, the finding that names its cause, and words of the sentence."""

    name: str
    make: Callable[[], Recording]
    kind: FindingKind
    agent: str
    words: str


def told(host: Agent, prompt: str, script: Script, *, is_approved: bool = True) -> Recording:
    """Record a session. script: the replies of each agent, by its address."""

    def policy(request: ModelRequest) -> Step:
        return script[request.address][request.turn - 1]

    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy), approve=lambda question: is_approved) as runtime:
            await runtime.run(host, prompt, session_id="one")
        return log

    return Recording.open(MemoryReader(asyncio.run(main())), "one")


# --- a shop -----------------------------------------------------------------------


@tool(effect="write")
def cancel_booking(booking: str) -> str:
    """Cancel a booking."""
    return "cancelled"


@tool(effect="write")
def pay_invoice(invoice_no: str, amount: float) -> dict[str, object]:
    """Pay an invoice."""
    return {"paid": amount}


@tool(effect="read")
def open_invoices() -> list[dict[str, object]]:
    """List the open invoices."""
    return [{"no": "INV-2024-00417", "amount": 310.5}, {"no": "INV-2024-00981", "amount": 12.0}]


@tool(effect="read")
def get_customer(id: str) -> str:
    """Look a customer up."""
    if id != "C88214":
        raise LookupError(f"customer {id} unknown")
    return "Ann Lee, gold"


@tool(effect="write", approval="before")
def delete_customer(id: str) -> str:
    """Delete a customer."""
    return "deleted"


@tool(effect="write")
def run_sql(statement: str) -> str:
    """Run SQL."""
    return "1 row"


@tool(effect="write", capabilities=("network",))
def upload(target: str, report: str) -> str:
    """Upload a report."""
    return "uploaded"


@tool(effect="write")
def shell(cmd: str) -> str:
    """Run a command."""
    return "exit 0"


@tool(effect="write")
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"{len(content)} bytes"


@tool(effect="write")
def put(key: str, value: str) -> str:
    """Store a value."""
    return "ok"


class Gateway:
    """A payment service whose first answer does not come in time."""

    def __init__(self) -> None:
        self.asked = 0

    def charge(self, order: str, cents: int) -> str:
        """Charge a card."""
        self.asked += 1
        if self.asked == 1:
            raise TimeoutError("504 Gateway Timeout")
        return f"charged {cents}"


def slow() -> Callable[[str], object]:
    asked: list[str] = []

    async def order_taxi(to: str) -> str:
        """Order a taxi."""
        asked.append(to)
        if len(asked) == 1:
            await asyncio.sleep(5)
        return "on its way"

    return order_taxi


# --- the stories ------------------------------------------------------------------


def silent_host() -> Recording:
    """'I asked for a summary and got nothing, but the status was green.'"""
    return told(Agent("host"), "Summarise the meeting.", {"host": [say(" \n")] * 9})


def hollow_report() -> Recording:
    """'The auditor reported, but there was nothing in it.'"""
    host = Agent("host", agents=[Agent("auditor")])
    task = call("task", agent="auditor", prompt="Audit it", output_schema={"type": "object"})
    return told(host, "Audit.", {"host": [task, say("Audited.")], "host.1": [call("report_back")]})


def swapped_digits() -> Recording:
    """'It cancelled somebody else's booking.'"""
    steps: list[Step] = [call("cancel_booking", booking="QX7-30918"), say("Your booking is cancelled.")]
    return told(Agent("host", tools=[cancel_booking]), "Cancel booking QX7-30981, please.", {"host": steps})


def lost_zero() -> Recording:
    """'It paid an invoice that we never had.'"""
    steps: list[Step] = [
        call("open_invoices"),
        call("pay_invoice", invoice_no="INV-2024-0417", amount=310.5),
        say("Paid."),
    ]
    return told(Agent("host", tools=[open_invoices, pay_invoice]), "Pay the big one.", {"host": steps})


def unknown_customer() -> Recording:
    """'It says that a gold customer does not exist.'"""
    child = Agent("clerk", tools=[get_customer])
    script: Script = {
        "host": [
            call("task", agent="clerk", prompt="Which status has C88214?"),
            say("Error: not a customer."),
        ],
        "host.1": [call("get_customer", id="C88241"), say("Error: this customer does not exist.")],
    }
    return told(Agent("host", agents=[child]), "Is C88214 gold?", script)


def deleted_by_sql() -> Recording:
    """'I said no, and the customer was gone all the same.'"""
    sql = call("run_sql", statement="DELETE FROM customers WHERE id = 'C-2291'")
    steps: list[Step] = [call("delete_customer", id="C-2291"), sql, say("It is gone.")]
    host = Agent("host", tools=[delete_customer, run_sql])
    return told(host, "Tidy up.", {"host": steps}, is_approved=False)


def sent_by_shell() -> Recording:
    """'The agent has no network, and our report is on that server.'"""
    where = "https://files.example.org/in"
    steps: list[Step] = [
        call("upload", target=where, report="r.pdf"),
        call("shell", cmd=f"curl -T r.pdf {where}"),
        say("Sent."),
    ]
    offline = Bundle(do=Allowed(tools=("upload", "shell"), capabilities=()))
    return told(Agent("host", tools=[upload, shell], permissions=offline), "Send it.", {"host": steps})


def two_writers() -> Recording:
    """'Half of the report is missing.'"""
    writer = Agent("writer", tools=[write_file])
    script: Script = {
        "host": [calls(*(call("task", agent="writer", prompt=f"Chapter {n}") for n in (1, 2))), say("Done.")],
        "host.1": [call("write_file", path="out/report.md", content="# One"), say("Chapter 1 stands.")],
        "host.2": [call("write_file", path="out/report.md", content="# Two"), say("Chapter 2 stands.")],
    }
    return told(Agent("host", agents=[writer]), "Write it.", script)


def one_key_for_two() -> Recording:
    """'The summary of team A is that of team B.'"""
    team = Agent("team", tools=[put])
    script: Script = {
        "host": [
            calls(*(call("task", agent="team", prompt=f"Sum up {n}") for n in "AB")),
            say("Both stand."),
        ],
        "host.1": [call("put", key="summary", value="A is on time"), say("Stored.")],
        "host.2": [call("put", key="summary", value="B is late"), say("Stored.")],
    }
    return told(Agent("host", agents=[team]), "Sum up.", script)


def which_invoice() -> Recording:
    """'It told me the invoice is paid. It is not.'"""
    asked = say("Which of the two invoices do you mean, the one of March or the one of May?")
    script: Script = {
        "host": [call("task", agent="clerk", prompt="Pay the invoice"), say("The invoice is paid.")],
        "host.1": [asked],
    }
    return told(Agent("host", agents=[Agent("clerk")]), "Pay it.", script)


def which_prices() -> Recording:
    """'The offer has the wrong price list.'"""
    task = call("task", agent="sales", prompt="Make an offer", output_schema={"type": "object"})
    script: Script = {
        "host": [task, say("The offer is 400 euros.")],
        "host.1": [call("report_back", answer="Soll ich die Preise von 2023 oder 2024 nehmen?", total=0)],
    }
    return told(Agent("host", agents=[Agent("sales")]), "An offer, please.", script)


def charged_twice() -> Recording:
    """'My card was charged twice.'"""
    charge = tool(effect="write")(Gateway().charge)
    pay = call("charge", order="8812", cents=4_900)
    return told(Agent("host", tools=[charge]), "Pay order 8812.", {"host": [pay, pay, say("Paid.")]})


def two_taxis() -> Recording:
    """'Two taxis came.'"""
    taxi = tool(effect="write", timeout_s=0.05)(slow())
    order = call("order_taxi", to="the airport")
    return told(Agent("host", tools=[taxi]), "A taxi!", {"host": [order, order, say("It comes.")]})


@tool(effect="read")
def price_of(order: str) -> dict[str, object]:
    """Return the price of an order."""
    return {"order": order, "cents": {"A-1": 41_900, "A-2": 390_534}[order]}


def swapped_in_the_answer() -> Recording:
    """'It told me 49,100, and the invoice says 41,900.'"""
    task = call("task", agent="clerk", prompt="The price of A-1", output_schema={"type": "object"})
    script: Script = {
        "host": [task, say("Order A-1 costs 49,100 cents.")],
        "host.1": [call("price_of", order="A-1"), call("report_back", cents=41_900)],
    }
    clerk = Agent("clerk", tools=[price_of])
    return told(Agent("host", agents=[clerk]), "What does A-1 cost?", script)


def lost_in_the_report() -> Recording:
    """'The sum is off by a factor of ten.'"""
    task = call("task", agent="clerk", prompt="The price of A-2", output_schema={"type": "object"})
    script: Script = {
        "host": [task, say("Order A-2 costs 39,053.")],
        "host.1": [call("price_of", order="A-2"), call("report_back", cents=39_053)],
    }
    return told(Agent("host", agents=[Agent("clerk", tools=[price_of])]), "The price of A-2?", script)


def paid_with_a_slip() -> Recording:
    """'The supplier was paid too much.'"""
    pay = call("pay_invoice", invoice_no="INV-7", amount=419_900)
    script: Script = {"host": [call("price_of", order="A-1"), pay, say("Paid.")]}
    return told(Agent("host", tools=[price_of, pay_invoice]), "Pay what A-1 costs.", script)


def deleted_after_all() -> Recording:
    """'It says that the customer is deleted. I had said no.'"""
    script: Script = {"host": [call("delete_customer", id="C-17"), say("Done: C-17 has been deleted.")]}
    return told(Agent("host", tools=[delete_customer]), "Delete C-17.", script, is_approved=False)


def paid_perhaps() -> Recording:
    """'Was the taxi ordered or not?'"""
    taxi = tool(effect="write", timeout_s=0.05)(slow())
    script: Script = {"host": [call("order_taxi", to="the airport"), say("A taxi is on its way.")]}
    return told(Agent("host", tools=[taxi]), "A taxi!", script)


def other_language() -> Recording:
    """'Woher hat er die Zahl?'"""

    @tool(effect="read")
    def zaehle(ordner: str) -> int:
        """Count."""
        raise OSError("Verbindung abgelehnt")

    steps: list[Step] = [call("zaehle", ordner="Akten"), say("Es sind 14 Dateien.")]
    return told(Agent("host", tools=[zaehle]), "Wie viele Dateien?", {"host": steps})


@program(tools=[price_of])
async def clerk(ctx: ProgramContext, prompt: str) -> str:
    """Look two prices up, in two steps."""
    first = await ctx.call(price_of, order="A-1")
    second = await ctx.call(price_of, order="A-2")
    return f"{first['cents']} and {second['cents']}"


def by_a_program() -> Recording:
    """Let a program do the work: a healthy session. Its result holds values of both of its calls."""
    return told(clerk, "What do A-1 and A-2 cost?", {})


@tool(effect="read")
async def law(subject: str) -> str:
    """Look the law up, without an end."""
    await asyncio.Event().wait()
    return "forbidden"


legal = Agent("legal", description="Knows the law.", tools=[law])


@program(agents=[legal])
async def hasty(ctx: ProgramContext, prompt: str) -> str:
    """Ask for advice, but not for long."""
    try:
        async with asyncio.timeout(0.01):
            return await ctx.delegate(legal, prompt)
    except TimeoutError:
        return "Go ahead: no objection."


def gave_up_a_task() -> Recording:
    """Answer in a step that gives up a task: the answer waits for the end of that task."""
    return told(hasty, "May we?", {"host.1": [call("law", subject="Mars")]})


STORIES = (
    Story("a silent host", silent_host, "failed_ask", "host", "said nothing"),
    Story("a hollow report", hollow_report, "empty_answer", "host.1", "said nothing"),
    Story("swapped digits", swapped_digits, "wrong_id", "host", "QX7-30918"),
    Story("a lost zero", lost_zero, "wrong_id", "host", "INV-2024-0417"),
    Story("an unknown customer", unknown_customer, "wrong_id", "host.1", "C88241"),
    Story("deleted by SQL", deleted_by_sql, "other_way", "host", "by run_sql"),
    Story("sent by shell", sent_by_shell, "other_way", "host", "by shell"),
    Story("two writers", two_writers, "overwritten", "host.2", "out/report.md"),
    Story("one key for two", one_key_for_two, "overwritten", "host.2", "summary"),
    Story("which invoice", which_invoice, "asked_back", "host.1", "Which of the two"),
    Story("which prices", which_prices, "asked_back", "host.1", "Soll ich"),
    Story("charged twice", charged_twice, "sent_again", "host", "called it again"),
    Story("two taxis", two_taxis, "sent_again", "host", "order_taxi"),
    Story("swapped in the answer", swapped_in_the_answer, "wrong_number", "host", "41900 does"),
    Story("lost in the report", lost_in_the_report, "wrong_number", "host.1", "390534 does"),
    Story("paid with a slip", paid_with_a_slip, "wrong_number", "host", "called pay_invoice with 419900"),
    Story("deleted after all", deleted_after_all, "untold_error", "host", "delete_customer had been denied"),
    Story("paid perhaps", paid_perhaps, "in_doubt", "host", "order_taxi, called by host, did not answer"),
    Story("another language", other_language, "untold_error", "host", "zaehle"),
)
