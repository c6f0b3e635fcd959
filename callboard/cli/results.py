"""The output of a command after an ask: the result on stdout, the summary on stderr."""

from callboard.cli.options import log_flag
from callboard.cli.outcomes import outcome_json, summary
from callboard.cli.output import emit, emit_json, talk
from callboard.runtime.sessions.outcome import Outcome


def print_result(outcome: Outcome, log: str, elapsed_ms: int, *, as_json: bool, is_quiet: bool) -> None:
    """Print the report as JSON, or the text; nothing if there is no result.

    as_json: print the whole outcome as JSON instead.
    is_quiet: print no summary on stderr.
    """
    if as_json:
        emit_json(outcome_json(outcome, log, elapsed_ms))
    elif outcome.kind == "reported":
        emit_json(outcome.structured_output)
    elif outcome.is_ok:
        emit(outcome.text)
    if not is_quiet:
        talk(summary(outcome, log, elapsed_ms))
        talk(f"to look at it: callboard show {outcome.session_id}{log_flag()}")
