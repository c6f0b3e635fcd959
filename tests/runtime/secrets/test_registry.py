from pathlib import Path

import pytest

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.runtime.secrets.refs import SecretPattern, SecretRef
from callboard.runtime.secrets.registry import NO_SECRETS, Secrets

KEY = "sk-" + "ant-" + "a1B2c3D4" * 5


def test_plain_values_are_named_by_their_place() -> None:
    secrets = Secrets([SecretRef("A", get=lambda: "x" * 9), "open-sesame"])
    assert secrets.redactor.text("open-sesame") == "[secret:2]"


def test_variables_and_files_are_known_before_anybody_asks_and_functions_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOOR", "value-of-door")
    (tmp_path / "gate").write_text("value-of-gate\n")
    asked: list[str] = []

    def vault() -> str:
        asked.append("vault")
        return "value-of-vault"

    secrets = Secrets(
        [
            SecretRef("DOOR"),
            SecretRef("GATE", file=tmp_path / "gate"),
            SecretRef("V", get=vault),
            SecretRef("NONE"),
        ]
    )
    secrets.learn_early()
    text = "value-of-door value-of-gate value-of-vault"
    assert secrets.redactor.text(text) == "[secret:DOOR] [secret:GATE] value-of-vault"
    assert asked == []
    assert secrets.value("V") == "value-of-vault"
    assert secrets.redactor.text(text) == "[secret:DOOR] [secret:GATE] [secret:V]"


def test_a_value_that_changed_is_still_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Secrets([SecretRef("DOOR")])
    for value in ("first-value", "second-value"):
        monkeypatch.setenv("DOOR", value)
        assert secrets.value("DOOR") == value
    assert secrets.redactor.text("first-value second-value") == "[secret:DOOR] [secret:DOOR]"


def test_secrets_of_models_are_learned() -> None:
    class Model:
        def secrets(self) -> dict[str, str]:
            return {"api-key": "value-of-key"}

    secrets = Secrets()
    secrets.learn_early([Model(), object()])
    assert secrets.redactor.text("value-of-key") == "[secret:api-key]"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"no secret 'B' in this runtime \(there is: A\)"):
        Secrets([SecretRef("A")]).value("B")
    with pytest.raises(UnknownName, match="there is: none"):
        NO_SECRETS.value("B")


@pytest.mark.parametrize("given", ["open-sesame", [SecretRef("A"), SecretRef("A")], ["1234"], [5]])
def test_secrets_that_cannot_be_kept_are_refused(given: object) -> None:
    with pytest.raises(MisuseError):
        Secrets(given)  # type: ignore[arg-type]  # a wrong value on purpose


def test_known_keys_are_found_unless_one_does_not_want_that() -> None:
    assert Secrets().redactor.text(KEY) == "[secret:anthropic-key]"
    assert Secrets(finds_keys=False).redactor.text(KEY) == KEY
    own = SecretPattern("mine", "sk-[a-z]+-[A-Za-z0-9]+")
    assert Secrets([own]).redactor.text(KEY) == "[secret:mine]"
    assert "mine" not in repr(Secrets([own]))


def test_live_text_goes_on_when_it_is_safe_and_at_the_end() -> None:
    shown: list[str] = []
    live = Secrets().stream(shown.append)
    for piece in ("It is ", KEY[:20], KEY[20:], " or so", "!"):
        live.take(piece)
    assert shown == ["It is ", "[secret:anthropic-key] or ", "so!"]
    live.take("And")
    assert shown[-1] == "so!"
    live.end()
    live.end()
    assert "".join(shown) == "It is [secret:anthropic-key] or so!And"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_posts_are_searched_together_and_only_those_with_a_secret_are_changed(
    place: int,
) -> None:
    texts = ["nothing to see", "nothing here", "nor here"]
    texts[place] += f" but {KEY}"
    posts = [Post("host", ToolReturned(1, call, "ok", text_json(text))) for call, text in enumerate(texts)]
    let_in = Secrets().admit(posts)
    assert [one is other for one, other in zip(let_in, posts, strict=True)] == [
        at != place for at in range(3)
    ]
    clean = text_json(texts[place].replace(KEY, "[secret:anthropic-key]"))
    assert let_in[place] == Post("host", ToolReturned(1, place, "ok", clean))
    assert Secrets(finds_keys=False).admit(posts) is posts


def test_a_mapping_has_values_and_functions_by_name() -> None:
    asked: list[str] = []

    def vault() -> str:
        asked.append("vault")
        return "value-of-vault"

    secrets = Secrets({"DOOR": "value-of-door", "VAULT": vault})
    assert secrets.redactor.text("value-of-door") == "[secret:DOOR]"
    assert (secrets.value("DOOR"), secrets.value("VAULT"), asked) == (
        "value-of-door",
        "value-of-vault",
        ["vault"],
    )
    assert secrets.redactor.text("value-of-vault") == "[secret:VAULT]"
    assert repr(secrets) == "Secrets(['DOOR', 'VAULT'])"


def test_a_function_gives_a_secret_by_name_and_its_error_never_shows_one() -> None:
    values = {"DOOR": "value-of-door"}
    secrets = Secrets(values.__getitem__)
    assert secrets.value("DOOR") == "value-of-door"
    assert secrets.redactor.text("value-of-door") == "[secret:DOOR]"
    with pytest.raises(UnknownName, match=r"the secret OTHER cannot be read \(KeyError\)"):
        secrets.value("OTHER")
    with pytest.raises(MisuseError, match="1 to 64 letters"):
        secrets.value("no name")


@pytest.mark.parametrize("given", [{"DOOR": 4711}, {"DOOR": "short"}, {"no name": "value-of-door"}])
def test_a_mapping_that_cannot_be_kept_is_refused(given: object) -> None:
    with pytest.raises(MisuseError) as caught:
        Secrets(given)  # type: ignore[arg-type]  # the wrong argument is the test
    assert "short" not in str(caught.value).replace("shorter", "")
