"""Bad news that an answer does not tell of, in sessions of the real runtime."""

from collections.abc import Sequence

from callboard.replay.diagnosis.finding import Finding
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import Step, call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.tools.tool import tool
from tests.replay.diagnosis.user_stories import told
from tests.tables import table

CENTS = {"lamp": 1_900, "chair": 4_900}


@tool(effect="write", approval="before")
def refund(order: str) -> str:
    """Give the money for an order back."""
    return "refunded"


@tool(effect="read")
def order(id: str) -> str:
    """Look an order up."""
    return "paid"


@tool(effect="read")
def price(item: str) -> int:
    """Look a price up; that of a chair is not there."""
    if item == "chair":
        raise OSError("503")
    return CENTS[item]


@tool(effect="read")
def old_price(item: str) -> int:
    """Look a price of last year up."""
    return CENTS[item]


class Post:
    """A post office that numbers its letters."""

    def __init__(self) -> None:
        self.sent = 0

    def send(self, to: str) -> str:
        """Send a letter."""
        self.sent += 1
        return f"letter {self.sent}"


@table(
    ("steps", "count"),
    [
        ([call("refund", order="A-1"), call("order", id="A-1"), say("Your refund comes soon.")], 1),
        ([call("refund", order="A-1"), call("order", id="A-1"), say("A-1 is paid.")], 0),
        ([call("refund", order="A-1"), call("order", id="A-1"), say("No refund: it was denied.")], 0),
    ],
)
def test_a_read_after_a_denial_does_not_do_what_was_denied(steps: Sequence[Step], count: int) -> None:
    host = Agent("host", tools=[refund, order])
    found = told(host, "Give it back.", {"host": steps}, is_approved=False).diagnose()
    assert ["refund had been denied" in one.says for one in found] == [True] * count


def summed(items: Sequence[str], *, has_fallback: bool = False, said: str = "In all") -> list[Finding]:
    @program(tools=[price, old_price])
    async def total(ctx: ProgramContext, prompt: str) -> str:
        """Sum prices up."""
        found = 0
        for item in items:
            try:
                found += await ctx.call(price, item=item)
            except Exception:
                found += await ctx.call(old_price, item=item) if has_fallback else 0
        return f"{said} {found}"

    return told(total, "How much?", {}).diagnose()


def test_an_error_that_a_program_passes_over_is_named_though_other_calls_follow() -> None:
    (finding,) = summed(["lamp", "chair", "lamp"])
    assert finding.kind == "untold_error"
    assert finding.says.startswith("host ended well after price had given it an error")
    assert summed(["lamp", "chair", "lamp"], has_fallback=True) == []
    assert summed(["lamp", "chair", "lamp"], said="One price is missing. In all") == []
    assert summed(["lamp", "lamp"]) == []


@table(
    ("steps", "count"),
    [
        ([calls(call("send", to="Ann"), call("send", to="Ann"))], 1),
        ([call("send", to="Ann"), call("send", to="Ann")], 0),
        ([calls(call("send", to="Ann"), call("send", to="Bob"))], 0),
    ],
)
def test_one_effect_twice_in_one_reply_is_named_whatever_it_returns(steps: list[Step], count: int) -> None:
    host = Agent("host", tools=[tool(effect="write")(Post().send)])
    found = told(host, "Write to Ann.", {"host": [*steps, say("Done.")]}).diagnose()
    assert [one.kind for one in found] == ["repeated_effect"] * count
