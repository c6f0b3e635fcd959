import random
import re
import string
import sysconfig
from pathlib import Path

import pytest

from callboard.runtime.secrets.refs import KEY_PATTERNS
from callboard.runtime.secrets.registry import Secrets
from tests.tables import table

ALNUM = string.ascii_letters + string.digits
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def made(length: int, letters: str = ALNUM, seed: int = 1) -> str:
    """Return characters of no real key, put together here so that no scanner reports this file."""
    return "".join(random.Random(seed).choices(letters, k=length))


KEYS: dict[str, list[tuple[str, str]]] = {
    "anthropic-key": [("sk-" + "ant-", made(40))],
    "openai-key": [("sk-" + "proj-", made(60)), ("sk-", made(20) + "T3Blbk" + "FJ" + made(20))],
    "github-token": [("ghp" + "_", made(36)), ("github_" + "pat_", made(22) + "_" + made(59))],
    "gitlab-token": [("glp" + "at-", made(20))],
    "aws-key-id": [("AK" + "IA", made(16, BASE32))],
    "aws-secret-key": [("aws_secret_access_key = ", made(40)), ('"aws_secret_access_key": "', made(40))],
    "slack-token": [("xo" + "xb-", made(12, string.digits) + "-" + made(24))],
    "slack-webhook": [
        ("https://hooks." + "slack.com/services/", f"T{made(8, BASE32)}/B{made(8, BASE32)}/{made(24)}")
    ],
    "stripe-key": [("sk_" + "live_", made(24)), ("wh" + "sec_", made(32))],
    "google-key": [("AI" + "za", made(35)), ("GOC" + "SPX-", made(28)), ("ya" + "29.", made(60))],
    "huggingface-token": [("h" + "f_", made(34, string.ascii_letters))],
    "npm-token": [("np" + "m_", made(36))],
    "pypi-token": [("py" + "pi-AgE", made(80))],
    "sendgrid-key": [("S" + "G.", made(22) + "." + made(43))],
    "digitalocean-token": [("do" + "p_v1_", made(64, "0123456789abcdef"))],
    "telegram-token": [("123456789:" + "AA", made(33))],
    "azure-account-key": [("AccountKey=", made(86) + "==")],
    "age-key": [("AGE-SECRET-" + "KEY-1", made(58, BASE32))],
    "json-web-token": [("ey" + "J", made(20) + ".eyJ" + made(40) + "." + made(43))],
    "private-key": [
        (
            "-----BEGIN " + "PRIVATE KEY-----\n",
            "\n".join([made(64), made(64, seed=2)]) + "\n-----END PRIVATE KEY-----",
        ),
        ("-----BEGIN RSA " + "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n", made(64) + "\n"),
    ],
}


@table("name", KEY_PATTERNS)
def test_a_key_of_a_known_pattern_is_taken_out_and_the_text_around_it_stays(name: str) -> None:
    redactor = Secrets().redactor
    for start, rest in KEYS[name]:
        text = redactor.text(f"before '{start}{rest}' after")
        assert f"[secret:{name}]" in text
        assert rest[:12] not in text
        assert rest[-12:].split("-----")[0] not in text or rest.endswith("-----")
        assert text.startswith("before '")
        assert text.endswith("' after")


@table(
    "text",
    [
        "sk-learn and scikit-learn, a risk-ant-farm, task-proj-x",
        "the commit 4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39",
        "uuid 550e8400-e29b-41d4-a716-446655440000",
        "AKIA is how access key ids begin; AKIAEXAMPLE too",
        "-----BEGIN PRIVATE KEY----- is the first line of such a file.",
        "-----BEGIN CERTIFICATE-----\n" + made(64) + "\n-----END CERTIFICATE-----",
        "eyJhbGciOiJIUzI1NiJ9 is a header",
        "password = os.environ['PASSWORD']; token: str; api_key=None",
        "hf_hub_download(repo_id='x'), npm_config_registry, ghp_short",
        "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Secrets().redactor.text(text) == text


@pytest.mark.slow
def test_nothing_in_the_standard_library_is_taken_for_a_key() -> None:
    redactor, found = Secrets().redactor, []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if redactor.finds(text):
            found.append(path.name)
    assert found == []


def test_patterns_begin_with_a_fixed_text_and_have_plain_names() -> None:
    for name in KEY_PATTERNS:
        assert re.fullmatch(r"[a-z0-9-]+", name)
