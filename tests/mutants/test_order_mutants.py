"""Mutants of order: which neighbours change places, and which are left alone."""

from tests.mutants.mutant import ROOT
from tests.mutants.order_mutants import order_changes_in, places_of_order
from tests.mutants.random_mutants import changed, draw, is_another
from tests.tables import table


def swapped(body: str) -> list[str]:
    """Return the bodies of a function, one for each change, as texts on one line."""
    source = "async def f(self, a, state):\n" + "".join(f"    {line}\n" for line in body.split("; "))
    found = [changed(source, one) for one in order_changes_in(source)]
    assert all(is_another(source, one) for one in found)
    return ["; ".join(line.strip() for line in one.splitlines()[1:]) for one in found]


@table(
    ("body", "others"),
    [
        ("self.one(); self.two(a)", ["self.two(a); self.one()"]),
        ("state = one(state); state = two(state)", ["state = two(state); state = one(state)"]),
        ("self.a = 1; self.go()", ["self.go(); self.a = 1"]),
        ("b = await a; self.go()", ["self.go(); b = await a"]),
        ("if a: return 1; if state: return 2", ["if state:; return 2; if a:; return 1"]),
        ("return (Post(a, 1), *posts)", ["return (*posts, Post(a, 1))"]),
        ("return posts + more", ["return (more + posts)"]),
        ("b = self.a; self.a = 1", ["self.a = 1; b = self.a"]),
        ("a = a.next; state = one(a)", ["state = one(a); a = a.next"]),
        ("a.append(1); a.extend(state)", ["a.extend(state); a.append(1)"]),
        ("self.a.pop(1); self.go()", ["self.go(); self.a.pop(1)"]),
        ("a['b'] = 1; a['b'] = 2", ["a['b'] = 2; a['b'] = 1"]),
        ("a[state] = 1; a['b'] = 2", ["a['b'] = 2; a[state] = 1"]),
        ("if a: self.b = 1; self.c.append(self.b)", ["self.c.append(self.b); if a:; self.b = 1"]),
        ("if a: self.b = 1; self.c.append(2)", []),
        ("self.a.pop(1); self.b.append(2)", []),
        ("a['b'] = 1; a['c'] = 2", []),
        ("a = [a for a in state]; b = state", []),
        ("if a > 1: raise A; if a < 2: raise B", ["if a < 2:; raise B; if a > 1:; raise A"]),
        ("if a: raise A; if state: raise B", []),
        ("if a and state: raise A; if a and self.b: raise B", []),
        ("if self.b and a is None: raise A; if a is None and state: raise B", []),
        ("if a: raise A; if a and state: raise B", ["if a and state:; raise B; if a:; raise A"]),
        (
            "if a or state: raise A; if a or self.b: raise B",
            ["if a or self.b:; raise B; if a or state:; raise A"],
        ),
        ("self.a = self.b.time(); self.c = 0", []),
        ("if self.a.done(): return 1; self.b = 0", ["self.b = 0; if self.a.done():; return 1"]),
        ("if type(a) is int: raise A; if type(state) is int: raise B", []),
        ("if isinstance(a, A | B): self.go(); if isinstance(a, C): return 1", []),
        (
            "if isinstance(a, A | B): self.go(); if isinstance(a, B): return 1",
            ["if isinstance(a, B):; return 1; if isinstance(a, A | B):; self.go()"],
        ),
        (
            "if self.a == 1: self.go(); if self.a == 2: self.do()",
            ["if self.a == 2:; self.do(); if self.a == 1:; self.go()"],
        ),
        ("if a is None: self.go(); if a.b: return 1", ["if a.b:; return 1; if a is None:; self.go()"]),
        ("if a is None: self.b = 1; if isinstance(a, A): self.b = 2", []),
        ("if a: self.b = 1; if a is None: self.b = 2", []),
        (
            "if not a: self.b = 1; if a is not None: self.b = 2",
            ["if a is not None:; self.b = 2; if not a:; self.b = 1"],
        ),
        ("if a == 'b': self.b = 1; if a: self.b = 2", ["if a:; self.b = 2; if a == 'b':; self.b = 1"]),
        ("if a == A: self.b = 1; if a == B: self.b = 2", []),
        (
            "if a == A: self.b = 1; if a == 'a': self.b = 2",
            ["if a == 'a':; self.b = 2; if a == A:; self.b = 1"],
        ),
        ("if a > 1: return 0; if state: b = 1; return 0", []),
        ("if self.a: return 0; b = self.path.with_name(a.strip())", []),
        ("if self.a: return 0; b = self.path.replace(a)", ["b = self.path.replace(a); if self.a:; return 0"]),
        ("super().__init__(a); self.b = 1", []),
        ("super().__init__(self.b); self.b = 1", ["self.b = 1; super().__init__(self.b)"]),
        ("super().__init__(a); self.go()", ["self.go(); super().__init__(a)"]),
        ("if a.b: state = replace(state, b=a); state = replace(state, c=1)", []),
        ("self.a = structs.replace(self.a, b=1); state = self.a.c", []),
        (
            "state = replace(state, b=1); state = replace(state, c=state.b)",
            ["state = replace(state, c=state.b); state = replace(state, b=1)"],
        ),
        ("state = replace(state, b=1); a.append(state)", ["a.append(state); state = replace(state, b=1)"]),
        (
            "state = replace(state, **a); state = replace(state, c=1)",
            ["state = replace(state, c=1); state = replace(state, **a)"],
        ),
        ("self.a = 1; self.b = 2", []),
        ("b = one(a); self.go()", []),
        ("b = self.one(); b += self.two()", []),
        ("a += self.one(); a += self.two()", ["a += self.two(); a += self.one()"]),
        ("b = self.one(); self.two(b)", []),
        ("self.go(); return a", []),
        ("'a text'; self.go()", []),
        ("return (1, 2)", []),
    ],
)
def test_neighbours_change_places_where_it_may_matter(body: str, others: list[str]) -> None:
    assert swapped(body) == others


