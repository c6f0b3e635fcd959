"""Notifications: each fits, they hold all that was given in order, and those of strangers hold nothing."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.postgres.notices import (
    PAYLOAD_BYTES_MAX,
    Notice,
    ProgressPiece,
    TextPiece,
    notice_of,
    notices,
    opened,
)
from tests.tables import table

CIPHER = Cipher(b"k" * 32, b"s" * 16)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
LONG = st.builds(lambda text, times: text * times, TEXTS, st.integers(1, 3_000))


def piece(text: str, offset: int = 0) -> TextPiece:
    return TextPiece(1, 7, "host", 1, 1, offset, text)


def received(
    payloads: list[str], names: dict[int, str], cipher: Cipher | None
) -> tuple[list[int], dict[int, str]]:
    """Return the numbers with news, and the text of each, whose parts have to follow each other."""
    news: list[int] = []
    whole: defaultdict[int, str] = defaultdict(str)
    for payload in payloads:
        assert len(payload.encode()) <= PAYLOAD_BYTES_MAX
        notice = notice_of(payload)
        news += notice.news
        for number, sent in notice.pieces:
            found = opened(names[number], sent, cipher)
            assert found is not None
            assert isinstance(found, TextPiece)
            assert found.offset == len(whole[number])
            whole[number] += found.text
    return news, dict(whole)


@given(
    st.lists(st.integers(1, 1 << 62), max_size=2_000),
    st.dictionaries(st.integers(1, 1 << 62), LONG, max_size=4),
    st.booleans(),
)
def test_all_that_is_sent_arrives_in_notifications_that_fit(
    news: list[int], texts: dict[int, str], is_sealed: bool
) -> None:
    cipher = CIPHER if is_sealed else None
    names = {number: f"s{number}" for number in texts}
    sent = [(number, names[number], piece(text)) for number, text in texts.items()]
    assert received([*notices(news, sent, cipher)], names, cipher) == (news, texts)


def test_a_piece_that_fits_in_no_notification_is_left_out() -> None:
    address = TextPiece(1, 7, "a" * PAYLOAD_BYTES_MAX, 1, 1, 0, "text")
    (payload,) = notices([], [(1, "s", address), (2, "s", piece("text"))])
    assert notice_of(payload) == Notice((), ((2, piece("text")),))
    assert [*notices([], [])] == []


@table("last, sizes", [(10, [7_999]), (100, [7_996, 9])])
def test_a_notification_is_filled_to_the_last_byte_that_the_server_takes(last: int, sizes: list[int]) -> None:
    numbers = [100_000_000] * 799 + [last]
    payloads = [*notices(numbers, [])]
    assert [len(payload) for payload in payloads] == [sizes[0], *([7 + 3] if sizes[1:] else [])]
    assert [one for payload in payloads for one in notice_of(payload).news] == numbers


@table("payload", ["", "hello", "{}", "[1]", '[["a"],[]]', "[" * 7_000, "[[],[[1,[2]]]]"])
def test_payloads_of_strangers_hold_nothing(payload: str) -> None:
    assert notice_of(payload) == Notice()


def test_a_piece_of_another_log_session_or_form_is_not_opened() -> None:
    (payload,) = notices([], [(1, "s", piece("secret"))], CIPHER)
    assert "secret" not in payload
    ((_, sealed),) = notice_of(payload).pieces
    assert opened("s", sealed, CIPHER) == piece("secret")
    other = Cipher(b"k" * 32, b"t" * 16)
    for session, sent, cipher in (
        ("other", sealed, CIPHER),
        ("s", sealed, other),
        ("s", sealed, None),
        ("s", piece("forged"), CIPHER),
        ("s", "no base64", CIPHER),
        ("s", "é", CIPHER),
    ):
        assert opened(session, sent, cipher) is None


@given(LONG, st.booleans())
def test_progress_arrives_as_one_piece_whose_end_may_be_missing(text: str, is_sealed: bool) -> None:
    cipher, sent = CIPHER if is_sealed else None, ProgressPiece(1, 7, "host", 1, 2, text)
    (payload,) = notices([], [(1, "s", sent)], cipher)
    assert len(payload.encode()) <= PAYLOAD_BYTES_MAX
    ((_, piece),) = notice_of(payload).pieces
    found = opened("s", piece, cipher)
    assert isinstance(found, ProgressPiece)
    assert found.text
    assert text.startswith(found.text)
    # A control character takes six bytes of JSON, and a third more where it is sealed.
    assert found.text == text or len(found.text.encode()) > 400
    assert (found.epoch, found.grant, found.address, found.turn, found.call) == (1, 7, "host", 1, 2)
