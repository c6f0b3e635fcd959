"""Acts in a browser: two that answer one call, forms, a fork beside its origin, hostile text everywhere."""

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

pytest.importorskip("uvicorn")

from tests.browser import Browser, browser, needs_browser
from tests.cli.test_page_server import until
from tests.effort import timed
from tests.replay.page.acting import ACCOUNT, ACT_TOKEN, HOSTILE, HOSTILE_ID, Acting, acting
from tests.replay.page.test_access import AXE, violations
from tests.replay.page.test_every_view import ELEMENTS, ELEMENTS_MAX
from tests.replay.page.test_figures import _TIMED

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(120)]

WAITS = "document.querySelectorAll('#waiting button').length"
SAID = "document.querySelector('#dialog .said').textContent"
EXPECTED = ("[DOM] Password field", "Failed to load resource: the server responded with a status of 4")
LATE = "callboard.questions.found[0], { is_approved: false, by: 'bob' }, document.querySelector('.said')"
ARGUMENTS = "document.querySelector('#dialog .change textarea')"
LIMIT = "document.querySelector('#dialog [type=number]')"
PARTS = "[...document.querySelectorAll('header, .bar, dialog')]"
TOO_WIDE = f"{PARTS}.some((one) => one.scrollWidth - one.clientWidth > 1)"
SESSIONS = 10_000
PIN = "pin-98765-of-ann"
IS_OPEN = "document.getElementById('dialog').open"
TITLE = "document.getElementById('dialog-title')?.textContent"
PARTS_LEFT = "document.getElementById('dialog').childElementCount"

