"""The run of a policy: an async function that drives a specialist without a model."""

from collections.abc import Iterable, Mapping
from typing import Any

from callboard.actors.protocol.errors import CallFailed
from callboard.runtime.orchestrator.contracts import SpecialistContext, SpecialistResult, ToolUse
from callboard.runtime.programs.context import ProgramContext


class PolicyRun:
    """The tool calls that a policy makes, and the result that names them.

    ctx, context: as the policy gets them. calls: those made so far.
    """

    def __init__(self, ctx: ProgramContext, context: SpecialistContext) -> None:
        self.ctx, self.context = ctx, context
        self.calls: list[ToolUse] = []

    async def call(self, tool: str, **arguments: object) -> Any:
        """Call a tool of the specialist, and return its result; None if the call fails."""
        self.calls.append(ToolUse(tool, dict(arguments)))
        try:
            return await self.ctx.call(tool, **arguments)
        except CallFailed:
            return None

    def answer(
        self,
        content: str,
        sources: Iterable[str],
        confidence: float,
        data: Mapping[str, object] | None = None,
    ) -> SpecialistResult:
        """Return an answer. sources: the places that prove it, without repetitions.

        confidence: from 0 to 1. data: as of `SpecialistResult`.
        """
        places = tuple(dict.fromkeys(sources))
        return SpecialistResult(
            True, content, places, tuple(self.calls), dict(data or {}), confidence=confidence
        )

    def refuse(self, why: str) -> SpecialistResult:
        """Return a result without an answer. why: the reason, which the orchestrator passes on."""
        return SpecialistResult(False, tool_calls=tuple(self.calls), error=why)
