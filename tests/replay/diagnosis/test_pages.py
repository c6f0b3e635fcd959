"""A first page that was taken for all is named, in many wordings; one that was followed is not."""

from collections.abc import Iterator
from functools import partial
from itertools import count

from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, task
from tests.replay.diagnosis.kit import ANY, Arguments, simulate
from tests.replay.diagnosis.varied import Varied, names_the_cause, people
from tests.tables import table


def _listed(replies: dict[str, list[Reply]], *results: object) -> Recording:
    given = count()

    def tools(agent: str, tool: str, arguments: Arguments) -> object:
        return results[min(next(given), len(results) - 1)]

    return simulate(replies, tools, people())


def _ids(first: int, last: int) -> list[str]:
    return [f"ORD-{1_000 + n}" for n in range(first, last)]


FIRST_PAGES: tuple[tuple[str, str, dict[str, object], object, str], ...] = (
    ("words", "list_orders", {"state": "open"}, "page 1 of 3\nORD-1001\nORD-1002", "These are all open orders: ORD-1001, ORD-1002."),
    ("a range", "search_tickets", {"text": "refund"}, "Results 1-20 of 57: T-1, T-2, T-3", "Every ticket about refunds was closed last week."),
    ("a flag", "query", {"sql": "select * from o"}, {"rows": _ids(1, 6), "has_more": True}, "There are 5 orders."),
    ("a cursor", "list_orders", {}, {"orders": _ids(1, 4), "next_cursor": "eyJvIjo0"}, "The complete list: ORD-1001, ORD-1002, ORD-1003."),
    ("a total", "list_orders", {}, {"items": _ids(1, 21), "total": 1_234}, "In total there are 20 orders."),
    ("pages in fields", "list_orders", {"page": 1}, {"page": 1, "total_pages": 7, "data": _ids(1, 9)}, "None of the orders is overdue."),
    ("German", "hole_seite", {"liste": "Rechnungen"}, "Seite 1 von 3\nRE-17 12,50 EUR\nRE-18 99,00 EUR", "Alle Rechnungen zusammen ergeben 111,50 EUR."),
    ("German, fields", "hole_seite", {"liste": "r"}, {"seite": 1, "seiten": 4, "posten": ["RE-17", "RE-18"]}, "Insgesamt sind es RE-17 und RE-18."),
    ("French", "look", {"dossier": "A"}, "Factures 1–20 sur 1 340 : F-1, F-2", "Toutes les factures sont payées."),
    ("Spanish", "look", {"de": "pedidos"}, "Página 1 de 12: P-1, P-2", "Todos los pedidos están pagados."),
    ("Chinese", "look", {"k": "订单"}, "第1页，共3页：订单甲、订单乙", "所有订单都已付款。"),
    ("Japanese", "look", {"k": "注文"}, "1/3 ページ 注文甲、注文乙", "すべての注文は支払い済みです。"),
    ("Russian", "look", {"k": "заказы"}, "Страница 1 из 9: З-1, З-2", "Все заказы оплачены."),
    ("an ellipsis", "search_tickets", {"text": "x"}, "T-1\nT-2\nT-3\n... and 37 more", "All three tickets are about login."),
    ("nested", "query", {"q": "x"}, {"data": ["a", "b"], "meta": {"page": 1, "pages": 5}}, "No other customers are affected, only a and b."),
    ("a link", "fetch_url", {"url": "/v1/users"}, {"value": ["ann", "bob"], "@odata.nextLink": "/v1/users?s=2"}, "The only users are ann and bob."),
    ("a token", "look", {"bucket": "b"}, {"Contents": ["k1", "k2"], "IsTruncated": True, "NextToken": "abc=="}, "The bucket holds k1 and k2 and nothing else; that is everything."),
    ("entries", "look", {}, "Displaying entries 1 to 25 out of 310", "Every entry has been migrated."),
    ("rows", "look", {}, "10 of 482 rows shown. Use --offset for more", "Across all rows the maximum is 7."),
    ("bis", "look", {}, "Anzeige 1 bis 10 von 96", "Keiner der Einträge ist überfällig."),
    ("a short flag", "look", {}, {"users": ["ann", "bob"], "moreAvailable": True}, "All users are ann and bob."),
    ("a count beside a limit", "look", {}, {"docs": ["x", "y"], "totalDocs": 48, "limit": 2}, "There are 2 documents."),
    ("a URL in fields", "look", {}, {"results": ["a"], "paging": {"next": "https://api.example/v1?after=Q"}}, "All posts: a."),
    ("Italian", "look", {}, "Pagina 1 di 4: uno, due", "Tutti i clienti hanno pagato."),
    ("Swedish", "look", {}, "Sida 1 av 6", "Alla kunder har betalat."),
    ("Korean", "look", {}, "결과 1-10 / 총 95건", "모든 결과가 정상입니다."),
    ("a slash", "look", {}, "Page: 1/12: alpha, beta", "In total, two hosts: alpha and beta."),
    ("omitted lines", "look", {}, "(output truncated, 300 lines omitted)", "No errors anywhere in the log."),
    ("Elasticsearch", "look", {}, {"hits": {"total": {"value": 9_312}, "hits": ["d1", "d2"]}}, "All documents are d1 and d2."),
    ("records", "look", {}, {"records": ["r1"], "done": False, "nextRecordsUrl": "/q/01g"}, "The whole table is r1."),
    ("more in words", "look", {}, "#1 a [more results available, pass cursor=xyz]", "Nothing else exists: only a."),
    ("a GraphQL page", "query", {"q": "x"}, {"nodes": ["n1", "n2"], "pageInfo": {"hasNextPage": True, "endCursor": "Y3"}}, "Both users, all there are, have two-factor login."),
)  # fmt: skip


