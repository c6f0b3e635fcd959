"""The chat of the examples in Chromium, with the client of the AI SDK."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.examples.served import Service
from tests.waiting import block_until

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, "web_chat", "chat_app") as service:
        yield service


def shown(page: Browser) -> str:
    return str(page.run("document.getElementById('messages').innerText"))


def wait_for(page: Browser, text: str) -> None:
    block_until(lambda: text in shown(page))


def say(page: Browser, text: str) -> None:
    page.run(
        f"document.getElementById('text').value = {text!r}; document.querySelector('#form button').click()"
    )


def click(page: Browser, label: str) -> None:
    page.run(f"[...document.querySelectorAll('button')].find((one) => one.textContent === {label!r}).click()")


def test_a_chat_goes_on_over_approvals_closed_tabs_and_restarts(service: Service) -> None:
    address = f"http://127.0.0.1:{service.port}/?chat=one"
    with browser() as first:
        first.visit(address)
        say(first, "pay the offer")
        wait_for(first, "Allow pay")
        asked = shown(first)
        assert "reader reads the offer: ok" in asked
        assert first.console == []
    service.stop(signal.SIGKILL)
    service.start()
    with browser() as second:
        second.visit(address)
        wait_for(second, "Allow pay")
        assert shown(second) == asked
        service.stop(signal.SIGTERM)
        service.start()
        click(second, "Allow pay")
        wait_for(second, "paid 5 euros")
        wait_for(second, "It is done")
        say(second, "And how are you?")
        wait_for(second, "You wrote: And how are you?")
        block_until(lambda: second.run("document.getElementById('status').textContent") == "")
        everything = shown(second)
        assert everything.count("It is done") == 1
    assert (service.folder / "paid.txt").read_text() == "5\n"
    with browser() as third:
        third.visit(address)
        wait_for(third, "And how are you?")
        block_until(lambda: shown(third) == everything)


def test_a_tab_that_comes_back_in_the_middle_sees_the_rest(service: Service) -> None:
    address = f"http://127.0.0.1:{service.port}/?chat=two"
    with browser() as first:
        first.visit(address)
        say(first, "Tell me something")
        wait_for(first, "You wrote")
    with browser() as second:
        second.visit(address)
        block_until(lambda: shown(second).count("Let me think about it.") == 8)
        assert shown(second).count("You wrote") == 1
        say(second, "Tell me more")
        wait_for(second, "You wrote: Tell me more")
        click(second, "Stop")
        block_until(lambda: second.run("document.getElementById('stop').disabled"))
