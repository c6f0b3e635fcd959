"""How test code shows which framework it is written for: tables, one family of languages after the other.

A family is asked about if one of its languages is there. Its patterns are RE2, line by line; they are tried
on the files that its globs name, which is where tests live. What a table says is a suspicion; for Python it
is checked against syntax trees before it is believed.

A *style* is test code that several frameworks can run (`STYLES`): who runs it must be found out elsewhere.
"""

from typing import Final, NamedTuple

from callboard.demo.aside import words


class Sign(NamedTuple):
    """A pattern that speaks for a framework, a style or a helper."""

    name: str
    pattern: str
    why: str


class Family(NamedTuple):
    """Languages, the files in which they keep their tests, and what to look for in these."""

    language: str
    languages: tuple[str, ...]
    files: tuple[str, ...]
    signs: tuple[Sign, ...]


class Style(NamedTuple):
    """Who can run a style of tests.

    default: who does if nothing says more. needs: the kinds of evidence that another's word must be of.
    kin: frameworks whose own tests look like this style too, so that it proves nothing beside them.
    """

    language: str
    runners: tuple[str, ...]
    default: str
    needs: tuple[str, ...]
    kin: tuple[str, ...] = ()


PLAIN_TESTS: Final = "plain test functions"
TEST_CASES: Final = "unittest"
GLOBALS: Final = "describe/it/test globals"
SPEC_BLOCKS: Final = "describe blocks"

_ANY: Final = ("used", "configured", "run", "declared")

STYLES: Final = {
    PLAIN_TESTS: Style(
        "Python", ("pytest", "nose", "nose2"), "pytest", _ANY[1:], ("unittest", "Twisted Trial")
    ),
    TEST_CASES: Style(
        "Python", ("Twisted Trial", "pytest", "nose", "nose2"), "unittest", ("configured", "run")
    ),
    GLOBALS: Style(
        "JavaScript",
        ("jest", "vitest", "mocha", "jasmine", "cypress"),
        "",
        _ANY,
        (
            "tape",
            "tap",
            "ava",
            "uvu",
            "node:test",
            "bun test",
            "deno test",
            "playwright",
            "QUnit",
            "webdriverio",
        ),
    ),
    SPEC_BLOCKS: Style("Ruby", ("RSpec", "minitest"), "RSpec", _ANY),
}

HELPERS: Final = words(
    "hypothesis django.test chai sinon supertest testing-library fast-check testify gomega",
    "proptest quickcheck rstest mockito assertj hamcrest StreamData QuickCheck",
)
"""Libraries that help tests, but run none."""

SECOND: Final = words(
    "playwright cypress testcafe webdriverio nightwatch behave Cucumber Codeception doctest"
) | {"Robot Framework"}
"""Frameworks of the outermost tests: the answer only where there is no other with as good evidence."""

RUNNERS: Final = frozenset(("CTest", "Meson test", "Automake check"))
"""What runs test programs of any kind: the answer only where nothing says how these are written."""


def _imports(module: str) -> str:
    """An import of a JavaScript module, or of a file of it, outside of comments."""
    return rf"^[^*/\n]*\b(?:from|import|require)[ \t]*\(?[ \t]*['\"]{module}(?:/[^'\"]*)?['\"]"


_JS: Final = "{js,jsx,ts,tsx,mjs,cjs,mts,cts}"
_JVM: Final = "{java,kt,groovy,scala}"

