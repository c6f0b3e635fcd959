"""How test code shows its framework, continued: the other families of languages."""

from typing import Final

from callboard.demo.testing_signs import SPEC_BLOCKS, Family, Sign

_C: Final = "{c,cc,cpp,cxx,h,hpp,hh,hxx,m,mm,ino}"


def _includes(header: str) -> str:
    return rf"^[ \t]*#[ \t]*(?:include|import)[ \t]*[<\"](?:[^>\"\n]*/)?{header}"


MORE_FAMILIES: Final = (
    Family(
        "C++",
        ("C", "C++"),
        (f"*.{_C}",),
        (
            Sign("GoogleTest", _includes(r"g(?:test|mock)/"), "includes GoogleTest"),
            Sign("Catch2", _includes(r"(?:catch2/|catch(?:_amalgamated)?\.hpp[>\"])"), "includes Catch2"),
            Sign("doctest (C++)", _includes(r"doctest\.h[>\"]"), "includes doctest"),
            Sign("Boost.Test", _includes(r"boost/test/"), "includes Boost.Test"),
            Sign("CppUTest", _includes(r"CppUTest/"), "includes CppUTest"),
            Sign("Unity", _includes(r"unity(?:_fixture)?\.h[>\"]"), "includes Unity"),
            Sign("Check", _includes(r"check\.h>"), "includes Check"),
            Sign("cmocka", _includes(r"cmocka\.h[>\"]"), "includes cmocka"),
            Sign("Criterion", _includes(r"criterion/criterion\.h"), "includes Criterion"),
            Sign("CUnit", _includes(r"CUnit/"), "includes CUnit"),
            Sign("Qt Test", _includes(r"(?:QtTest|QTest|QSignalSpy)[>\"/]"), "includes Qt Test"),
        ),
    ),
    Family(
        "C++",
        ("C", "C++", "CMake"),
        ("CMakeLists.txt", "*.cmake", "meson.build", "Makefile.am"),
        (
            Sign("CTest", r"^[ \t]*(?:add_test|\w+_discover_tests)[ \t]*\(", "registers a test with CTest"),
            Sign("Meson test", r"^[ \t]*test[ \t]*\([ \t]*'", "registers a test with Meson"),
            Sign(
                "Automake check", r"^[ \t]*(?:TESTS|check_PROGRAMS)[ \t]*\+?=", "lists tests for make check"
            ),
        ),
    ),
    Family(
        "C#",
        ("C#", "F#", "Visual Basic"),
        ("*.{cs,fs,vb}",),
        (
            Sign("xUnit.net", r"^[ \t]*(?:global[ \t]+)?(?:using|open|Imports)[ \t]+Xunit\b", "uses Xunit"),
            Sign("xUnit.net", r"^[ \t]*\[(?:Fact|Theory)[\](]", "a method marked as Fact or Theory"),
            Sign("NUnit", r"^[ \t]*(?:global[ \t]+)?(?:using|open|Imports)[ \t]+NUnit\b", "uses NUnit"),
            Sign("NUnit", r"^[ \t]*\[(?:TestFixture|TestCase)[\](]", "marked for NUnit"),
            Sign(
                "MSTest",
                r"^[ \t]*(?:global[ \t]+)?(?:using|open|Imports)[ \t]+Microsoft\.VisualStudio\.TestTools\b",
                "uses MSTest",
            ),
            Sign("MSTest", r"^[ \t]*\[(?:TestMethod|TestClass)[\](]", "marked for MSTest"),
            Sign("TUnit", r"^[ \t]*(?:global[ \t]+)?using[ \t]+TUnit\b", "uses TUnit"),
        ),
    ),
    Family(
        "Ruby",
        ("Ruby",),
        ("*_{spec,test}.rb", "test_*.rb", "{spec,rails,test}_helper.rb", "**/{spec,test}/**/*.rb"),
        (
            Sign("RSpec", r"^[ \t]*RSpec\.|^[ \t]*require[ \t(]+['\"]rspec", "uses RSpec"),
            Sign("minitest", r"^[ \t]*require[ \t(]+['\"]minitest", "requires minitest"),
            Sign(
                "minitest",
                r"<[ \t]*(?:::)?(?:Mini[Tt]est::|Acti\w+::(?:TestCase|IntegrationTest|SystemTestCase)\b)",
                "a class of tests that minitest runs",
            ),
            Sign(
                "test-unit",
                r"<[ \t]*Test::Unit::TestCase|^[ \t]*require[ \t(]+['\"]test/unit",
                "uses Test::Unit",
            ),
            Sign("Cucumber", r"^[ \t]*(?:Given|When|Then)[ \t(]+[/'\"]", "a step for Cucumber"),
            Sign(SPEC_BLOCKS, r"^[ \t]*describe[ \t(]+.*\bdo[ \t]*$", "a describe block"),
        ),
    ),
    Family(
        "PHP",
        ("PHP",),
        ("*Test.php", "*Cest.php", "*Spec.php", "**/{test,tests,Test,Tests,spec}/**/*.php"),
        (
            Sign("PHPUnit", r"^[ \t]*use[ \t]+PHPUnit\\", "uses PHPUnit"),
            Sign(
                "PHPUnit",
                r"^[^*/\n]*\bextends[ \t]+\\?(?:\w+\\)*(?:PHPUnit_Framework_)?\w*TestCase\b",
                "extends a TestCase",
            ),
            Sign("Pest", r"^(?:it|test|describe|arch)\([ \t]*['\"]", "a test in the manner of Pest"),
            Sign("Codeception", r"^[^*/\n]*\bCodeception\\", "uses Codeception"),
            Sign("phpspec", r"\bextends[ \t]+\\?(?:\w+\\)*ObjectBehavior\b", "extends ObjectBehavior"),
        ),
    ),
    Family(
        "Elixir",
        ("Elixir",),
        ("*_test.exs", "**/test/**/*.{ex,exs}"),
        (
            Sign("ExUnit", r"^[ \t]*(?:use[ \t]+ExUnit\.Case|ExUnit\.start)", "uses ExUnit"),
            Sign(
                "ExUnit",
                r"^[ \t]*use[ \t]+\w+(?:\.\w+)*\.(?:Data|Conn|Channel)Case\b",
                "uses a case of Phoenix",
            ),
            Sign("StreamData", r"^[ \t]*use[ \t]+ExUnitProperties\b", "uses ExUnitProperties"),
        ),
    ),
    Family(
        "Erlang",
        ("Erlang",),
        ("*.erl",),
        (
            Sign("EUnit", r"eunit/include/eunit\.hrl", "includes EUnit"),
            Sign("Common Test", r"common_test/include/ct\.hrl", "includes Common Test"),
        ),
    ),
    Family(
        "Shell",
        ("Shell",),
        ("*.{bats,sh,bash}",),
        (
            Sign("bats", r"^[ \t]*@test[ \t]+[\"']", "a test for bats"),
            Sign("shUnit2", r"^[ \t]*(?:\.|source)[ \t]+.*\bshunit2\b", "sources shunit2"),
            Sign("ShellSpec", r"^[ \t]*Describe[ \t]+['\"]", "a block of ShellSpec"),
        ),
    ),
    Family(
        "Swift",
        ("Swift",),
        ("*.swift",),
        (
            Sign("XCTest", r"^[ \t]*(?:@testable[ \t]+)?import[ \t]+XCTest\b", "imports XCTest"),
            Sign("Swift Testing", r"^[ \t]*import[ \t]+Testing\b", "imports Testing"),
        ),
    ),
    Family(
        "Dart",
        ("Dart",),
        ("*_test.dart", "**/{test,integration_test}/**/*.dart"),
        (
            Sign("flutter_test", r"^[ \t]*import[ \t]+['\"]package:flutter_test/", "imports flutter_test"),
            Sign("dart test", r"^[ \t]*import[ \t]+['\"]package:test/", "imports package:test"),
        ),
    ),
    Family(
        "Haskell",
        ("Haskell",),
        ("*.hs",),
        (
            Sign("Hspec", r"^import[ \t]+(?:qualified[ \t]+)?Test\.Hspec\b", "imports Hspec"),
            Sign("Tasty", r"^import[ \t]+(?:qualified[ \t]+)?Test\.Tasty\b", "imports Tasty"),
            Sign("HUnit", r"^import[ \t]+(?:qualified[ \t]+)?Test\.HUnit\b", "imports HUnit"),
            Sign("QuickCheck", r"^import[ \t]+(?:qualified[ \t]+)?Test\.QuickCheck\b", "imports QuickCheck"),
        ),
    ),
    Family(
        "Perl",
        ("Perl",),
        ("*.{t,pl,pm}",),
        (
            Sign(
                "Test::More",
                r"^[ \t]*use[ \t]+(?:Test::(?:More|Simple|Most|Class)|Test2::)",
                "uses Test::More or kin",
            ),
        ),
    ),
    Family(
        "Lua",
        ("Lua",),
        ("*_spec.lua", "**/{spec,test,tests}/**/*.lua"),
        (
            Sign("busted", r"^[ \t]*describe[ \t]*\(", "a describe block of busted"),
            Sign("LuaUnit", r"require[ \t(]+['\"]luaunit", "requires luaunit"),
        ),
    ),
    Family(
        "other",
        ("Julia", "R", "Clojure", "Zig", "Nim", "OCaml", "PowerShell"),
        ("*.{jl,R,r,clj,cljs,cljc,zig,nim,ml,ps1}",),
        (
            Sign("Julia Test", r"^[ \t]*using[ \t]+(?:\w+,[ \t]*)*Test\b", "uses Test"),
            Sign(
                "testthat", r"^[ \t]*(?:testthat::)?test_that\(|^[ \t]*library\(testthat\)", "uses testthat"
            ),
            Sign("clojure.test", r"\bclojure\.test\b|^\(deftest\b", "uses clojure.test"),
            Sign("zig test", r"^[ \t]*test[ \t]+(?:\"|\{)", "a test block"),
            Sign("Nim unittest", r"^[ \t]*import[ \t]+.*\bunittest2?\b", "imports unittest"),
            Sign("Alcotest", r"\bAlcotest\.", "uses Alcotest"),
            Sign("OUnit", r"^[ \t]*open[ \t]+OUnit", "opens OUnit"),
            Sign("Pester", r"^[ \t]*Describe[ \t]+['\"]", "a block of Pester"),
        ),
    ),
)
