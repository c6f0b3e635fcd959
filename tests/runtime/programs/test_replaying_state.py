"""The shared state in a program: a repeated step reads the same keys as before."""

from callboard.actors.protocol.immutable import Json
from callboard.runtime.models.protocol import ModelAnswer
from callboard.runtime.programs.context import ProgramContext
from tests.runtime.programs.kit import Function, started, work
from tests.runtime.programs.test_model import Talk, crash_of, model_of, request, step_of
from tests.tables import table


class Sharing(Talk):
    """A conversation with a program in a session that shares state."""

    def __init__(self, function: Function, **state: bytes) -> None:
        super().__init__(model_of(function))
        self.state = state

    def ask(self) -> ModelAnswer:
        asked = request(self.model, self.said, *self.where, self.at)
        asked.state_of = self.read
        return self.model.call(asked, lambda text: None)

    def read(self, key: str) -> Json:
        if key not in self.state:
            raise KeyError(f"no {key}; there are: {', '.join(self.state)}")
        return Json(self.state[key])

    def restarted(self, function: Function) -> ModelAnswer:
        """Return the next step of a process that executes this function."""
        self.model = model_of(function)
        return self.ask()


async def reads_stage(ctx: ProgramContext, prompt: str) -> object:
    stage = ctx.state["stage"]
    await ctx.call(work, n=1)
    await ctx.call(work, n=2)
    return stage


async def reads_more(ctx: ProgramContext, prompt: str) -> object:
    seen = [ctx.state["stage"]]
    try:
        seen.append(ctx.state["count"])
    except Exception:  # a program may catch all, and the divergence is found all the same
        seen.append(None)
    await ctx.call(work, n=1)
    await ctx.call(work, n=2)
    return seen


async def reads_more_since(ctx: ProgramContext, prompt: str) -> object:
    seen = [ctx.state["stage"]]
    if ctx.since("count"):
        seen.append(ctx.state["count"])
    await ctx.call(work, n=1)
    await ctx.call(work, n=2)
    return seen


async def catches(ctx: ProgramContext, prompt: str) -> object:
    try:
        return ctx.state["later"]
    except KeyError as error:
        found = str(error)
    await ctx.call(work, n=1)
    await ctx.call(work, n=2)
    return found


def halfway(function: Function) -> Sharing:
    talk = Sharing(function, stage=b'"draft"', count=b"3")
    talk.reply(*talk.turn().asks)
    return talk


def test_a_step_that_is_executed_again_reads_the_values_of_its_time() -> None:
    talk = halfway(reads_stage)
    talk.state["stage"] = b'"final"'
    talk.reply(*talk.turn().asks)
    ending = step_of(talk.restarted(reads_stage)).ending
    assert ending is not None
    assert ending.text == "draft"


def test_a_key_that_a_recorded_step_did_not_read_is_a_divergence_however_it_is_caught() -> None:
    text = crash_of(halfway(reads_stage).restarted(reads_more))
    assert text.startswith(
        "step 1 is not as recorded. Recorded: did not read ctx.state['count']. Now: reads ctx.state['count']."
    )
    assert 'ctx.since("name")' in text


def test_since_guards_a_new_read() -> None:
    talk = halfway(reads_stage)
    talk.reply(*step_of(talk.restarted(reads_more_since)).asks)
    assert step_of(talk.restarted(reads_more_since)).asks


def test_a_key_that_was_not_declared_then_is_not_declared_in_the_execution_after() -> None:
    talk = halfway(catches)
    talk.state["later"] = b"1"  # a resume may declare further keys
    talk.reply(*talk.turn().asks)
    ending = step_of(talk.restarted(catches)).ending
    assert ending is not None
    assert ending.text == "'no later; there are: stage, count'"


@table("key", ["", "x" * 101, "a\nb", "\ud800", 0], ids=repr)
def test_what_can_be_no_key_is_an_error_and_leaves_no_trace(key: str) -> None:
    async def odd(ctx: ProgramContext, prompt: str) -> object:
        try:
            return ctx.state[key]
        except KeyError:
            await ctx.call(work, n=1)
        return "done"

    head = Sharing(odd).turn().head
    assert (head.state, head.undeclared) == ({}, {})


def test_the_state_is_read_by_key_and_is_no_mapping() -> None:
    errors: list[str] = []

    async def odd(ctx: ProgramContext, prompt: str) -> object:
        for look in (lambda: "stage" in ctx.state, lambda: [*ctx.state]):  # type: ignore[misc]  # no mapping, on purpose
            try:
                look()
            except TypeError as error:
                errors.append(str(error))
        return "done"

    ending = started(odd).step((), 1).ending
    assert ending is not None
    assert len(errors) == 2
