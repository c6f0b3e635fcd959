"""All that speaks for each framework, and who runs the tests whose style leaves that open."""

from typing import Final

from callboard.demo.aside import depth
from callboard.demo.names import many
from callboard.demo.testing_evidence import BASES, Basis, Evidence, Sighting
from callboard.demo.testing_signs import GLOBALS, PLAIN_TESTS, SPEC_BLOCKS, STYLES, TEST_CASES, Style

EVIDENCE_MAX: Final = 5
_STYLE_ORDER: Final = (TEST_CASES, PLAIN_TESTS, GLOBALS, SPEC_BLOCKS)


class Finding:
    """All that speaks for one framework. adopted: test code in a style that it runs among others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files = 0
        self.places: dict[Basis, list[Evidence]] = {}
        self.adopted: list[Evidence] = []

    def add(self, sighting: Sighting) -> None:
        """Take in one more sighting; counts of test files overlap, so the largest counts."""
        if sighting.basis == "used":
            self.files = max(self.files, sighting.files)
        self.places.setdefault(sighting.basis, []).extend(sighting.evidence)

    def adopt(self, style: "Finding", are_others: bool) -> None:
        """Take over the test files of a style. are_others: they are none of those counted already."""
        self.files = self.files + style.files if are_others else max(self.files, style.files)
        self.adopted += style.places["used"]

    @property
    def basis(self) -> Basis:
        """The strongest kind of evidence there is."""
        return "used" if self.adopted else self.own_basis

    @property
    def own_basis(self) -> Basis:
        """The strongest kind of evidence that needs no style to be read in its favour."""
        return next((basis for basis in BASES if basis in self.places), "locked")

    def has(self, *bases: str) -> bool:
        """Whether there is evidence of one of these kinds."""
        return any(basis in self.places for basis in bases)

    def evidence(self) -> list[Evidence]:
        """The strongest first, of each kind a few."""
        places = [place for basis in BASES[:-1] for place in self.places.get(basis, [])[:3]]
        return list(dict.fromkeys([*places[: EVIDENCE_MAX - 1], *self.adopted[:3]]))[:EVIDENCE_MAX]


def resolve_styles(findings: dict[str, Finding]) -> list[str]:
    """Give the test files of every style to whoever runs them; what is worth a note."""
    notes = []
    for name in _STYLE_ORDER:
        if name in findings and findings[name].has("used"):
            notes += _resolve(findings[name], STYLES[name], findings)
    return notes


def _resolve(style: Finding, rule: Style, findings: dict[str, Finding]) -> list[str]:
    runner = _runner(style, rule, findings)
    if runner == style.name:
        return []
    del findings[style.name]
    files = many(style.files, "file")
    if not runner:
        is_explained = any(f.has("used") and f.name in rule.kin for f in findings.values())
        return [] if is_explained else [f"{files} with {style.name}, and nothing says what runs them."]
    are_others = style.name == TEST_CASES
    findings.setdefault(runner, Finding(runner)).adopt(style, are_others)
    return [f"{files} of unittest.TestCase classes, which {runner} runs."] if are_others else []


def _runner(style: Finding, rule: Style, findings: dict[str, Finding]) -> str:
    """Who runs the tests of a style: by the word of others, or by default."""
    trusted = _trusted(style, rule, findings)
    if trusted and (trusted[0].has("used", "run") or not style.has("run")):
        return trusted[0].name
    kin = [findings[name] for name in rule.kin if name in findings]
    is_kins = not trusted and any(finding.files > style.files for finding in kin)
    return "" if is_kins else rule.default


def _trusted(style: Finding, rule: Style, findings: dict[str, Finding]) -> list[Finding]:
    """Those whose word suffices to run a style's tests: the nearest to them first, then the strongest."""
    named = [findings[name] for name in rule.runners if name in findings]
    trusted = [f for f in named if f.has(*rule.needs) or (f.has("used") and f.has("declared"))]
    tests = _unexplained(style, findings)
    return sorted(trusted, key=lambda f: (-_nearness(f, tests), BASES.index(f.own_basis)))


def _unexplained(style: Finding, findings: dict[str, Finding]) -> list[str]:
    """The tests of a style that say in no other way who runs them."""
    others = [finding for finding in findings.values() if finding is not style]
    explained = {place.file for finding in others for place in finding.places.get("used", ())}
    return [place.file for place in style.places["used"] if place.file not in explained]


def _nearness(finding: Finding, tests: list[str]) -> int:
    """How near to one of these tests, or above it, something speaks for a framework.

    One package of several may run its tests in its own way. -1 for nowhere above them.
    """
    files = [place.file for places in finding.places.values() for place in places]
    folders = {file.rpartition("/")[0] for file in files}
    above = [folder for folder in folders if _is_above(folder, tests)]
    return max((depth(f"{folder}/") if folder else 0 for folder in above), default=-1)


def _is_above(folder: str, files: list[str]) -> bool:
    return not folder or any(file.startswith(f"{folder}/") for file in files)
