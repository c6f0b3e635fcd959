"""The error tree is one file, and the tree drawn on its top is right."""

import inspect

from callboard.actors.protocol import errors

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
