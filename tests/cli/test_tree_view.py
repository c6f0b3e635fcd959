from rich.cells import cell_len

from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.usage import Usage
from callboard.cli.output import WIDE
from callboard.cli.tree_view import Space, choose, tree_lines
from callboard.runtime.log.tree import Node, Tree


def node(address: str, kind: OutcomeKind | None = None, state: str = "thinking", **more: object) -> Node:
    found = Node(address, address.replace(".", "-"), "a prompt", state, started_at=1_000)
    if kind is not None:
        found.kind = found.state = kind
        found.ended_at = 3_000
    for name, value in more.items():
        setattr(found, name, value)
    return found


def tree_of(*nodes: Node) -> Tree:
    tree = Tree()
    for one in nodes:
        tree.nodes[one.address] = one
        parent = tree.nodes.get(one.address.rpartition(".")[0])
        if parent is not None:
            parent.children.append(one.address)
    return tree


def crowd(count: int) -> Tree:
    host = node("host", state="delegating")
    return tree_of(host, *(node(f"host.{place}", "answered") for place in range(1, count + 1)))


def drawn(tree: Tree, space: Space) -> list[str]:
    return [line.plain for line in tree_lines(tree, space, 4_000)]


def test_children_hang_under_their_parents_in_the_order_of_their_ordinals() -> None:
    tree = tree_of(node("host"), node("host.10"), node("host.2"), node("host.2.1"), node("host.1"))
    names = [line.split("thinking")[0].rstrip() for line in drawn(tree, Space(WIDE))[1:-1]]
    assert names == [
        "● host",
        "├─ ● host.1 host-1",
        "├─ ● host.2 host-2",
        "│  └─ ● host.2.1 host-2-1",
        "└─ ● host.10 host-10",
    ]


def test_an_agent_without_siblings_below_leaves_no_line_beside_its_children() -> None:
    tree = tree_of(node("host"), node("host.1"), node("host.1.1"), node("host.1.1.1"))
    assert drawn(tree, Space(WIDE))[4].startswith("      └─ ● host.1.1.1")


def test_no_line_is_wider_than_the_terminal() -> None:
    tree = tree_of(
        node("host"), *(node(f"host.{place}", "budget", detail="数" * 90) for place in range(1, 9))
    )
    for width in (40, 60, 80, 109, 110, 160, 200):
        assert all(line.cell_len <= width for line in tree_lines(tree, Space(width), 4_000)[:-1]), width


def test_the_task_is_shown_where_there_is_room_and_the_reason_for_a_failure_instead() -> None:
    tree = tree_of(node("host"), node("host.1", "denied", detail="too deep"))
    assert not any("prompt" in line for line in drawn(tree, Space(60)))
    assert not any(
        "prompt" in line for line in drawn(tree, Space(80, rows=24))
    )  # the columns of a live one stay
    for width in (80, 160):
        lines = drawn(tree, Space(width))
        assert lines[1].endswith("a prompt")
        assert lines[2].endswith("too deep")
        assert max(map(cell_len, lines)) < width


def test_a_pipe_gets_everything() -> None:
    tree = tree_of(node("host", prompt="x" * 150))
    assert "x" * 150 in drawn(tree, Space(WIDE))[1]


def test_hundreds_of_agents_fit_into_the_terminal() -> None:
    lines = drawn(crowd(500), Space(80, rows=24))
    assert len(lines) <= 24
    assert lines[-2] == "… 480 more: 480 ok"
    assert lines[-1].startswith("501 agents: 1 running, 500 ok")


def test_working_and_failed_agents_are_shown_before_finished_ones() -> None:
    tree = crowd(100)
    tree.nodes["host.77"].kind = ""
    tree.nodes["host.88"].kind = "budget"
    shown, hidden = choose(list(tree.walk()), 10)
    assert {"host", "host.77", "host.88"} <= {one.address for _, one in shown}
    assert len(shown) == 9
    assert len(hidden) == 92


