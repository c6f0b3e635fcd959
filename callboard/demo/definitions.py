"""What a source file defines for others to use, in languages other than Python: by its lines."""

import re
from typing import Final

DEFINITIONS: Final = {
    "JavaScript": r"^export[ \t]+(?:default[ \t]+|async[ \t]+)*(?:function\*?|class|const|let)[ \t]+(\w+)",
    "TypeScript": (
        r"^export[ \t]+(?:default[ \t]+)?(?:abstract[ \t]+|async[ \t]+|declare[ \t]+)*"
        r"(?:function\*?|class|const|interface|type|enum)[ \t]+(\w+)"
    ),
    "Go": r"^(?:func|type)[ \t]+([A-Z]\w*)",
    "Rust": r"^pub[ \t]+(?:async[ \t]+|unsafe[ \t]+|const[ \t]+)*(?:fn|struct|enum|trait|type)[ \t]+(\w+)",
    "Java": r"^public[ \t]+(?:\w+[ \t]+)*?(?:class|interface|enum|record)[ \t]+(\w+)",
    "Kotlin": r"^(?:(?:data|sealed|open|abstract|enum)[ \t]+)*(?:class|interface|object|fun)[ \t]+(\w+)",
    "Scala": r"^(?:(?:final|sealed|abstract|case)[ \t]+)*(?:class|object|trait)[ \t]+(\w+)",
    "C": r"^(?:typedef[ \t]+)?(?:struct|enum|union)[ \t]+(\w+)|^[a-z][\w \t*]*[ \t*](\w+)[ \t]*\([^;]*$",
    "C++": r"^(?:class|struct|enum class|enum)[ \t]+(\w+)|^[a-z][\w:<> \t*&]*[ \t*&](\w+)[ \t]*\([^;]*$",
    "C#": r"^[ \t]*public[ \t]+(?:\w+[ \t]+)*?(?:class|interface|enum|record|struct)[ \t]+(\w+)",
    "Ruby": r"^[ \t]*(?:class|module)[ \t]+([A-Z]\w*)",
    "PHP": r"^(?:(?:final|abstract|readonly)[ \t]+)*(?:class|interface|trait|enum|function)[ \t]+(\w+)",
    "Elixir": r"^defmodule[ \t]+([\w.]+)",
    "Swift": r"^(?:public[ \t]+|final[ \t]+|open[ \t]+)*(?:class|struct|enum|protocol|actor|func)[ \t]+(\w+)",
    "Dart": r"^(?:abstract[ \t]+)?(?:class|enum|mixin|extension)[ \t]+(\w+)",
    "Haskell": r"^(?:data|newtype|class|type)[ \t]+([A-Z]\w*)",
    "Shell": r"^(?:function[ \t]+)?([\w-]+)[ \t]*\(\)[ \t]*\{?",
    "Lua": r"^(?:local[ \t]+)?function[ \t]+([\w.:]+)",
    "Perl": r"^(?:sub|package)[ \t]+([\w:]+)",
    "Julia": r"^(?:function|struct|mutable struct|module)[ \t]+(\w+)",
    "Zig": r"^pub[ \t]+(?:fn|const)[ \t]+(\w+)",
    "SQL": r"(?i)^create[ \t]+(?:table|view|function|procedure)[ \t]+(?:if not exists[ \t]+)?([\w.]+)",
}
"""RE2 patterns by language, line by line; the first group that matches is the name."""


def defined_name(language: str, line: str) -> str:
    """The name that a line defines, or nothing."""
    match = re.search(DEFINITIONS[language], line)
    return next(filter(None, match.groups()), "") if match else ""
