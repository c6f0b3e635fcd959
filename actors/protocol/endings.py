"""The kinds of ends of delegations and asks: one table, kind -> status."""

from types import MappingProxyType
from typing import Final, Literal, TypeAlias

OutcomeKind: TypeAlias = Literal[
    "reported",
    "answered",
    "iteration_cap",
    "budget",
    "deadline",
    "empty",
    "no_report",
    "invalid_report",
    "model_error",
    "model_refused",
    "context_full",
    "failed",
    "crashed",
    "unavailable",
    "denied",
    "needs_effect",
    "cancelled",
    "lost_race",
]
Status: TypeAlias = Literal["ok", "failed", "cancelled"]
OwnKind: TypeAlias = Literal[
    "failed",
    "iteration_cap",
    "budget",
    "deadline",
    "empty",
    "no_report",
    "model_error",
    "model_refused",
    "context_full",
]
"""The kinds of failures by which a program may end itself. All others say what happened to an agent."""

STATUS: Final = MappingProxyType[OutcomeKind, Status](
    {
        "reported": "ok",
        "answered": "ok",
        "iteration_cap": "failed",
        "budget": "failed",
        "deadline": "failed",
        "empty": "failed",
        "no_report": "failed",
        "invalid_report": "failed",
        "model_error": "failed",
        "model_refused": "failed",
        "context_full": "failed",
        "failed": "failed",
        "crashed": "failed",
        "unavailable": "failed",
        "denied": "failed",
        "needs_effect": "failed",
        "cancelled": "cancelled",
        "lost_race": "cancelled",
    }
)

EXPLAINED: Final = MappingProxyType[OutcomeKind, str](
    {
        "reported": "gave a report that matches the schema",
        "answered": "answered in text",
        "iteration_cap": "used all its turns",
        "budget": "had too little of its token or cost budget left for another turn",
        "deadline": "ran out of time",
        "empty": "said nothing, twice",
        "no_report": "stopped without giving the report it was asked for",
        "invalid_report": "gave no report that matches the schema",
        "model_error": "its model failed",
        "model_refused": "its model refused",
        "context_full": "its conversation no longer fits the model's context",
        "failed": "ended with a failure of its own",
        "crashed": "its actor failed",
        "unavailable": "could not be started",
        "denied": "was not allowed to start",
        "needs_effect": "called a tool with an effect, which a fork does not run",
        "cancelled": "was cancelled",
        "lost_race": "another one was faster",
    }
)
