"""Letters and numerals: full-width forms, Chinese numerals, bigrams, and words of a search."""

import functools
import re
import string
import unicodedata

import snowballstemmer

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_FULL = {ord(char) + 0xFEE0: char for char in string.digits + string.ascii_letters + "*"}
_BETWEEN = re.compile(r"(?<=[0-9A-Za-z])[．－‐‑](?=[0-9A-Za-z])")  # letters and digits
_TOKEN = re.compile(f"[{CJK}]+|[^\\W_{CJK}]+(?:[.'-][^\\W_{CJK}]+)*")
HAN_DIGITS = "零〇一二三四五六七八九十百两"
DIGITS_MAX = 1_000  # of a number: Python converts no more than 4,300
NUMBER_WORD = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
ORDINAL = "first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth"
_WORDS = {one: at + 1 for words in (NUMBER_WORD, ORDINAL) for at, one in enumerate(words.split("|"))}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
STOP = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "each", "for", "from",
    "have", "how", "i", "if", "in", "is", "it", "its", "may", "me", "more", "much", "must", "not",
    "of", "on", "one", "or", "our", "shall", "should", "tell", "than", "that", "the", "their", "there",
    "these", "they", "this", "to", "under", "was", "we", "what", "when", "where", "which", "who",
    "why", "will", "with", "would", "you", "your", "any", "long", "many", "often",
})  # fmt: skip
STOP_HAN = re.compile(
    "的|了|吗|呢|(?<![但凡])是|(?<![存现])在|应(?![急用力对变])|(?<![温])和|(?<![参])与|或|什么|多少|多久|多高|多大|多长|哪些|哪个|哪|"
    "怎么|如何|请问|有关|关于|规定|要求|是否|最高|最低|最大|最小|最多|最少|允许|可以|到|几"
)
stem = functools.lru_cache(100_000)(snowballstemmer.stemmer("english").stemWord)

_STOPPED = frozenset(map(stem, STOP))


def half_width(text: str) -> str:
    """Return a text with full-width digits and letters, and points and dashes between them, as ASCII."""
    if text.isascii():
        return text
    text = text.translate(_FULL).replace("\u00a0", " ").replace("\u3000", " ")
    return _BETWEEN.sub(lambda found: "." if found.group() == "．" else "-", text)


def joined(lines: list[str]) -> str:
    """Return the lines of a paragraph as one, without blanks between Chinese characters."""
    text = lines[0]
    for line in lines[1:]:
        is_chinese = has_han(text[-1:]) or text[-1:] in "，。；：、）" or has_han(line[:1])
        text += line if is_chinese else f" {line}"
    return text


def has_han(text: str) -> bool:
    """Return True if a text has a Chinese character."""
    return re.search(f"[{CJK}]", text) is not None


def numeral(text: str) -> str:
    """Return a Chinese, Roman or Arabic numeral, or a word for one, in Arabic digits; others in capitals."""
    text = text.strip().upper()
    if not text or len(text) >= DIGITS_MAX or text.lower() in _WORDS:
        return str(_WORDS.get(text.lower(), text))
    if text.isdecimal():
        return str(int(text))
    if set(text) <= {*HAN_DIGITS}:
        return str(_chinese(text))
    if not set(text) <= set(_ROMAN) or (len(text) == 1 and text not in "IVX"):
        return text  # such as C, the letter of an annex
    values = [_ROMAN[char] for char in text]
    return str(sum(-one if one < max(values[at:]) else one for at, one in enumerate(values)))


def _chinese(text: str) -> int:
    total = digit = 0
    for char in text.replace("两", "二"):
        value = int(unicodedata.numeric(char))
        if value < 10:
            digit = digit * 10 + value
        else:
            total, digit = total + (digit or 1) * value, 0
    return total + digit


def terms(text: str) -> list[str]:
    """Return the words of a text in small letters: Latin ones as they are, Chinese as overlapping bigrams."""
    found: list[str] = []
    for token in _TOKEN.findall(unicodedata.normalize("NFC", half_width(text)).casefold()):
        pairs = [token[at : at + 2] for at in range(max(len(token) - 1, 1))]
        found += pairs if has_han(token) else [stem(token)]
    return found


def query_terms(text: str) -> list[str]:
    """Return the words of a question that name its subject, each once."""
    plain = STOP_HAN.sub(" ", half_width(text))
    return list(dict.fromkeys(term for term in terms(plain) if term not in _STOPPED))
