"""How a project says which testing framework it uses, other than by its tests: tables.

From the strongest word to the weakest: *configured* (a file or section that only this framework reads), *run*
(a command of a task runner or of CI), *declared* (a dependency) and *locked*, which says nothing about use:
lock files name what dependencies of dependencies need.
"""

from typing import Final

CONFIG_FILES: Final = {
    "{pytest,.pytest}.{ini,toml}": "pytest",
    "conftest.py": "pytest",
    "{nose2,unittest}.cfg": "nose2",
    ".stestr.conf": "unittest",
    "jest.config.*": "jest",
    "vitest.{config,workspace}.*": "vitest",
    ".mocharc*": "mocha",
    "jasmine.{json,mjs,js}": "jasmine",
    "karma.conf.*": "jasmine",
    "ava.config.*": "ava",
    ".taprc": "tap",
    "playwright{,-ct}.config.*": "playwright",
    "cypress.{config.*,json}": "cypress",
    "wdio.conf.*": "webdriverio",
    "nightwatch.conf*": "nightwatch",
    ".testcaferc*": "testcafe",
    ".rspec": "RSpec",
    "{phpunit.xml,phpunit.xml.dist,phpunit.dist.xml}": "PHPUnit",
    "Pest.php": "Pest",
    "codeception{,.dist}.yml": "Codeception",
    "behave.ini": "behave",
    "*.robot": "Robot Framework",
    "testng.xml": "TestNG",
    "xunit.runner.json": "xUnit.net",
    ".busted": "busted",
    ".shellspec": "ShellSpec",
    "testthat.R": "testthat",
}
"""Globs of files that only one framework reads. They are words of configuration, not tests."""

CONFIG_KEYS: Final = {
    ("pyproject.toml", "tool.pytest"): "pytest",
    ("setup.cfg", "tool:pytest"): "pytest",
    ("tox.ini", "pytest"): "pytest",
    ("setup.cfg", "nosetests"): "nose",
    ("pyproject.toml", "tool.ward"): "ward",
    ("pyproject.toml", "tool.behave"): "behave",
    ("pyproject.toml", "tool.robot"): "Robot Framework",
    ("package.json", "jest"): "jest",
    ("package.json", "mocha"): "mocha",
    ("package.json", "ava"): "ava",
    ("package.json", "vitest"): "vitest",
    ("package.json", "tap"): "tap",
}
"""(file, key or what is below it): framework."""

MANIFESTS: Final = {
    "pyproject.toml": (
        *("tool.pytest", "tool.ward", "tool.behave", "tool.robot", "tool.poe", "tool.taskipy", "tool.tox"),
        *("project.dependencies", "project.optional-dependencies", "dependency-groups"),
        *("tool.poetry", "tool.pdm", "tool.uv", "tool.hatch.envs", "tool.rye", "tool.pixi"),
    ),
    "setup.cfg": ("tool:pytest", "nosetests", "aliases", "options"),
    "setup.py": ("tests_require", "extras_require", "install_requires", "setup_requires", "test_suite"),
    "tox.ini": (),
    "Pipfile": ("packages", "dev-packages", "scripts"),
    "package.json": (
        *("jest", "mocha", "ava", "vitest", "tap", "scripts"),
        *("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"),
    ),
    "deno.json": ("tasks",),
    "composer.json": ("require", "require-dev", "scripts"),
}
"""Files that are read as settings, and the keys that matter in them (none named: all)."""

SCRIPT_KEYS: Final = (
    r"^(?:scripts|tasks)\.[^.]*(?:test|spec|e2e|unit|cov|ci|verify|check|tdd)"
    r"|^testenv[^.]*\.commands"
    r"|^aliases\.test$|^tool\.poe\.tasks\.|^tool\.taskipy\.tasks\.|^tool\.pdm\.scripts\.|^tool\.rye\.scripts\."
    r"|^tool\.hatch\.envs\.[^.]+\.scripts\.|^tool\.tox\.|^tool\.cibuildwheel\.|^tool\.pixi\..*tasks\."
)
"""Keys in manifests whose values are commands that may run tests."""

