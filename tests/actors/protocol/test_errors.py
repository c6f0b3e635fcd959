"""The error tree is one file, and the tree drawn on its top is right."""

import inspect

from callboard.actors.protocol import errors
from tests.tables import table

CLASSES = {
    name: cls
    for name, cls in inspect.getmembers(errors, inspect.isclass)
    if cls.__module__ == errors.__name__
}


def test_every_error_is_in_the_drawing_below_its_parent() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        names = [word.rstrip(",") for word in line.split() if word.rstrip(",") in CLASSES]
        if not names or not line.startswith("    "):
            continue
        depth = (len(line) - len(line.lstrip())) // 2 - 2
        del above[depth:]
        for name in names:
            drawn[name] = above[-1] if above else ""
        above.append(names[0])
    assert set(drawn) == set(CLASSES)
    for name, parent in drawn.items():
        bases = {base.__name__ for base in CLASSES[name].__bases__}
        assert parent in bases if parent else not bases & set(CLASSES), name


def test_every_error_has_a_docstring() -> None:
    assert all((cls.__doc__ or "").split(".")[0] for cls in CLASSES.values())


def test_an_error_about_a_log_keeps_where_it_is() -> None:
    error = errors.CorruptLog("event 3 does not follow event 2", "s1", 3)
    assert (str(error), error.session_id, error.seq) == ("event 3 does not follow event 2", "s1", 3)
    outcome = object()
    assert errors.OutcomeError("failed", outcome).outcome is outcome


def test_changed_agents_are_named_one_by_one() -> None:
    error = errors.AgentsChanged("other agents", ("host: its instructions changed",))
    assert str(error) == "other agents"
    assert error.differences == ("host: its instructions changed",)


def test_every_error_says_its_message_and_keeps_each_of_its_facts() -> None:
    seen = 0
    for name, cls in CLASSES.items():
        if "__init__" not in vars(cls):
            continue
        names = [*inspect.signature(cls).parameters]
        given = {one: f"the {one}" for one in names}
        if "message" not in names:
            continue
        error = cls(**given)
        assert str(error).startswith("the message"), name
        facts = {one: getattr(error, one) for one in names if hasattr(error, one)}
        assert facts == {one: given[one] for one in facts}, name
        seen += len(facts)
    assert seen > 8


FIELDS = {
    (name, field)
    for name, cls in CLASSES.items()
    if "__init__" in vars(cls)
    for field in list(inspect.signature(cls).parameters)
}


@table("name", sorted({name for name, _ in FIELDS}))
def test_an_error_keeps_every_fact_that_it_was_made_of_and_says_its_message(name: str) -> None:
    given = {field: 5 if field in ("index", "others", "seq") else f"the {field}" for _, field in FIELDS}
    mine = {field: value for field, value in given.items() if (name, field) in FIELDS}
    error = CLASSES[name](**mine)
    message = mine.pop("message", None)
    assert {field: getattr(error, field) for field in mine} == mine
    assert message is None or str(error) == message
    own = inspect.signature(CLASSES[name]).parameters.values()
    plain = CLASSES[name](**{one.name: given[one.name] for one in own if one.default == one.empty})
    for one in own:
        assert one.default == one.empty or getattr(plain, one.name) == EMPTY[one.name], one.name


EMPTY = {"others": 0, "paths": (), "text": "", "kind": "", "session_id": "", "seq": 0}


def test_a_broken_history_names_the_first_message_and_counts_further_faults() -> None:
    start, end = "the history is broken: messages[2] has no role", "; History(..., repair=True) repairs it"
    assert str(errors.InvalidHistory(2, "has no role")) == start + end
    assert str(errors.InvalidHistory(2, "has no role", 1_200)) == f"{start} (and 1,200 more){end}"
