"""Specialists of tests: programs with scripted answers."""

from callboard import ProgramContext
from callboard.orchestrator import SpecialistContext, SpecialistResult
from callboard.runtime.orchestrator.analysis import SpecialistPolicy


def answering(
    content: str, *, confidence: float = 0.9, seen: list[SpecialistContext] | None = None, **more: object
) -> SpecialistPolicy:
    """Return a policy that gives one answer. seen: gets the contexts. more: fields of the result."""

    async def policy(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
        if seen is not None:
            seen.append(context)
        return SpecialistResult(True, content, confidence=confidence, **more)  # type: ignore[arg-type]  # of any type

    return policy


async def refuses(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Find nothing."""
    return SpecialistResult(False, error="nothing found")


async def crashes(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Fail as a program can."""
    raise RuntimeError("broken")


async def never_ends(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Wait for longer than any test."""
    await ctx.sleep(10_000)
    return SpecialistResult(True, "late")


async def questions(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer with the words of a model, not too sure."""
    return SpecialistResult(True, await ctx.ask_model(context.query), confidence=0.1)


async def gives_up(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """End as specialists do that know why."""
    raise ctx.fail("no source is left", kind="no_report")