DEPENDENCY_KEYS: Final = (
    r"^project\.(?:optional-)?dependencies\.|^dependency-groups\.|^tool\.[\w.-]*dependencies\."
    r"|^tests_require\b|^extras_require\.|^install_requires\b"
    r"|^options\.(?:tests_require|install_requires|extras_require)\b|^testenv[^.]*\.deps"
    r"|^(?:dev-)?packages\.|^(?:dev|peer|optional)?[dD]ependencies\.|^require(?:-dev)?\."
)
"""Keys in manifests that declare dependencies, by their last name or by their value."""

COMMAND_FILES: Final = (
    "{Makefile,makefile,GNUmakefile,justfile,Justfile,noxfile.py,tasks.py,Rakefile,Jenkinsfile,Earthfile}",
    "Taskfile.{yml,yaml}",
    "**/.{github/workflows,circleci,buildkite,woodpecker,forgejo/workflows,gitea/workflows}/**/*.{yml,yaml}",
    "{.gitlab-ci,.travis,.appveyor,appveyor,azure-pipelines,.drone,bitbucket-pipelines,.cirrus}.{yml,yaml}",
    "{run,run_,run-}{test,tests}{,.sh,.bat}",
    "**/{ci,.ci,scripts,script,bin,tools}/*{,.sh}",
    "*.sh",
)
"""Files with commands in them."""

_WORD: Final = r"^[^#\n]*?(?:^|[\s\"'`=;&|(\[/])"
_END: Final = r"(?:$|[\s\"'`),;\]&|])"


def _command(words: str) -> str:
    return f"{_WORD}(?:{words}){_END}"


COMMANDS: Final = {
    "pytest": _command(r"pytest|py\.test"),
    "unittest": _command(r"-m[\s\"',]+unittest|manage\.py[\s\"',]+test|stestr[\s\"',]+run|-m[\s\"',]+test"),
    "nose": _command(r"nosetests"),
    "Twisted Trial": _command(r"-m[\s\"',]+twisted\.trial|trial[\s\"',]+[\w-]+"),
    "nose2": _command(r"nose2"),
    "doctest": _command(r"-m[\s\"',]+doctest"),
    "behave": _command(r"behave"),
    "jest": _command(r"jest|(?:react-scripts|craco|react-app-rewired)[ \t]+test"),
    "vitest": _command(r"vitest"),
    "mocha": _command(r"_?mocha"),
    "node:test": _command(r"node[ \t][^;&|\n]*--test"),
    "playwright": _command(r"playwright[ \t]+test"),
    "cypress": _command(r"cypress[ \t]+(?:run|open)"),
    "ava": _command(r"ava"),
    "tape": _command(r"tape"),
    "tap": _command(r"tap"),
    "uvu": _command(r"uvu"),
    "jasmine": _command(r"jasmine|karma[ \t]+start"),
    "QUnit": _command(r"qunit"),
    "bun test": _command(r"bun[ \t]+test"),
    "deno test": _command(r"deno[ \t]+test"),
    "go test": _command(r"go[ \t]+test|gotestsum"),
    "cargo test": _command(r"cargo[ \t]+(?:\+\w+[ \t]+)?(?:test|nextest[ \t]+run)"),
    "RSpec": _command(r"rspec"),
    "PHPUnit": _command(r"(?:simple-)?phpunit"),
    "Pest": _command(r"pest"),
    "CTest": _command(r"ctest"),
    "ExUnit": _command(r"mix[ \t]+test"),
    "bats": _command(r"bats"),
    "XCTest": _command(r"swift[ \t]+test"),
    "flutter_test": _command(r"flutter[ \t]+test"),
    "dart test": _command(r"dart[ \t]+test"),
    "busted": _command(r"busted"),
    "clojure.test": _command(r"lein[ \t]+test"),
    "zig test": _command(r"zig[ \t]+(?:build[ \t]+)?test"),
}
"""What the commands look like that run tests."""

NO_COMMAND: Final = (
    r"^\s*(?:#|//|;|\*|--|-?\s*(?:name|key|description|if|uses|restore-keys)\s*:|echo\b|@?echo\b|print)"
    r"|\b(?:install|add|require|upgrade|apt-get|brew|pip3?\s+download|which|command\s+-v)\b"
    r"|^\s*[\w-]*deps\s*=|\bbench\w*/|\bdocs/|\bexamples?/"
)
"""Lines that name a program without running it, or run it on something else than tests."""

