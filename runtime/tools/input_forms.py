"""Forms by which a call asks a person for input, and the check of the values.

A call that needs input raises `InputNeeded`. Its forms are a JSON object: each form has a name, a `message`,
and a `schema` of an object of values or a `url` that the person shall visit. The runtime never opens a URL.

A field is secret whose schema says `writeOnly`, `format: password` or `x-secret`: its value reaches the tool,
and only a placeholder the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.value_types import InputAsked
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.validators import TooComplex, check_schema, problems_in

FORMS_BYTES_MAX: Final = 64 * 1024
"""Bytes of the forms of one question: a person reads them."""


class InputNeeded(Exception):
    """The wish of a call for input; its text is what a model reads if the call does not go on."""

    def __init__(self, text: str, asked: InputAsked) -> None:
        super().__init__(text)
        self.asked = asked


class Form(NamedTuple):
    """One form. schema: of its values; None for a form with a `url`."""

    name: str
    message: str
    schema: dict[str, Any] | None
    url: str

    @property
    def fields(self) -> dict[str, dict[str, Any]]:
        """Return the schemas of its fields, by name."""
        fields = (self.schema or {}).get("properties")
        named = fields.items() if isinstance(fields, dict) else ()
        return {name: field if isinstance(field, dict) else {} for name, field in named}

    @property
    def required(self) -> list[object]:
        """Return the names of the fields that need a value."""
        names = (self.schema or {}).get("required")
        return names if isinstance(names, list) else []

    @property
    def secrets(self) -> list[str]:
        """Return the names of the fields with secret values."""
        return [name for name, field in self.fields.items() if _is_secret(field)]


def _is_secret(field: Mapping[str, object]) -> bool:
    return field.get("format") == "password" or True in (field.get("writeOnly"), field.get("x-secret"))


def forms_of(forms: Json) -> list[Form]:
    """Return the forms of a question."""
    found = msgspec.json.decode(forms)
    return [
        Form(name, str(one.get("message", "")), one.get("schema"), str(one.get("url", "")))
        for name, one in (found or {}).items()
    ]


def checked_forms(forms: Mapping[str, Mapping[str, object]]) -> Json:
    """Encode forms. Raises InvalidPrompt for forms that no person could fill in."""
    found = to_json({name: dict(form) for name, form in forms.items()}, what="The form")
    if len(found) > FORMS_BYTES_MAX:
        raise InvalidPrompt(f"the form has {len(found):,} bytes, at most {FORMS_BYTES_MAX:,} may be shown")
    for form in forms_of(found):
        if form.schema is not None:
            _refuse_unusable(form)
    return found


def _refuse_unusable(form: Form) -> None:
    try:
        check_schema(msgspec.json.encode(form.schema))
    except TooComplex as error:
        raise InvalidPrompt(f"the form {form.name!r:.80} cannot be checked: {error}") from None


def checked_values(forms: Json, values: Mapping[str, object] | None) -> Json:
    """Return the values of each form, by its name. Raises InvalidPrompt with the problems.

    values: of the fields of the only form that has some, or by the names of the forms.
    """
    found = forms_of(forms)
    given = _by_form(found, values or {})
    said = "; ".join(problem for form in found for problem in _problems(form, given[form.name]))
    if said:
        raise InvalidPrompt(f"the values do not fit the form: {said}")
    return to_json(given, what="The values")


def _by_form(forms: Sequence[Form], values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of each form, by its name. Raises InvalidPrompt for an unknown name."""
    names = [form.name for form in forms]
    with_fields = [form.name for form in forms if form.schema is not None]
    if len(with_fields) == 1 and with_fields[0] not in values:
        values = {with_fields[0]: dict(values)}
    if unknown := next((name for name in values if name not in names), None):
        raise InvalidPrompt(f"there is no form {unknown!r:.80}; there is: {', '.join(names)}")
    return {name: values.get(name) or {} for name in names}


def _problems(form: Form, values: object) -> Iterator[str]:
    """Yield the reasons why values do not fit a form."""
    if form.schema is None:
        return
    data = to_json(values, what="The values")
    try:
        found = problems_in(msgspec.json.encode(form.schema), data)
    except TooComplex:  # as a number of 19 digits
        yield "they are too large to be checked"
        return
    for problem in found:
        yield f"at {problem.path or '/'}: {problem.message}"


def secret_values(forms: Json, values: Json) -> dict[tuple[str, str], object]:
    """Return the values of secret fields, by the names of form and field."""
    given = msgspec.json.decode(values) or {}
    return {
        (form.name, name): given[form.name][name]
        for form in forms_of(forms)
        for name in form.secrets
        if name in (given.get(form.name) or {})
    }


def without_secrets(forms: Json, values: Json) -> Json:
    """Return the values with a placeholder for each secret one."""
    hidden = secret_values(forms, values)
    if not hidden:
        return values
    given = msgspec.json.decode(values)
    for form, field in hidden:
        given[form][field] = f"[secret:{field}]"
    return to_json(given)
