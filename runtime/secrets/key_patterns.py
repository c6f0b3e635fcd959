"""Patterns of keys that have a form of their own: a fixed start, and enough characters after it.

Words in capitals, passwords in addresses, 40 hexadecimal digits and values named `password` are not here: in
the source code and logs that agents read, those are rarely secrets, and a model that reads a changed file
makes mistakes. The patterns are those that issuers document, and those collected in
https://docs.github.com/en/code-security/secret-scanning/introduction/supported-secret-scanning-patterns.
"""

from typing import Final

KEY_PATTERNS: Final[dict[str, str]] = {
    "anthropic-key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "openai-key": (
        r"\bsk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20})"
    ),
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})",
    "gitlab-token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "aws-key-id": r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    "aws-secret-key": r"(?i:aws_?secret_?access_?key)[\"' \t]*[:=][\"' \t]*([A-Za-z0-9/+]{40})",
    "slack-token": r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{20,}",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows)/[A-Z0-9]+/[A-Z0-9]+/[A-Za-z0-9]{20,}",
    "stripe-key": r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{20,}",
    "google-key": r"\b(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,})",
    "huggingface-token": r"\bhf_[A-Za-z]{34}\b",
    "npm-token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi-token": r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "sendgrid-key": r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "digitalocean-token": r"\bdo[opr]_v1_[a-f0-9]{64}\b",
    "telegram-token": r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b",
    "azure-account-key": r"\bAccountKey=([A-Za-z0-9+/]{86}==)",
    "age-key": r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}\b",
    "json-web-token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "private-key": (
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\[nr])*[A-Za-z-]{1,40}: [^\n\\]{1,200})*"
        r"(?:[A-Za-z0-9+/=\s]|\\[nr]){60,}"
        r"(?:-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
    ),
}
"""Expressions of RE2 by name. If there is a group, only that part is the secret."""
