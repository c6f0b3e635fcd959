from callboard.replay.diagnosis.finding import Finding, FindingKind, each_once


def finding(kind: FindingKind, seq: int, agent: str, says: str, ends: tuple[str, ...] = ()) -> Finding:
    return Finding(kind, seq, agent, says, "why {at}", ends)


CAPPED = finding("refused", 9, "host.1", "host.1 used all its turns", ("host.1",))


def test_an_end_is_told_with_the_loop_that_explains_it() -> None:
    loop = finding("loop", 5, "host.1", "host.1 called look 3 times", ("host.1",))
    (one,) = each_once([CAPPED, loop])
    assert (one.kind, one.says) == ("loop", "host.1 called look 3 times; host.1 used all its turns")


def test_an_end_of_several_agents_stays_unless_all_are_explained() -> None:
    loop = finding("loop", 5, "host.1", "host.1 called look 3 times", ("host.1",))
    two = CAPPED._replace(ends=("host.1", "host.2"))
    assert [one.kind for one in each_once([two, loop])] == ["refused", "loop"]


def test_an_end_without_a_cause_stays() -> None:
    assert each_once([CAPPED]) == [CAPPED]


def test_agents_that_do_the_same_share_a_finding_that_names_three_more() -> None:
    loops = [finding("loop", n, f"host.{n}", f"host.{n} called look {n + 2} times") for n in range(1, 7)]
    (one,) = each_once(loops)
    assert (one.seq, one.agent) == (1, "host.1")
    assert one.says == "host.1 called look 3 times; the same for host.2, host.3, host.4 and 2 more"


def test_different_values_are_different_causes() -> None:
    odd = [finding("outlier", n, f"host.{n}", f"reported {n}") for n in range(2)]
    assert each_once(odd) == odd


def test_of_findings_about_one_agent_at_one_event_the_first_stays() -> None:
    both = [finding("defaulted", 7, "host.1", "0"), finding("outlier", 7, "host.1", "far")]
    assert each_once(both) == both[:1]
    apart = [both[0], both[1]._replace(agent="host.2")]
    assert each_once(apart) == apart
