from pathlib import Path

import pytest

from callboard.runtime.files.opening import Opener, by_component, openat2
from tests.runtime.files.trees import make_tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path)


@pytest.fixture(params=[openat2, by_component], ids=lambda opener: opener.__name__)
def opener(request: pytest.FixtureRequest) -> Opener:
    opener: Opener = request.param
    return opener
