from msgspec.structs import replace

from callboard.replay.testing.findings import chart
from callboard.replay.testing.world import MoveKind, Step


def step(seq: int, sender: str, recipient: str, label: str, kind: MoveKind = "deliver") -> Step:
    return Step(seq, f"{sender}>{recipient}", kind, sender, recipient, label)


STEPS = [
    step(1, "client", "host", "host handles Ask from client", "client"),
    step(2, "host", "host.1", "host.1 handles Begin from host"),
    step(3, "host.1", "host.1", "host.1 wakes timeout", "port"),
    step(4, "host.1", "client", "client handles Report from host.1"),
    step(5, "host", "host", "host crashes", "fault"),
]


def test_a_lane_for_each_actor_and_a_line_for_each_step() -> None:
    assert "\n".join(chart(STEPS, marked=[2])) == (
        "       client    host    host.1\n"
        "  1      |------->|        |     Ask\n"
        "  2*     |        |------->|     Begin\n"
        "  3      |        |        o     wakes timeout\n"
        "  4      |<----------------|     Report\n"
        "  5      |        x        |     crashes"
    )


def told(about: str) -> Step:
    return Step(1, "a>b", "deliver", "a", "b", "b handles Delegate 1.0", about=about)


def test_a_caption_stands_in_the_place_of_the_label_cut_to_its_column() -> None:
    about = 'task -> explorer "Find the tests of the parser."'
    (_, line) = chart([told(about)], 48)
    assert line.endswith('|   task -> explorer "Find the te…')
    assert len(line) == 48
    assert chart([told(about)], 80)[1].endswith(about)


def test_wide_characters_are_cut_by_the_columns_that_they_take() -> None:
    (_, line) = chart([told("漢字" * 30)], 48)
    text = line.split()[-1]
    assert text.endswith(("字…", "漢…"))
    assert len(line) + text.count("漢") + text.count("字") in (47, 48)


def test_names_that_do_not_fit_are_numbered_and_listed() -> None:
    long = [step(1, "the first of them all", "b", "b handles m from the first of them all")]
    lines = chart(long)
    assert lines[0].split() == ["(1)", "b"]
    assert lines[-1] == "(1) the first of them all"


def test_up_to_eight_actors_fit_into_eighty_columns() -> None:
    for count in range(2, 9):
        steps = [
            step(n, f"actor{n}", f"actor{n + 1}", "a rather long text about what happens")
            for n in range(1, count)
        ]
        lines = chart(steps)
        assert all(len(line) <= 80 for line in lines)
        assert "->" in lines[1]


def test_with_too_many_lanes_each_line_names_sender_and_recipient() -> None:
    steps = [step(n, f"a{n}", f"a{n + 1}", f"a{n + 1} handles m from a{n}") for n in range(1, 30)]
    assert chart(steps)[0] == "  1  a1 > a2: a2 handles m from a1"
    assert all(len(line) == 40 for line in chart([replace(one, about="x" * 99) for one in steps], 40))
    assert len(chart(steps)) == 29


def test_short_names_do_not_make_lanes_too_narrow_to_draw() -> None:
    steps = [step(n, "abcde"[n % 5], "abcde"[(n + 1) % 5], "m") for n in range(1, 6)]
    assert "->" in chart(steps)[1]


def test_a_run_without_steps_says_so() -> None:
    assert chart([]) == ["(no step was made)"]
