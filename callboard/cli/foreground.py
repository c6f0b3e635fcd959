"""A session in the foreground: its tree is drawn, Ctrl-C cancels its ask, and it is closed at the end."""

import contextlib
from collections.abc import Awaitable, Callable

from callboard.cli.approving import Approver
from callboard.cli.errors import FAILED
from callboard.cli.interrupts import interrupts
from callboard.cli.live import diverted, watching
from callboard.runtime.sessions.outcome import Outcome
from callboard.runtime.sessions.session import Session, with_head


async def attend(
    session: Session,
    ask: Callable[[], Awaitable[Outcome]],
    approver: Approver,
    *,
    title: str,
    is_quiet: bool,
    known: int = 0,
) -> tuple[Outcome, int]:
    """Run an ask in the foreground and close its session. Return the outcome and the exit code.

    ask: starts the ask, or waits for one that runs.
    approver: asks its questions where the tree is drawn.
    title: the line above the tree.
    is_quiet: draws no tree.
    known: the events up to this seq are no news, and not told.
    """
    async with contextlib.AsyncExitStack() as stack:
        view = None
        if not is_quiet:
            view = await stack.enter_async_context(watching(session, title=title, known=known))
        approver.view = view
        with interrupts(session, view.close if view else lambda: None) as taken, diverted(view):
            outcome = await ask()
    with diverted(None):
        head = await session.close()
    return with_head(outcome, head), 0 if outcome.is_ok else taken.exit_code(FAILED)