def test_no_agent_is_shown_without_those_above() -> None:
    host, parent = node("host", state="delegating"), node("host.1", state="delegating")
    tree = tree_of(host, parent, *(node(f"host.1.{place}") for place in range(1, 50)))
    shown, _ = choose(list(tree.walk()), 6)
    assert [one.address for _, one in shown][:2] == ["host", "host.1"]


def test_costs_are_a_column_only_where_there_are_costs() -> None:
    free = tree_of(node("host", usage=Usage(input_tokens=12_345)))
    assert "cost" not in drawn(free, Space(80))[0]
    assert "12.3k" in drawn(free, Space(80))[1]
    dear = tree_of(node("host", usage=Usage(input_tokens=1, micro_usd=1_500)))
    assert "$0.0015" in drawn(dear, Space(80))[1]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    tree = tree_of(node("host"), node("host.1", "answered"), node("host.2", "cancelled"))
    assert all(line.isascii() for line in drawn(tree, Space(80, rows=4, is_ascii=True)))


def test_an_agent_that_runs_shows_its_time_so_far() -> None:
    assert "3.0s" in drawn(tree_of(node("host")), Space(80))[1]


def test_an_empty_tree_says_so() -> None:
    assert drawn(Tree(), Space(80)) == ["no agent has started yet"]


def test_colours_tell_the_outcome() -> None:
    tree = tree_of(
        node("host"), node("host.1", "answered"), node("host.2", "budget"), node("host.3", "cancelled")
    )
    styles = [{str(span.style) for span in line.spans} for line in tree_lines(tree, Space(80), 4_000)]
    assert "cyan" in styles[1]
    assert "green" in styles[2]
    assert "red" in styles[3]
    assert "yellow" in styles[4]


def test_a_line_below_an_agent_says_where_its_conversation_became_shorter() -> None:
    def compacted(results: int) -> Compacted:
        return Compacted(upto=9, kept=2, by="clear", results=results, before=8_000, after=3_000)

    shorter = node("host.1", compactions={38: compacted(1), 68: compacted(3)})
    tree = tree_of(node("host"), shorter, node("host.2"))
    lines = drawn(tree, Space(160))
    words = "compacted at event 68 (and 1 time before, first at 38): 3 results cleared"
    assert lines[3].startswith(f"│    {words} in place of 9 messages")
    assert sum("compacted" in line for line in lines) == 1
    assert all(line.cell_len <= 60 for line in tree_lines(tree, Space(60), 4_000)[:-1])
    assert not any("compacted" in line for line in drawn(tree, Space(160, rows=24)))
    assert "|    compacted" in drawn(tree, Space(160, is_ascii=True))[3]


def test_answered_questions_of_a_program_are_its_turns_and_those_that_matter_have_lines() -> None:
    tree = tree_of(
        node("host", "answered", turns=5, tools=1, is_program=True),
        node("host.1", "answered", profile="ask_model", turns=1, usage=Usage(10, 5)),
        node("host.2", "model_error", profile="ask_model", turns=2, usage=Usage(7)),
        node("host.3", "answered", profile="worker", turns=3, usage=Usage(100)),
        node("host.4", profile="ask_model", turns=1),
        node("host.5", "answered", profile="ask_model", turns=1, usage=Usage(20, 1)),
    )
    wide = Space(109, rows=24)
    lines = drawn(tree, wide)
    assert lines[1].split() == ["✓", "host", "answered", "2", "1", "36", "2.0s"]
    assert [line.split()[2] for line in lines[2:5]] == ["host.2", "host.3", "host.4"]
    assert lines[5].startswith("4 agents: 1 running, 2 ok, 1 failed; 2 questions to models; 143 tokens")
    full = [str(line) for line in tree_lines(tree, wide, 0, is_full=True)]
    assert [line.split()[2] for line in full[2:7]] == [f"host.{n}" for n in range(1, 6)]
    assert tree.nodes["host"].questions == 0  # the tree itself is as it was