HOLD = """
    globalThis.held = { variants: [], act: [], cost: [] };
    globalThis.done = { variants: 0, act: 0, cost: 0 };
    const sent = globalThis.fetch;
    globalThis.fetch = async (address, options) => {
        const name = String(address).split("?")[0];
        if (held[name]) await new Promise((go) => held[name].push(go));
        const answer = await sent(address, options);
        if (held[name]) setTimeout(() => { done[name] += 1; }, 100);
        return answer;
    };
    0"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acting]:
    with acting(tmp_path_factory.mktemp("acting") / "a.db") as found:
        yield found


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened
        assert opened.dialogs == []
        assert [one for one in opened.console if not one.startswith(EXPECTED)] == []
        assert not any(ACT_TOKEN in one for one in opened.requests)
        hosts = {one.split("/")[2] for one in opened.requests if one.startswith("http")}
        assert len(hosts) == 1


def page_of(site: Acting, session: str) -> str:
    return f"{site.address}session?{urlencode({'log': 0, 'session': session})}"


def click(tab: Browser, words: str) -> None:
    """Click a button of the open dialog."""
    buttons = "[...document.querySelectorAll('#dialog button')]"
    assert tab.run(f"{buttons}.find((one) => one.textContent === {json.dumps(words)})?.click() ?? true")


def test_the_list_is_used_by_keys_and_shows_hostile_text_as_text(site: Acting, tab: Browser) -> None:
    tab.visit(site.address)
    until(tab, "callboard.findings.size", 1)
    assert HOSTILE[:30] in tab.run("document.getElementById('list').textContent")
    assert tab.run("document.querySelectorAll('#list img, #list script').length") == 0
    tab.run("document.getElementById('tag').value = callboard.rows[0].tags[0]")
    tab.run("document.getElementById('tag').dispatchEvent(new Event('change'))")
    assert tab.run("callboard.shown.length") == 1
    for key in ("j", "k", "End", "Home"):
        tab.press(key)
    tab.press("Enter")
    until(tab, "location.search.includes('session=') && globalThis.callboard?.session?.count > 20", True)
    assert tab.run("callboard.session.summary.session") == HOSTILE_ID
    kept = "document.documentElement.outerHTML + JSON.stringify(localStorage) + location.href"
    assert not tab.run(f"[{json.dumps(ACT_TOKEN)}, 'id=\"boot\"'].some((one) => ({kept}).includes(one))")


def test_the_sessions_whose_events_hold_a_text_are_listed(site: Acting, tab: Browser) -> None:
    site.ask("Pay.", "unrelated")
    tab.visit(site.address)
    until(tab, "callboard.rows.length > 1", True)
    everything = tab.run("callboard.shown.length")
    search(tab, "10 degrees </script>")
    until(tab, "document.getElementById('found').textContent.includes('hold it')", True)
    until(tab, "callboard.shown.map(({ session }) => session)", [HOSTILE_ID])
    assert tab.run("document.querySelectorAll('#list img, #list script').length") == 0
    link = tab.run("document.querySelector('#list .hit').href")
    assert "10 degrees" in tab.run("document.querySelector('#list .hit').textContent")
    check(tab, 1400)
    search(tab, "in no session")
    until(tab, "document.getElementById('found').textContent.startsWith('0 of')", True)
    assert tab.run("callboard.shown.length") == 0
    tab.press("Escape")
    assert tab.run("callboard.shown.length") == everything
    tab.visit(link)
    until(tab, "globalThis.callboard?.session?.count > 20", True)
    assert "10 degrees" in tab.run("callboard.session.bodies[callboard.seq]")


def search(tab: Browser, text: str) -> None:
    """Search in the events of all sessions."""
    field = "document.getElementById('search')"
    tab.run(f"{field}.value = {json.dumps(text)}; {field}.dispatchEvent(new Event('input'))")
    tab.run("document.getElementById('contents-button').click()")


@timed
def test_ten_thousand_sessions_are_listed_and_searched_at_once(site: Acting, tab: Browser) -> None:
    tab.visit(site.address)
    tab.run(f"""globalThis.many = (() => {{
        const {{ columns, rows }} = JSON.parse(callboard.text);
        const cells = rows[rows.length - 1];
        const named = (_, n) => [`s${{n}}`, `place ${{n % 97}}`, ...cells.slice(2)];
        return JSON.stringify({{ columns, rows: Array.from({{ length: {SESSIONS} }}, named) }});
    }})(); callboard.look = async () => {{}}; 0""")
    assert tab.run(f"{_TIMED}(() => {{ callboard.text = ''; callboard.take(many); }})") <= 150
    assert tab.run("callboard.shown.length") == SESSIONS
    search = "document.getElementById('search').value = 's99'; callboard.choose();"
    assert tab.run(f"{_TIMED}(() => {{ {search} }})") <= 150
    assert tab.run("callboard.shown.length") == 111
    tab.press("Escape")
    for _ in range(3):
        tab.press("End")
    assert tab.run("callboard.current") == SESSIONS - 1
    assert f"place {(SESSIONS - 1) % 97}" in tab.run("document.getElementById('list').textContent")
    assert tab.run(ELEMENTS) <= ELEMENTS_MAX


def test_two_browsers_answer_one_call_and_the_first_one_counts(site: Acting, tab: Browser) -> None:
    site.ask("Pay.", "pay")
    with browser() as other:
        for one in (tab, other):
            one.visit(page_of(site, "pay"))
            until(one, WAITS, 1)
            one.press("q")
        other.run("callboard.questions.take = () => {}")  # it has not looked since
        tab.run("document.querySelector('#dialog [autocomplete=name]').value = 'ann'")
        sent = sum(one.endswith("/act") for one in tab.requests)
        tab.run("const yes = document.querySelector('#dialog .offer'); yes.click(); yes.click()")
        until(tab, IS_OPEN, False)
        until(tab, WAITS, 0)
        assert sum(one.endswith("/act") for one in tab.requests) == sent + 1
        until(other, "callboard.session.kinds.includes('ApprovalGiven')", True)
        other.run(f"callboard.questions.answer({LATE})")
        assert "Nothing was changed. It was approved by ann." in other.run(SAID)
        assert other.console == []


def test_a_call_is_approved_with_other_arguments(site: Acting, tab: Browser) -> None:
    site.ask("Pay.", "change")
    tab.visit(page_of(site, "change"))
    until(tab, WAITS, 1)
    tab.press("q")
    assert str(ACCOUNT) in tab.run("document.querySelector('#dialog pre').textContent")
    assert str(ACCOUNT) in tab.run(f"{ARGUMENTS}.value")
    for wrong, said in (("{", "not JSON"), ("[1]", "a JSON object"), ('{"account": "x"}', "account")):
        write(tab, wrong)
        click(tab, "Approve as changed")
        until(tab, f"{SAID}.includes({json.dumps(said)})", True)
    assert tab.run("[...document.querySelectorAll('#dialog .choices button[hidden]')].length") == 1
    write(tab, f'{{"to": "ann", "account": {ACCOUNT + 1}1}}')
    click(tab, "Approve as changed")
    until(tab, "callboard.session.kinds.includes('AskEnded')", True)
    assert f"paid ann from {ACCOUNT + 1}1" in tab.run("callboard.session.bodies.join()")


def write(tab: Browser, text: str) -> None:
    """Write the arguments of the call in the open dialog."""
    tab.run(f"{ARGUMENTS}.value = {json.dumps(text)}; {ARGUMENTS}.dispatchEvent(new Event('input'))")


def test_the_table_of_variants_shows_a_fork_that_begins_while_it_is_open(site: Acting, tab: Browser) -> None:
    site.ask("Pay.", "grows")
    tab.visit(page_of(site, "grows"))
    until(tab, "globalThis.callboard?.session?.count > 5", True)
    tab.press("V")
    until(
        tab, "document.querySelector('#dialog [role=status]').textContent", "This session has no forks yet."
    )
    tab.run("document.querySelector('.variants a').focus()")
    site.fork("grows")
    until(tab, "document.querySelectorAll('.variants tr').length", 3)
    assert tab.run("document.querySelector('#dialog [role=status]').textContent").startswith("1 fork")
    assert tab.run("document.activeElement.textContent") == "grows"


def test_a_form_is_filled_in_and_a_stale_page_is_told_so(site: Acting, tab: Browser) -> None:
    site.ask("Book.", "book")
    tab.visit(page_of(site, "book"))
    until(tab, WAITS, 1)
    tab.press("q")
    assert tab.run("document.querySelectorAll('#dialog img, #dialog script').length") == 0
    inputs = "document.querySelectorAll('#dialog fieldset :is(input, select)')"
    assert tab.run(f"[...{inputs}].map((one) => one.type)") == ["text", "text", "select-one", "password"]
    click(tab, "Send and let it run")
    until(tab, f"{SAID}.includes('do not fit the form')", True)
    guard = site.server._guard
    site.server._guard = guard._replace(act_token="the token of a later server")
    click(tab, "Send and let it run")
    until(tab, f"{SAID}.includes('server that has ended')", True)
    site.server._guard = guard
    tab.run(f"{inputs}[1].value = '2'; {inputs}[3].value = '{PIN}'")
    click(tab, "Send and let it run")
    until(tab, "callboard.session.kinds.includes('AskEnded')", True)
    given = tab.run("callboard.session.bodies.find((one) => one.includes('ApprovalGiven'))")
    assert '"seats":2' in given
    assert PIN not in tab.run("callboard.session.bodies.join()")


def test_a_fork_says_its_cost_and_runs_beside_its_origin(site: Acting, tab: Browser) -> None:
    tab.visit(page_of(site, HOSTILE_ID))
    tab.run("callboard.select(callboard.session.kinds.indexOf('ToolReturned'))")
    tab.press("i")
    until(tab, "document.querySelector('.statement').textContent.includes('At most')", True)
    stated = tab.run("document.querySelector('.statement').textContent")
    assert "2 model calls of host.1, host are asked again" in stated
    assert "cost unknown" in stated
    tab.run(f"{LIMIT}.value = ''; {LIMIT}.dispatchEvent(new Event('input'))")
    until(tab, "document.querySelector('#dialog .offer').disabled", True)
    tab.run(f"{LIMIT}.value = '200000'; {LIMIT}.dispatchEvent(new Event('input'))")
    until(tab, "document.querySelector('#dialog .offer').disabled", False)
    tab.run("document.querySelector('#dialog textarea').value = '99 degrees'")
    click(tab, "Fork and go on")
    until(tab, "location.search.includes('beside') && document.getElementById('live')?.textContent", "closed")
    until(tab, "callboard.beside.count > 3", True)
    assert "all hot" in tab.run("callboard.beside.right.bodies.join()")
    tab.press("V")
    until(tab, "document.querySelectorAll('.variants tr').length", 3)


def test_an_answer_that_comes_late_changes_nothing_but_its_own_dialog(site: Acting, tab: Browser) -> None:
    site.ask("Pay.", "late")
    tab.visit(page_of(site, "late"))
    until(tab, WAITS, 1)
    tab.run(HOLD)

    tab.press("V")
    until(tab, "held.variants.length", 1)
    turn_to_words(tab)
    tab.run("held.variants.pop()(); 0")
    until(tab, "done.variants", 1)
    assert tab.run(TITLE) == "Send a message"
    tab.run("document.getElementById('dialog').close()")

    until(tab, PARTS_LEFT, 0)
    tab.press("q")
    click(tab, "Approve")
    until(tab, "held.act.length", 1)
    turn_to_words(tab)
    tab.run("held.act.pop()(); 0")
    until(tab, WAITS, 0)
    until(tab, "done.act", 1)
    assert tab.run(TITLE) == "Send a message"
    assert tab.run("document.querySelectorAll('#dialog button[disabled]').length") == 0
    tab.run("document.getElementById('dialog').close()")

    until(tab, PARTS_LEFT, 0)
    tab.press("i")
    until(tab, "held.cost.length", 1)
    dollars = "document.querySelectorAll('#dialog [type=number]')[1]"
    tab.run(f"{dollars}.value = '7'; {dollars}.dispatchEvent(new Event('input'))")
    until(tab, "held.cost.length", 2)
    for place in (1, 0):
        tab.run(f"held.cost[{place}](); 0")
        until(tab, "done.cost", 2 - place)
        assert "no limit in dollars" not in tab.run("document.querySelector('.statement').textContent")


def turn_to_words(tab: Browser) -> None:
    """Close the dialog, and open the one that sends a message."""
    tab.run("document.getElementById('dialog').close()")
    until(tab, PARTS_LEFT, 0)
    tab.press("l")
    until(tab, TITLE, "Send a message")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 400)])
def test_no_view_of_acts_breaks_a_rule_or_the_width(
    site: Acting, tab: Browser, scheme: str, width: int
) -> None:
    tab.scheme(scheme)
    tab.visit(site.address, width, 800)
    check(tab, width)
    site.ask("Book.", f"book-{scheme}")
    tab.visit(page_of(site, f"book-{scheme}"), width, 800)
    until(tab, WAITS, 1)
    for keys in ("", "q", "i", "l", "C", "V"):
        if keys:
            tab.press(keys)
            until(tab, IS_OPEN, True)
        check(tab, width)
        tab.run("document.getElementById('dialog').close()")
        until(tab, PARTS_LEFT, 0)
    for view in ("callboard.setMode('story')", "callboard.read('host')", "callboard.select(3)"):
        tab.run(f"{view}; 0")
        check(tab, width)
    tab.visit(page_of(site, f"book-{scheme}"), (width + 600) // 2, 800)
    assert not tab.run(TOO_WIDE)


def check(tab: Browser, width: int) -> None:
    """Check names, roles and contrast, that nothing is wider than the window, and the number of elements."""
    tab.run(f"globalThis.axe ?? (() => {{ {AXE} }})(); 0")
    assert violations(tab) == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert not tab.run(TOO_WIDE)
    assert tab.run(ELEMENTS) <= ELEMENTS_MAX
