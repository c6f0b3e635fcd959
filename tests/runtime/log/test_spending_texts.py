"""The spending of budgets as texts: written and read back, also encrypted; damage is named."""

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation
from callboard.actors.session.budget_scope import Spent
from callboard.runtime.log.cipher import Cipher, new_cipher
from callboard.runtime.log.spending_texts import SpendingTexts, amount
from tests.tables import table

ONE = Reservation(CallKey("s", 1, "host", 2, 3), Need(10, 5), (("*", "2026-11"),))


@pytest.mark.parametrize("cipher", [None, new_cipher(b"k" * 32)], ids=["plain", "encrypted"])
def test_rows_are_read_as_they_were_written(cipher: Cipher | None) -> None:
    texts = SpendingTexts(cipher)
    assert texts.reservation(texts.call(ONE.key), texts.held(ONE)) == ONE
    scope, name = texts.scope("user:7"), texts.name("user:7")
    assert ("user:7" in scope + name) is (cipher is None)
    assert texts.spent(scope, "2026", 3, 4, name) == Spent("user:7", "2026", Need(3, 4))
    with pytest.raises(CorruptLog, match="budget is damaged"):
        texts.spent(scope, "2026", -3, 4, name)
    for call, held in (("[]", texts.held(ONE)), (texts.call(ONE.key), "zz")):
        with pytest.raises(CorruptLog, match="reservation is damaged"):
            texts.reservation(call, held)


@table("wrong", [(-1, 0), (0, -1), (1.0, 0), (None, 0), (True, 0)])
def test_an_amount_is_two_whole_numbers_from_0_up(wrong: tuple[object, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # it has no words: its callers say what is damaged
        amount(*wrong)
