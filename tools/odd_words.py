"""The words that `tools.prose_metrics` counts."""

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS: Final = _words("""
    accept acquire add admit advance allow answer append apply arm ask assert attach begin bind bound break
    build bring call cancel change check choose clear clip close collect combine commit compare compile
    complete compute configure connect consume convert copy count create decide declare decode decrypt define
    delete deliver describe detach determine digest discard dispatch do draw drive drop dump encode encrypt
    end enqueue ensure enter estimate evaluate execute expand explain explore export fail feed fetch fill
    filter find finish fold follow forget fork format forward gather generate get give go grant group guard
    handle hash hold import index initialize insert inspect install invoke join judge keep leave let limit
    list load lock look make map mark match measure merge move name narrow normalize note notify number offer
    open order pack pair park parse pass pause perform pick place plan poll post prepare print process produce
    propose prove provide publish put queue raise read rebuild receive record redact reduce refuse register
    reject release remember remove render repeat replace replay report request reserve reset resolve restore
    resume retrieve retry return reuse roll rotate run sample save say scan schedule search seal select send
    serialize serve set settle show shrink shut shutdown sign signal simulate skip sleep snapshot sort split
    start state step stop store stream strip subscribe subtract sum swap switch take tell test tie tokenize
    trace track translate trim truncate try turn undo unpack unwrap update upgrade use validate verify wait
    walk warn watch wrap write yield
""")
"""First words of a docstring that says to do something."""

CLEFT: Final = re.compile(
    r"(What|Whether|Who|Whom|Whose|How|Where|Why|Whatever|Whoever|Up to|Of|From|With|By|As|To)\b"
)
ODD: Final = re.compile(
    r"\b(whatever|whoever|whom|what is|what was|what it|that is to be|that are to be|who is|what came"
    r"|what they|nobody|somebody|everybody|(is|are|or) none|anew|mend|mends|besides|all the same|for ever)\b",
    re.IGNORECASE,
)