def first_page(tool: str, arguments: dict[str, object], result: object, said: str) -> Recording:
    return _listed({"host": [calls((tool, arguments)), Reply(said)]}, result)


def first_page_below(tool: str, arguments: dict[str, object], result: object, said: str) -> Recording:
    replies = {
        "host": [calls(task("worker", "Look", output_schema=ANY)), Reply(said)],
        "host.1": [calls((tool, arguments)), report({"seen": "ok"})],
    }
    return _listed(replies, result)


def healthy_pages() -> Iterator[Varied]:
    """Yield sessions that read on, say that they saw a part, or need no more than the first page."""
    one, two = {"page": 1, "pages": 2, "data": ["a"]}, {"page": 2, "pages": 2, "data": ["b"]}
    on = [calls(("list_orders", {"page": n})) for n in (1, 2)]
    yield Varied("read on", partial(_listed, {"host": [*on, Reply("All are a and b.")]}, one, two))
    first = {"items": ["a"], "next_cursor": "c9"}
    steps = [calls(("list_orders", {})), calls(("look", {"cursor": "c9"})), Reply("All are a and b.")]
    yield Varied("by the cursor", partial(_listed, {"host": steps}, first, {"items": ["b"]}))
    total = {"items": ["a", "b"], "total": 1_234}
    for said in (
        "There are 1,234 orders in all.",
        "Es gibt insgesamt 1.234 Bestellungen.",
        "1 234 au total.",
    ):
        yield Varied(said, partial(first_page, "list_orders", {}, total, said))
    for said in (
        "On the first page all orders are paid.",
        "The newest one is ORD-1001.",
        "I looked at a sample: all paid.",
        "Auf Seite 1 sind alle bezahlt.",
        "Ann's ticket is T-2.",
    ):
        yield Varied(said, partial(first_page, "list_orders", {}, "page 1 of 3: ORD-1001", said))
    for result in (
        "3 of 5 tests passed",
        "page 3 of 3: a",
        {"items": ["a", "b"], "total": 2, "has_more": False, "next_cursor": None},
        {"count": 3, "total_failed": 4},
        "lines 1-20 of main.py",
        "see pages 10 to 12",
        "1.2 of the spec",
        {"items": [{"sku": "A", "cents": 3_990}, {"sku": "B", "cents": 200}], "total": 4_190},
        {"next": "deploy", "done": ["build", "test"], "more": "text"},
    ):
        yield Varied(f"healthy {result}", partial(first_page, "look", {"at": "x"}, result, "All is well."))


def stories() -> Iterator[Varied]:
    for name, tool, arguments, result, said in FIRST_PAGES:
        yield Varied(name, partial(first_page, tool, arguments, result, said), "first_page")
        below = partial(first_page_below, tool, arguments, result, said)
        yield Varied(f"{name}, below", below, "first_page")


@table("story", [*stories()], ids=lambda one: one.name)
def test_a_first_page_that_was_taken_for_all_is_named(story: Varied) -> None:
    names_the_cause(story)


@table("story", [*healthy_pages()], ids=lambda one: one.name)
def test_nothing_is_said_where_the_answer_is_right_about_its_pages(story: Varied) -> None:
    names_the_cause(story)