FAMILIES: Final = (
    Family(
        "Python",
        ("Python",),
        ("test_*.py", "*_test.py"),
        (
            Sign(
                PLAIN_TESTS,
                r"^(?:async[ \t]+)?def[ \t]+test\w*[ \t]*\(",
                "a test function outside of any class",
            ),
            Sign(
                PLAIN_TESTS, r"^class[ \t]+Test\w*[ \t]*(?:\((?:object)?\))?:", "a test class without a base"
            ),
        ),
    ),
    Family(
        "Python",
        ("Python",),
        ("test_*.py", "*_{test,tests}.py", "{test,tests,conftest}.py", "**/{test,tests}/**/*.py"),
        (
            Sign("pytest", r"^[ \t]*(?:import|from)[ \t]+pytest\b", "imports pytest"),
            Sign(
                TEST_CASES,
                r"^class[ \t]+\w+[ \t]*\([^)\n]*TestCase\b",
                "a class of tests derived from TestCase",
            ),
            Sign(TEST_CASES, r"^[ \t]*import[ \t]+unittest[ \t]*(?:#.*)?$", "imports unittest"),
            Sign("nose", r"^[ \t]*(?:import|from)[ \t]+nose\b", "imports nose"),
            Sign("nose2", r"^[ \t]*(?:import|from)[ \t]+nose2\b", "imports nose2"),
            Sign("Twisted Trial", r"^[ \t]*from[ \t]+twisted\.trial\b", "imports twisted.trial"),
            Sign("ward", r"^from[ \t]+ward[ \t]+import\b", "imports ward"),
            Sign("hypothesis", r"^[ \t]*(?:import|from)[ \t]+hypothesis\b", "imports hypothesis"),
            Sign("django.test", r"^[ \t]*from[ \t]+django\.test\b", "imports django.test"),
        ),
    ),
    Family(
        "Python",
        ("Python",),
        ("*.py",),
        (
            Sign(
                "doctest",
                r"^[^#\n]*\bdoctest\.(?:testmod|testfile|DocTestSuite|DocFileSuite)\(",
                "runs doctests",
            ),
            Sign("behave", r"^[ \t]*from[ \t]+behave[ \t]+import\b", "imports behave"),
        ),
    ),
    Family(
        "JavaScript",
        ("JavaScript", "TypeScript"),
        (
            f"*.{{test,tests,spec,specs,cy,e2e,unit}}.{_JS}",
            f"**/{{__tests__,test,tests,spec,specs,e2e,cypress}}/**/*.{_JS}",
            f"{{test,tests,test-*,test_*,*-test,*_test,*-spec,*Test,*Spec}}.{_JS}",
        ),
        (
            Sign("vitest", _imports("vitest"), "imports vitest"),
            Sign("jest", _imports("@jest/globals"), "imports Jest's globals"),
            Sign(
                "jest",
                r"^[^*/\n]*\bjest\.(?:fn|mock|unmock|spyOn|use\w+|require\w+|set\w+|reset\w+|clear\w+)\(",
                "uses jest",
            ),
            Sign("node:test", _imports("(?:node:)?test"), "imports node:test"),
            Sign("mocha", _imports("mocha"), "imports mocha"),
            Sign(
                "playwright",
                _imports("@playwright/(?:experimental-ct-\\w+|test)"),
                "imports Playwright's test",
            ),
            Sign(
                "cypress",
                r"^[^*/\n]*\bcy\.(?:visit|get|request|intercept|contains|mount)\(",
                "drives Cypress",
            ),
            Sign("ava", _imports("ava"), "imports ava"),
            Sign("tape", _imports("tape"), "imports tape"),
            Sign("tap", _imports("(?:tap|@tapjs)"), "imports tap"),
            Sign("uvu", _imports("uvu"), "imports uvu"),
            Sign("jasmine", _imports("jasmine"), "imports jasmine"),
            Sign("QUnit", r"^[^*/\n]*\bQUnit\.(?:test|module)\(", "calls QUnit"),
            Sign("bun test", _imports("bun:test"), "imports bun:test"),
            Sign("deno test", r"^[^*/\n]*\bDeno\.test\(", "calls Deno.test"),
            Sign("testcafe", _imports("testcafe"), "imports testcafe"),
            Sign("webdriverio", _imports("@wdio/globals"), "imports WebdriverIO"),
            Sign(
                GLOBALS,
                r"^[ \t]*(?:describe|it|test|suite)(?:\.\w+)*\([ \t]*['\"`]",
                "calls describe, it or test",
            ),
            Sign("chai", _imports("chai"), "imports chai"),
            Sign("sinon", _imports("sinon"), "imports sinon"),
            Sign("supertest", _imports("supertest"), "imports supertest"),
            Sign("testing-library", _imports("@testing-library"), "imports Testing Library"),
            Sign("fast-check", _imports("fast-check"), "imports fast-check"),
        ),
    ),
    Family(
        "Go",
        ("Go",),
        ("*_test.go",),
        (
            Sign(
                "go test", r"^func[ \t]+(?:Test|Fuzz|Benchmark|Example)\w*\(", "a function that go test runs"
            ),
            Sign("Ginkgo", r"^[ \t]*(?:\.[ \t]+|\w+[ \t]+)?\"github\.com/onsi/ginkgo", "imports Ginkgo"),
            Sign("GoConvey", r"\"github\.com/smartystreets/goconvey", "imports GoConvey"),
            Sign("testify", r"\"github\.com/stretchr/testify", "imports testify"),
            Sign("gomega", r"\"github\.com/onsi/gomega", "imports Gomega"),
        ),
    ),
    Family(
        "Rust",
        ("Rust",),
        ("*.rs",),
        (
            Sign("cargo test", r"^[ \t]*#\[(?:\w+::)*test(?:\]|\()", "a function marked as a test"),
            Sign("rstest", r"^[ \t]*#\[rstest\b", "marked for rstest"),
            Sign("proptest", r"^[ \t]*proptest!", "states properties with proptest"),
            Sign("quickcheck", r"^[ \t]*(?:quickcheck!|#\[quickcheck)", "states properties with quickcheck"),
        ),
    ),
    Family(
        "Java",
        ("Java", "Kotlin", "Groovy", "Scala"),
        (
            f"**/{{test,tests,androidTest,integrationTest,it}}/**/*.{_JVM}",
            f"**/*{{Test,Tests}}/**/*.{_JVM}",
            f"{{*Test,*Tests,Test*,*IT,*Spec,*Suite}}.{_JVM}",
        ),
        (
            Sign(
                "JUnit",
                r"^[ \t]*import[ \t]+(?:static[ \t]+)?org\.junit\.(?:jupiter|platform)\b",
                "imports JUnit 5 or later",
            ),
            Sign(
                "JUnit",
                r"^[ \t]*import[ \t]+(?:static[ \t]+)?org\.junit\.(?:[A-Z]|runners?\b|rules\b|\*)",
                "imports JUnit 4",
            ),
            Sign("JUnit", r"^[ \t]*import[ \t]+junit\.framework\b", "imports JUnit 3"),
            Sign("TestNG", r"^[ \t]*import[ \t]+(?:static[ \t]+)?org\.testng\b", "imports TestNG"),
            Sign("Spock", r"^[ \t]*import[ \t]+spock\.lang\b", "imports Spock"),
            Sign("Kotest", r"^[ \t]*import[ \t]+io\.kotest\b", "imports Kotest"),
            Sign("kotlin.test", r"^[ \t]*import[ \t]+kotlin\.test\b", "imports kotlin.test"),
            Sign("ScalaTest", r"^[ \t]*import[ \t]+org\.scalatest", "imports ScalaTest"),
            Sign("MUnit", r"^[ \t]*import[ \t]+munit\b|extends[ \t]+(?:munit\.)?FunSuite\b", "uses MUnit"),
            Sign("specs2", r"^[ \t]*import[ \t]+org\.specs2\b", "imports specs2"),
            Sign("mockito", r"^[ \t]*import[ \t]+(?:static[ \t]+)?org\.mockito\b", "imports Mockito"),
            Sign("assertj", r"^[ \t]*import[ \t]+(?:static[ \t]+)?org\.assertj\b", "imports AssertJ"),
            Sign("hamcrest", r"^[ \t]*import[ \t]+(?:static[ \t]+)?org\.hamcrest\b", "imports Hamcrest"),
        ),
    ),
)
"""The families with the most programs; `testing_signs_more` has the others."""
