"""A real local server that speaks the Messages API."""

from collections.abc import Iterator

import pytest

from tests.messages_api import MessagesApi
from tests.runtime.models.anthropic.kit import serving


@pytest.fixture(scope="module")
def shared_api() -> Iterator[MessagesApi]:
    with serving() as api:
        yield api


@pytest.fixture
def api(shared_api: MessagesApi) -> MessagesApi:
    shared_api.forget()
    return shared_api