PACKAGES: Final = {
    "Python": {
        "pytest": "pytest",
        "nose": "nose",
        "nose2": "nose2",
        "ward": "ward",
        "behave": "behave",
        "robotframework": "Robot Framework",
    },
    "JavaScript": {
        "jest": "jest",
        "ts-jest": "jest",
        "vitest": "vitest",
        "mocha": "mocha",
        "jasmine": "jasmine",
        "jasmine-core": "jasmine",
        "ava": "ava",
        "tape": "tape",
        "tap": "tap",
        "uvu": "uvu",
        "qunit": "QUnit",
        "@playwright/test": "playwright",
        "cypress": "cypress",
    },
    "PHP": {"phpunit/phpunit": "PHPUnit", "pestphp/pest": "Pest"},
    "Ruby": {"rspec": "RSpec", "rspec-rails": "RSpec", "minitest": "minitest", "test-unit": "test-unit"},
}
"""The names under which frameworks are declared and locked: package, framework."""

MANIFEST_LANGUAGES: Final = {"package.json": "JavaScript", "deno.json": "JavaScript", "composer.json": "PHP"}
"""Whose packages a manifest declares, where it is not Python's."""

DECLARING_FILES: Final = (
    "*requirements*.{txt,in}",
    "**/requirements/*.{txt,in}",
    "{test,tests,dev}.txt",
    "environment*.{yml,yaml}",
    "{Gemfile,*.gemspec}",
    "{pom.xml,build.gradle,build.gradle.kts,*.csproj,*.fsproj,build.sbt,conanfile.*,vcpkg.json}",
)
"""Manifests that are searched line by line."""

DECLARED_LINES: Final = {
    "pytest": r"^[ \t]*(?:-[ \t]*)?[\"']?pytest(?:-[\w-]+)?[ \t]*(?:\[.*\])?(?:[<>=!~;#@\\]|[\"']?[ \t]*$)",
    "nose": r"^[ \t]*(?:-[ \t]*)?[\"']?nose[ \t]*(?:[<>=!~;#@\\]|[\"']?[ \t]*$)",
    "RSpec": r"^[ \t]*(?:gem|\w+\.add_\w*dependency)[ \t(]+[\"']rspec(?:-rails)?[\"']",
    "minitest": r"^[ \t]*(?:gem|\w+\.add_\w*dependency)[ \t(]+[\"']minitest[\"']",
    "test-unit": r"^[ \t]*(?:gem|\w+\.add_\w*dependency)[ \t(]+[\"']test-unit[\"']",
    "JUnit": r"<artifactId>junit(?:-jupiter[\w-]*)?</artifactId>|^[ \t]*test\w+[ \t(]+.*\bjunit\b",
    "TestNG": r"<artifactId>testng</artifactId>|^[ \t]*test\w+[ \t(]+.*\btestng\b",
    "Spock": r"<artifactId>spock-core</artifactId>|^[ \t]*test\w+[ \t(]+.*\bspock-core\b",
    "ScalaTest": r"\"scalatest\"[ \t]*%",
    "xUnit.net": r"Include=\"xunit(?:\.v3)?\"",
    "NUnit": r"Include=\"NUnit\"",
    "MSTest": r"Include=\"MSTest(?:\.TestFramework)?\"",
    "GoogleTest": r"^[ \t]*(?:self\.)?(?:test_)?requires?\(?.*\bgtest/",
    "Catch2": r"\bcatch2/\d",
}

LOCK_FILES: Final = (
    "{poetry,uv,pdm,Pipfile,pylock,pixi}.{lock,toml}",
    "{Pipfile,yarn,Gemfile,composer,bun}.lock",
    "{package-lock,npm-shrinkwrap}.json",
    "pnpm-lock.yaml",
)


def lock_line(package: str) -> str:
    """How a lock file of any kind begins the entry of a package."""
    name = package.replace(".", r"\.")
    return (
        rf"^[ \t]*(?:\"?name\"?[ \t]*[=:][ \t]*)?[\"']?/?(?:node_modules/)?{name}"
        rf"(?:[\"']?[ \t]*:|@[\w^~*.:<>= -]+|[\"'],?$|[ \t]+\()"
    )