def test_a_turn_of_a_loop_that_ends_early_leaves_its_assignments_out() -> None:
    assert len(swapped("while a:;     if a: continue;     state = a; return state")) == 1
    assert not swapped("if a: return 1; state = a")


def test_a_name_that_is_set_in_a_branch_which_returns_is_not_seen_after_it() -> None:
    branch = "if a:;     state = state.next"
    assert not swapped(f"{branch};     return state; b = one(state)")
    assert len(swapped(f"{branch}; b = one(state)")) == 1
    assert len(swapped("if state := two(a):;     return state; b = one(state)")) == 1


def test_two_that_can_only_return_the_same_constant_may_stand_in_either_order() -> None:
    read = "try:;     b = one(state); except A:;     return {}"
    assert not swapped(f"if a: return 1; {read.format(1)}")
    assert len(swapped(f"if a: return 2; {read.format(1)}")) == 1
    assert len(swapped(f"if state: return 1; {read.format(1)}")) == 1


def test_a_turn_that_ends_early_leaves_a_name_of_the_rest_of_its_block_unseen() -> None:
    loop = "for a in state:;     if a > 1: continue;     b = one(a);     self.go(b)"
    assert len(swapped(loop)) == 0
    assert len(swapped(f"{loop}; return b")) == 1
    assert len(swapped("for a in state:;     self.go(b);     if a > 1: continue;     b = one(a)")) == 2


def test_a_method_called_in_pure_code_changes_its_receiver_only() -> None:
    source = "def f(self, a):\n    self.a.go()\n    a.do()\n    self.b()\n    self.c()\n"
    assert len([*order_changes_in(source)]) == 3
    assert len([*order_changes_in(source, is_pure=True)]) == 2
    made = "class A(B):\n    def __init__(self, a):\n        super().__init__(a)\n        self.a = a\n"
    assert not [*order_changes_in(made, is_pure=True)]


def test_an_act_before_a_return_is_not_seen_by_a_value_that_is_read_after_it() -> None:
    source = "if a:;     self.b = 1;     return 1; {} = self.b"
    assert not swapped(source.format("c"))
    assert len(swapped(source.format("self.c"))) == 1


@table(
    ("first", "second", "count"),
    [
        ("work.post(1)", "work.update_session(phase=2)", 0),
        ("work.post(1)", "work.post(2)", 1),
        ("work.update_session(live=1)", "work.update_session(phase=2)", 0),
        ("work.update_session(live=1)", "a = work.state.live", 1),
        ("work.cancel_timer(1)", "work.put_record(a)", 0),
        ("work.put_record(a)", "work.update_session(queue=work.state.queue.put(1, 2))", 0),
        ("leave(work, 1, 2)", "work.update_session(live=work.state.queue.put(1, 2))", 1),
        ("work.cancel_timer(1)", "work.post(1)", 1),
        ("work.record(a)", "work.delegation_of(b)", 0),
        ("work.record(a)", "work.put_record(b)", 1),
        ("leave(work, 1, 2)", "work.posts.append(1)", 0),
        ("leave(work, 1, 2)", "work.update_session(queue=2)", 1),
        ("leave(work, 1, 2)", "unknown(work, 2)", 1),
        ("latch(work, a, 1, 2)", "a.pop()", 1),
        ("latch(work, a, 1, 2)", "b.pop()", 0),
        ("stop_below(work, 1)", "work.in_flight += 1", 1),
    ],
)
def test_a_helper_of_the_supervisor_touches_what_its_statements_do(
    first: str, second: str, count: int
) -> None:
    source = f"def f(work, a, b):\n    {first}\n    {second}\n"
    assert len([*order_changes_in(source, is_pure=True)]) == count


def test_a_new_object_reads_its_attributes_after_they_are_set() -> None:
    source = "class A:\n    def {}(self, a):\n        self.a = a\n        self.b = self.a.go()\n"
    assert not [*order_changes_in(source.format("__init__"))]
    assert len([*order_changes_in(source.format("go"))]) == 1


def test_a_function_in_a_function_is_looked_at_once() -> None:
    source = "async def f(self):\n    def g():\n        self.a()\n        self.b()\n    return g\n"
    assert len([*order_changes_in(source)]) == 1


def test_a_draw_of_orders_is_of_orders_only() -> None:
    path = ROOT / "actors/supervisor/ending.py"
    drawn = draw(["actors/supervisor/ending.py"], 5, 1, places_of_order)
    assert len(drawn) == 5
    assert all(one.name.endswith(" order") for one in drawn)
    assert {place.kind for place in places_of_order(path)} == {"order"}
