"""The budgets above one session, as its process has them."""

from typing import Final, NamedTuple

from callboard.actors.session.budget_keys import BudgetKeys


class Bound(NamedTuple):
    """The scopes that bind a session, and the reservations that its log holds open.

    keys: None for a session that no budget binds, or ever did.
    """

    scopes: tuple[str, ...] = ()
    keys: BudgetKeys | None = None


UNBOUND: Final = Bound()
