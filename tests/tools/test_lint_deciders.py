"""Every rule finds the faults planted for it and passes similar good code; the real core keeps every rule."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import table
from tools.decider_names import BLOCKED, EXCEPTIONS, PURE
from tools.lint_deciders import findings, folder_findings, main

ROOT = Path(__file__).parent.parent.parent

PLANTED = [
    ("import", "import time"),
    ("import", "import os.path"),
    ("import", "from random import Random"),
    ("import", "from datetime import datetime"),
    ("import", "import uuid, secrets"),
    ("import", "from callboard.runtime.clock import now_ms"),
    ("import", "import some_new_library"),
    ("import", "def decide(s, m):\n    import socket"),
    ("builtin", "open('x')"),
    ("builtin", "x = input()"),
    ("builtin", "print('hello')"),
    ("builtin", "key = id(state)"),
    ("builtin", "sorted(agents, key=hash)"),
    ("builtin", "spread = hash(address) % 10"),
    ("builtin", "eval('1')"),
    ("builtin", "__import__('time').time()"),
    ("builtin", "globals()['x'] = 1"),
    ("clock", "def decide(state, event): return event.at + 5"),
    ("set-order", "for each in {1, 2}: pass"),
    ("set-order", "for each in set(names): post(each)"),
    ("set-order", "def f(stopped: set[str]):\n    for each in stopped: pass"),
    ("set-order", "def f(self):\n    self.stopped: frozenset[str] = x\n    return [a for a in self.stopped]"),
    ("set-order", "known = frozenset(a)\nposts = tuple(known)"),
    ("set-order", "known = {a for a in b}\nother = known\nfirst = next(iter(other))"),
    ("set-order", "known = set()\nlast = known.pop()"),
    ("set-order", "text = ', '.join({a, b})"),
    ("set-order", "for each in a.keys() & b.keys(): pass"),
    ("set-order", "for each in set(a) | more: pass"),
    ("set-order", "for each in set(a).union(b): pass"),
    ("set-order", "def gone() -> set[int]: ...\nfor each in gone(): pass"),
    ("set-order", "of: dict[str, set[int]] = {}\nfor each in of.get('a', ()): pass"),
    ("set-order", "of: dict[str, set[int]] = {}\nfor each in of['a']: pass"),
    ("set-order", "def f(gone: set[int] | None):\n    return [*gone]"),
    ("set-order", "one, two = {a, b}"),
    ("set-order", "for n, each in enumerate(set(a)): pass"),
    ("set-order", "order = {each: 1 for each in set(a)}"),
    ("set-order", "if (left := set(a)):\n    for each in left: pass"),
    ("set-order", "text = f'{set(a)}'"),
    ("set-order", "total = sum(weights for weights in {3, 4})"),
    ("popitem", "key, value = waiting.popitem()"),
    ("float", "half = tokens / 2"),
    ("float", "tokens /= 2"),
    ("float", "price = 0.25"),
    ("float", "cost = float(tokens)"),
    ("float", "from math import fsum\nfsum(costs)"),
    ("float", "def f(share: float, tokens: int): return tokens * share"),
    ("float", "class A:\n    share: float\ndef f(a): return a.share + 1"),
    ("float", "class A:\n    share: float\ndef f(all_of): return sum(a.share for a in all_of)"),
    ("global", "count = 0\ndef decide(s, m):\n    global count\n    count += 1"),
    ("global", "def outer():\n    n = 0\n    def decide():\n        nonlocal n\n        n += 1"),
    ("global", "SEEN = []\ndef decide(s, m): SEEN.append(m)"),
    ("global", "SEEN = {}\ndef decide(s, m): SEEN[m] = s"),
    ("global", "SEEN: set[int] = set()\ndef decide(s, m): SEEN.add(m)"),
    ("global", "COUNTS = {}\ndef decide(s, m): COUNTS['n'] += 1"),
    ("global", "SEEN = {}\ndef decide(s, m): del SEEN[m]"),
    ("global", "from callboard.actors.protocol.limits import DEFAULTS\ndef decide(): DEFAULTS.tokens = 1"),
    ("async", "async def decide(s, m): ..."),
]  # fmt: skip


@table(("rule", "source"), PLANTED)
def test_a_planted_fault_is_found(rule: str, source: str) -> None:
    assert rule in {found.rule for found in findings(source)}


GOOD = [
    "import msgspec\nfrom callboard.actors.protocol.messages import Ask\nfrom itertools import islice",
    "for each in sorted({3, 1}): pass",
    "stopped: set[str] = set()\nif address in stopped: stopped.discard(address)",
    "def f():\n    seen = set()\n    seen.add(1)\n    return len(seen)",
    "known = frozenset(a)\nsame = known == frozenset(b) and known <= other",
    "first = min(each.seq for each in {a, b})",
    "is_all = all(each.done for each in set(a))",
    "more = {each + 1 for each in set(a)}",
    "for key, value in by_name.items(): pass",
    "for each in by_name.keys(): pass",
    "last = stack.pop()",
    "rounded_up = -(-tokens // 1_000)",
    "total = sum(each.tokens for each in usages)",
    "class Limits:\n    cost: float | None = None\nclass Usage:\n    cost: int = 0\n"
    "def plus(a, b): return a.cost + b.cost",
    "TABLE = {'a': 1}\ndef decide(s, m): return TABLE['a']",
    "def decide(s, m):\n    posts = []\n    posts.append(m)\n    return tuple(posts)",
    "def valid(self): return self.identity + self.openings",
    "def f(deadline_s: float) -> float: ...",
]


@table("source", GOOD)
def test_code_that_only_looks_like_a_fault_passes(source: str) -> None:
    assert findings(source) == []


@pytest.mark.slow
@pytest.mark.slow
def test_the_real_core_keeps_every_rule_as_the_command_says() -> None:
    command = [sys.executable, "-m", "tools.lint_deciders"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def test_every_exception_has_a_reason_and_is_needed(tmp_path: Path) -> None:
    assert all(len(reason.split()) >= 5 for reason in EXCEPTIONS.values())
    (tmp_path / "protocol").mkdir()
    (tmp_path / "protocol/usage.py").write_text("x = 1\n")
    assert folder_findings(tmp_path) == [
        "protocol/usage.py: float: nothing in Usage.cost_usd needs its exception any more"
    ]


def test_an_exception_holds_for_one_function_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "protocol").mkdir()
    (tmp_path / "protocol/usage.py").write_text(
        "class Usage:\n    def cost_usd(self): return self.n / 2\n    def other(self): return self.n / 2\n"
    )
    (wrong,) = folder_findings(tmp_path)
    assert wrong.startswith("protocol/usage.py:3: float: ")


def test_a_name_that_is_a_float_in_one_module_is_a_float_in_all(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Limits:\n    grace_s: float\n")
    (tmp_path / "two.py").write_text("def f(limits): return limits.grace_s * 2\n")
    (wrong,) = folder_findings(tmp_path)
    assert wrong.startswith("two.py:1: float: ")


def test_the_command_names_the_fault_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("import time\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == "bad.py:1: import: time knows the time\n"


def test_the_lists_of_names_do_not_overlap() -> None:
    assert not PURE & BLOCKED.keys()
