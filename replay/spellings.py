"""Other spellings of a value, in which its source may hold it: 1203 of `$1,203`, 2024-05-20 of May 20th."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from callboard.replay.json_values import Held, number_in

_AMOUNT: Final = re.compile(
    r"\s*(?P<money>[A-Z]{0,3}[$€£¥])?\s*(?P<number>[-+]?\d[\d.,_'\u00a0\u202f]*)\s*"
    r"(?P<unit>%|°[CF]|[A-Z]{3}|[€£¥]|[kKMGT]i?B|[kcm]?m|[km]?g|[mµn]?s|px|lbs?|percent|euros?|dollars?|cents?"
    r"|bytes?|seconds?|minutes?|hours?|days?|lines?|tokens?|files?|items?|pages?)?\s*"
)
_CURRENCY: Final = re.compile(r"[€£¥]|[A-Z]{3}|euros?|dollars?")
_AMOUNT_DIGITS_MIN: Final = 3  # not 0, of a number without its unit: 4 px is in too many texts as 4
_WORD_CHARS_MIN: Final = 4  # of a text that is looked for inside another word, or in another case
_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DATES: Final = tuple(
    re.compile(rf"(?i)\s*{form}\s*")
    for form in (
        r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
        r"(?P<d>\d\d?)\.(?P<m>\d\d?)\.(?P<y>\d{4})",
        r"(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<y>\d{4})",
        r"(?P<name>[a-z]{3})[a-z]*\.? (?P<d>\d\d?)(?:st|nd|rd|th)?(?:,? (?P<y>\d{4}))?",
        r"(?P<d>\d\d?)(?:st|nd|rd|th|\.)? (?P<name>[a-z]{3})[a-z]*\.?(?:,? (?P<y>\d{4}))?",
    )
)


def other_spellings(text: str) -> Iterator[Held]:
    """Yield the forms in which another text may hold a value, the likeliest first."""
    date = next((found for form in _DATES if (found := form.fullmatch(text))), None)
    if date is not None:
        yield from _other_dates(text, date.groupdict())
    if len(text.strip()) >= _WORD_CHARS_MIN:
        words = r"[\s_*`-]+".join(map(re.escape, re.split(r"[\s_]+", text.strip())))
        yield Held(text, pattern=rf"(?i)(?<![^\W_]){words}(?:(?![^\W_])|(?=T\d))")
    if date is None and not number_in(text) and (amount := _AMOUNT.fullmatch(text)):
        yield from _other_amounts(**amount.groupdict(""))


def _other_amounts(money: str, number: str, unit: str) -> Iterator[Held]:
    number = number_in(number.rstrip(".,"))
    is_money = bool(money or _CURRENCY.fullmatch(unit))
    digits = len(re.sub(r"\D", "", number).strip("0"))
    if number and (is_money or digits >= _AMOUNT_DIGITS_MIN):
        yield Held(number)
    if unit in ("%", "percent") and digits > 1:
        yield Held(number_in(f"{number}e-2"))
    elif is_money and digits:
        yield Held(number_in(f"{number}e2"))  # cents


def _month(date: Mapping[str, str | None]) -> int:
    """Return the month of a date, from 1; 0 for an unknown name."""
    if name := date.get("name"):
        return _MONTHS.index(name.lower()) + 1 if name.lower() in _MONTHS else 0
    return int(date["m"] or 0)


def _other_dates(text: str, date: Mapping[str, str | None]) -> Iterator[Held]:
    month = _month(date)
    day, year = int(date["d"] or 0), date["y"] or r"\d{4}"
    if 1 <= month <= len(_MONTHS):
        named = rf"{_MONTHS[month - 1]}[a-z]*\.?"
        of_year = rf"(?:,? {year}|(?!,? ?\d))"
        forms = (
            rf"{year}-?{month:02}-?{day:02}(?!\d)",
            rf"0?{month}/0?{day}/{year}|0?{day}[./]0?{month}[./]{year}",
            rf"{named} 0?{day}(?:st|nd|rd|th)?{of_year}|0?{day}(?:st|nd|rd|th|\.)? {named}{of_year}",
        )
        yield Held(text, pattern=rf"(?i)(?<!\w)(?:{'|'.join(forms)})")
