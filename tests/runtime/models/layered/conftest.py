"""A local server that speaks Chat Completions and Responses, with models that ask it."""

from collections.abc import Iterator

import pytest

from tests.runtime.models.layered.kit import Service, serving


@pytest.fixture(scope="module")
def shared_service() -> Iterator[Service]:
    with serving() as service:
        yield service


@pytest.fixture
def service(shared_service: Service) -> Service:
    shared_service.api.forget()
    return shared_service
