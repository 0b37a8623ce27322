"""Redaction: every kind, its lookalikes, marks that stay, and texts that are made to be slow.

All secrets here are made up and put together at run time, so that no scanner takes them for real ones.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.errors import BadUsage
from ethogram.store.detectors import PERSONAL_KINDS, SECRET_KINDS
from ethogram.store.redact import (
    FIELDS,
    KINDS,
    NOTHING,
    SECRETS,
    FoundSecret,
    Policy,
    Redacted,
    Redactor,
    policy_from,
)

KEY = b"a key for tests"
REDACTOR = Redactor(KEY)
MARK = re.compile(r"\[REDACTED:[a-z0-9-]+:[0-9a-f]{8}\]")
BODY = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYzA2cD4eF6gH8jK0lM3nP5qR7sT9uV1wX" * 3
HEX = "3f9a0c7be15d2468" * 5
LETTERS = "aBdEfGhJkLmNpQrStUvWxYzAcDeFgHjKlMnP"
PEM = (
    "-----BEGIN RSA " + "PRIVATE KEY-----\n" + BODY[:64] + "\n" + BODY[64:90] + "==\n-----END RSA " + "PRIVATE KEY-----"
)
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0." + BODY[:43]


def only(text: str) -> tuple[str, str]:
    """The kind and the secret of the single finding in a text."""
    findings = REDACTOR.find(text)
    assert len(findings) == 1, (text, findings)
    return findings[0].kind, text[findings[0].start : findings[0].end]


TOKENS = [
    ("anthropic-key", "sk-" + "ant-api03-" + BODY[:93]),
    ("openai-key", "sk-" + BODY[:48]),
    ("openai-key", "sk-" + "proj-" + BODY[:40] + "_-" + BODY[:40]),
    ("openai-key", "sk-" + BODY[:20] + "T3Blbk" + "FJ" + BODY[:20]),
    ("openrouter-key", "sk-" + "or-v1-" + HEX[:64]),
    ("langfuse-key", "sk-" + "lf-3f9a0c7b-e15d-4468-a3f9-a0c7be15d246"),
    ("langfuse-key", "pk-" + "lf-3f9a0c7b-e15d-4468-a3f9-a0c7be15d246"),
    ("google-key", "AI" + "za" + BODY[:35]),
    ("google-key", "GOC" + "SPX-" + BODY[:28]),
    ("google-key", "ya" + "29." + BODY[:60]),
    ("google-key", "1/" + "/0" + BODY[:40]),
    ("aws-key-id", "AK" + "IA" + "QWERTYUIOPASDF42"),
    ("aws-key-id", "AS" + "IA" + "QWERTYUIOPASDF42"),
    ("azure-key", "abC8" + "Q~" + BODY[:34]),
    ("azure-key", BODY[:52] + "JQQ" + "J99" + BODY[:26]),
    ("github-token", "gh" + "p_" + BODY[:36]),
    ("github-token", "gh" + "o_" + BODY[:36]),
    ("github-token", "gh" + "u_" + BODY[:36]),
    ("github-token", "gh" + "s_" + BODY[:36]),
    ("github-token", "gh" + "r_" + BODY[:76]),
    ("github-token", "github" + "_pat_" + BODY[:22] + "_" + BODY[:59]),
    ("gitlab-token", "gl" + "pat-" + BODY[:20]),
    ("slack-token", "xo" + "xb-123456789012-123456789012-" + BODY[:24]),
    ("slack-token", "xap" + "p-1-A0123456789-1234567890123-" + HEX[:64]),
    ("stripe-key", "sk" + "_live_" + BODY[:24]),
    ("stripe-key", "rk" + "_test_" + BODY[:24]),
    ("stripe-key", "wh" + "sec_" + BODY[:32]),
    ("huggingface-token", "h" + "f_" + LETTERS[:34]),
    ("langsmith-key", "ls" + "v2_pt_" + HEX[:32] + "_" + HEX[:10]),
    ("ethogram-token", "ethogram" + "_" + HEX[:12] + "_" + BODY[:43]),
    ("groq-key", "gs" + "k_" + BODY[:52]),
    ("xai-key", "xa" + "i-" + BODY[:80]),
    ("replicate-token", "r" + "8_" + BODY[:37]),
    ("perplexity-key", "pp" + "lx-" + BODY[:48]),
    ("npm-token", "np" + "m_" + BODY[:36]),
    ("pypi-token", "py" + "pi-AgEIcHlwaS5vcmc" + BODY[:90]),
    ("sendgrid-key", "S" + "G." + BODY[:22] + "." + BODY[:43]),
    ("twilio-key", "S" + "K" + HEX[:32]),
    ("twilio-key", "A" + "C" + HEX[:32]),
    ("telegram-token", "123456789:" + "A" + "A" + BODY[:33]),
    ("discord-token", "MTIzNDU2Nzg5MDEyMzQ1Njc4" + ".GhIjKl." + BODY[:27]),
    ("digitalocean-token", "do" + "p_v1_" + HEX[:64]),
    ("databricks-token", "da" + "pi" + HEX[:32]),
    ("shopify-token", "sh" + "pat_" + HEX[:32]),
    ("mailgun-key", "ke" + "y-" + HEX[:32]),
    ("mailchimp-key", HEX[:32] + "-" + "us12"),
    ("newrelic-key", "NR" + "AK-" + "Q7ERTY8IOPA2DFGH4KLZX9V1234"),
    ("linear-key", "lin" + "_api_" + BODY[:40]),
    ("notion-key", "nt" + "n_" + "12345678901" + BODY[:35]),
    ("notion-key", "sec" + "ret_" + BODY[:43]),
    ("supabase-key", "sb" + "p_" + HEX[:40]),
    ("vercel-token", "vc" + "p_" + BODY[:56]),
    ("service-token", "nv" + "api-" + BODY[:64]),
    ("service-token", "hv" + "s." + BODY[:90]),
    ("jwt", JWT),
    ("private-key", PEM),
]
AROUND = [
    "{}",
    "x {} y",
    '"{}"',
    '\\"{}\\"',
    "/tmp/{}/x",
    "(%s)".replace("%s", "{}"),
    "a={}&b",
    "\\n{}\\n",
    "%20{}%20",
    "{},",
]


@pytest.mark.parametrize(("kind", "secret"), TOKENS, ids=[f"{k}-{i}" for i, (k, _) in enumerate(TOKENS)])
def test_a_token_is_found_whatever_stands_around_it(kind: str, secret: str) -> None:
    for around in AROUND:
        text = around.format(secret)
        found, value = only(text)
        assert found == kind
        assert value == secret or (around.startswith("%") and value.endswith(secret))  # a digit too many does no harm


ASSIGNED = [
    ("password", 'password="{}"', "Tr0ub4dor&3"),
    ("password", "DB_PASSWORD={}", "hunter2"),
    ("password", "password={}", "Tr0ub4dor&3"),
    ("password", "password={} next", "a&b1cd&9f"),
    ("password", "https://shop.example.com/login?password={}&user=bob", "Tr0ub4dor3"),
    ("password", "user=bob&password={}&amp;page=2", "Tr0ub4dor3"),
    ("password", "PASSWORD={}&& make", "Tr0ub4dor3"),
    ("password", "--password {}", "s3cr3tPw"),
    ("password", '{{"name": "DB_PASSWORD", "value": "{}"}}', "s3cr3tPw!"),
    ("password", "machine h login joe password {}", "s3cr3tPw"),
    ("password", "the password is {}.", "Blue-Horse42"),
    ("password", 'self.password: str = "{}"', "s3cr3tPw"),
    ("password", "<password>{}</password>", "s3cr3tPw"),
    ("api-key", '"api_key": "{}"', BODY[:32]),
    ("api-key", '\\"apiKey\\": \\"{}\\"', BODY[:32]),
    ("api-key", "x-api-key: {}", BODY[:32]),
    ("api-key", "'api-key': '{}'", HEX[:32]),
    ("secret", "client_secret={}", BODY[:40]),
    ("secret", 'settings["SECRET_KEY"] = "{}"', BODY[:40]),
    ("token", "https://h.example.com/cb?access_token={}&state=1", BODY[:30]),
    ("token", "refresh_token: {}", "3f9a0c7b-e15d-4468-a3f9-a0c7be15d246"),
    ("token", "token\\u003d{}", BODY[:30]),
    ("aws-secret-key", "AWS_SECRET_ACCESS_KEY={}", "/" + BODY[:38] + "+"),
    ("aws-secret-key", '"SecretAccessKey": "{}"', BODY[:40]),
    ("azure-key", "Account" + "Name=x;Account" + "Key={};EndpointSuffix=y", BODY[:86] + "=="),
    ("azure-key", "https://x.blob.core.windows.net/c?sv=2022&sig={}&se=1", BODY[:43] + "%3D"),
    ("cohere-key", "COHERE_API_KEY={}", BODY[:40]),
    ("mistral-key", "export MISTRAL_API_KEY='{}'", BODY[:32]),
    ("authorization", "Authorization: Bearer {}", "abcDEF123456"),
    ("authorization", "authorization: Basic {}", "dXNlcjpwYXNzd29yZA=="),
    ("authorization", "'Authorization': 'Token {}'", HEX[:40]),
    ("authorization", "[(b'authorization', b'Bearer {}')]", BODY[:30]),
    ("authorization", 'curl -H \\"Authorization: Bearer {}\\" https://h', BODY[:30]),
    ("cookie", "Cookie: {}\r\nHost: h", "sid=" + BODY[:20] + "; theme=dark"),
    ("cookie", "{{'cookie': '{}'}}", "sid=" + BODY[:20]),
    ("cookie", "Set-Cookie: sid={}; Path=/; HttpOnly", BODY[:20]),
    ("url-password", "postgres://joe:{}@db.example.com:5432/x", "p%40ss"),
    ("url-password", "redis://:{}@cache:6379", "hunter2"),
    ("url-password", "next=https%3A%2F%2Fjoe%3A{}%40example.com", "pw123"),
    ("slack-webhook", "https://hooks.slack.com/services/{}", "T0AAAAAAA/B0BBBBBBB/" + BODY[:24]),
    ("discord-webhook", "https://discord.com/api/webhooks/123456789012345678/{}", BODY[:68]),
    ("bank-account", "account number: {}", "000123456789"),
    ("bank-account", '"accountNumber": "{}"', "12345678"),
    ("bank-routing", "routing number {}", "021000021"),
    ("us-ssn", '"ssn": "{}"', "123456789"),
    ("phone", '"phone": "{}"', "4155552671"),
    ("phone", "mobile number is {}", "13812345678"),
]


@pytest.mark.parametrize(("kind", "around", "secret"), ASSIGNED)
def test_a_value_is_found_by_its_name_and_the_rest_is_kept(kind: str, around: str, secret: str) -> None:
    assert only(around.format(secret)) == (kind, secret)


def test_an_aws_pair_loses_both_halves() -> None:
    key_id, secret = "AK" + "IA" + "QWERTYUIOPASDF42", BODY[:40]
    assert [f.kind for f in REDACTOR.find(f"{key_id},{secret}\n")] == ["aws-key-id", "aws-secret-key"]


PERSONAL = [
    ("email", "ana.b+c@mail.example.co.uk"),
    ("email", "joe%40example.org"),
    ("phone", "+14155552671"),
    ("phone", "+1 (415) 555-2671"),
    ("phone", "(415) 555-2671"),
    ("phone", "415-555-2671"),
    ("phone", "415.555.2671"),
    ("phone", "1-800-555-2671"),
    ("phone", "+44 20 7946 0958"),
    ("phone", "020 7946 0958"),
    ("phone", "+49 (0)171 1234567"),
    ("phone", "0171/1234567"),
    ("phone", "06 12 34 56 78"),
    ("phone", "03-1234-5678"),
    ("phone", "415\u2011555\u20112671"),
    ("card-number", "4111 1111 1111 1111"),
    ("card-number", "5555-5555-5555-4444"),
    ("card-number", "378282246310005"),
    ("card-number", "3782 822463 10005"),
    ("card-number", "6011000990139424"),
    ("card-number", "4222222222222"),
    ("iban", "DE89370400440532013000"),
    ("iban", "GB29 NWBK 6016 1331 9268 19"),
    ("iban", "NO9386011117947"),
    ("iban", "KZ86 125K ZT50 0410 0100"),
    ("us-ssn", "123-45-6789"),
]


@pytest.mark.parametrize(("kind", "secret"), PERSONAL)
def test_personal_data_is_found(kind: str, secret: str) -> None:
    for around in ("{}", "it is {} now", '"{}"', "<{}>", "\\n{}\\n", "({}).", "x: {}, y"):
        assert only(around.format(secret)) == (kind, secret)


NEGATIVES = [
    "550e8400-e29b-41d4-a716-446655440000 trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "2024-01-15T10:30:00.123456+00:00 and 2024-01-15 10:30:00 and 01/02/2024 10:30",
    '{"start_ns": 1718000000123456789, "at": 1718000000, "ms": 1718000000123}',
    "v1.22.333-beta.4, python 3.11.7, lodash@4.17.21, actions/checkout@v4.1.7",
    "ORD-2024-000123 112-5551234-1234567 #415-555-2671 REF-415-555-2671 /orders/415-555-2671",
    "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAA" * 20,
    "$1,234.56 and 99.90 EUR and 0.4111111111111111 and 1.2e+10",
    "(37.774900, -122.419400) 10.0.0.1:8080 192.168.100.200 fe80::1ff:fe23:4567:890a",
    "user@localhost root@ip-10-0-0-12:~# git@github.com:org/repo.git icon@2x.png x@W.T me@box.local",
    "ssh://git@host.example.com/repo https://joe@host.example.com/x",
    '"max_tokens": 4096, "total_tokens": 1234567, "token_type": "bearer", "token": "hello"',
    "def login(password: Optional[str] = None, token: str = '', api_key=settings.api_key2): ...",
    'password=os.environ["DB_PASSWORD"] token=get_token2(x) secret=${SECRET1} key=<your key>',
    '"api_key": "YOUR_API_KEY_HERE", password: ********, "secret": "{{ vault }}", $password = $input1;',
    "PWD=/home/joe/work1 OLDPWD=/srv/app2",
    "secret_name: my-app-secret-2, arn:aws:secretsmanager:eu:123456789012:secret:prod/db-a1b2c3",
    '"next_token": "' + BODY[:40] + '"',
    "sk-container-id-1 task-64b7f0c2e4b0a1a2b3c4d5e6 hf_hub_download_with_progress_bar cache-key-" + HEX[:32],
    "4111 1111 1111 1112 and 1234567890123456 and 4006381333931",
    "DE89370400440532013001 SHA2563704004405320130",
    "000-12-3456 666-12-3456 987-65-4321",
    "routing number 021000022, account id 123456789012",
    "call toolu_01A09q90qw90lq917835lq9 req_011CSHoEeqs5C35K2UUqR7Fy chatcmpl-9aB3dE5fG7hJ9kL1mN2p",
    "eyJhbGciOiJIUzI1NiJ9 eyJub3RhbGciOjF9.eyJzdWIiOiIxIn0.abcdefgh",
    "http://localhost:8080/a@b https://user:${PASS}@host https://user:***@host",
    "00 01 02 03 04 05 06 07 | 12 345 678 9012 | 812.807 4434",
    "id 4155552671, phone booth 12, hotel 1234567",
    "",
    "short",
]


@pytest.mark.parametrize("text", NEGATIVES)
def test_lookalikes_stay(text: str) -> None:
    assert REDACTOR.redact(text) == Redacted(text)
    assert REDACTOR.redact(json.dumps({"r": text})).findings == ()


def test_every_kind_has_a_golden() -> None:
    shown = {k for k, _ in TOKENS} | {k for k, _, _ in ASSIGNED} | {k for k, _ in PERSONAL}
    assert shown == set(KINDS)
    assert set(SECRET_KINDS) | set(PERSONAL_KINDS) == set(KINDS)


def test_a_mark_names_the_kind_and_equal_secrets_get_equal_marks() -> None:
    redacted = REDACTOR.redact("ana@example.org, joe@example.org, ana@example.org")
    first, second, third = (f.mark for f in redacted.findings)
    assert first == third != second
    assert MARK.fullmatch(first)
    assert redacted.text == f"{first}, {second}, {third}"
    assert Redactor(KEY).redact("ana@example.org").text == first
    assert Redactor(b"another key").redact("ana@example.org").text != first


def test_findings_say_where_the_secret_stood() -> None:
    text = "Größe \U0001f600 mail: ana@example.org!"
    (finding,) = REDACTOR.find(text)
    assert isinstance(finding, FoundSecret)
    assert text[finding.start : finding.end] == "ana@example.org"


def test_of_overlapping_secrets_the_earliest_then_the_longest_then_the_first_of_the_table_wins() -> None:
    token = "gh" + "p_" + BODY[:36]
    assert only(f"Authorization: Bearer {token}") == ("github-token", token)
    assert only(f"https://joe:{token}@example.com/") == ("github-token", token)
    assert only(f"password=x1-{token}") == ("password", f"x1-{token}")
    assert only(f"{token}{token}")[0] == "github-token"
    own = Redactor(KEY, policy_from("default", {"short": r"ana@", "long": r"ana@example\.org and"}))
    assert [f.kind for f in own.find("ana@example.org and")] == ["long"]


def test_a_private_key_goes_whole_also_escaped_or_cut_off() -> None:
    assert only(json.dumps({"k": PEM}))[0] == "private-key"
    assert json.loads(REDACTOR.redact(json.dumps({"k": PEM})).text)["k"].startswith("[REDACTED:private-key:")
    cut = PEM[: PEM.index("-----END")]
    assert REDACTOR.redact(cut + "\nthe end of the log").text.endswith("]\n\nthe end of the log")
    assert BODY[:64] not in REDACTOR.redact(cut).text


def test_json_stays_json() -> None:
    body = {
        "phone": 4155552671,
        "a": 'say "hi"\nana@example.org\t+14155552671',
        "password": 'a"b\\c1',
    }
    text = json.dumps({"inner": json.dumps({"phone": 4155552671}), "phone": 4155552671, **body})
    redacted = REDACTOR.redact(text).text
    outer = json.loads(redacted)
    assert MARK.fullmatch(outer["phone"])
    assert MARK.fullmatch(json.loads(outer["inner"])["phone"])
    assert MARK.fullmatch(outer["password"])
    assert "ana@" not in redacted


def test_kinds_are_switched_off_and_on() -> None:
    text = "ana@example.org " + "gh" + "p_" + BODY[:36]
    assert [f.kind for f in Redactor(KEY, SECRETS).find(text)] == ["github-token"]
    assert [f.kind for f in Redactor(KEY, policy_from("secrets,+email,-github-token")).find(text)] == ["email"]
    assert [f.kind for f in Redactor(KEY, policy_from("none,+email")).find(text)] == ["email"]
    assert [f.kind for f in Redactor(KEY, policy_from("default,-email")).find(text)] == ["github-token"]
    assert Redactor(b"", NOTHING).redact(text) == Redacted(text)
    assert Redactor(b"", policy_from("none")).redact(PEM) == Redacted(PEM)


def test_a_telling_kind_works_when_the_general_one_is_off() -> None:
    only_cohere = Redactor(KEY, Policy(kinds=("cohere-key",)))
    assert [f.kind for f in only_cohere.find(f"COHERE_API_KEY={BODY[:40]} API_KEY={BODY[:32]}")] == ["cohere-key"]


def test_own_patterns_mark_the_match_or_its_first_group() -> None:
    own = Redactor(KEY, policy_from("none", ["ticket=T-[0-9]+", "person=name: (\\w+)"]))
    assert MARK.sub("#", own.redact("T-12 name: Ana T-12").text) == "# name: # #"
    assert own.redact("T-12").findings[0].kind == "ticket"
    assert own.redact("é").findings == ()


@pytest.mark.parametrize(
    ("spec", "patterns", "says"),
    [
        ("all", {}, "no redaction policy named 'all'"),
        ("default,-emial", {}, "did you mean 'email'"),
        ("default,email", {}, "makes no sense"),
        ("default,arguments=burn", {}, "'burn' is not a redaction action"),
        ("default,argument=drop", {}, "no field named 'argument'"),
        ("default", {"x": "("}, "pattern 'x' is not a regular expression"),
        ("default", {"x": "a*"}, "matches the empty text"),
        ("default", {"Big Name": "a"}, "cannot name a redaction pattern"),
        ("default", {"email": "a"}, "cannot name a redaction pattern"),
        ("default", {"field": "a"}, "cannot name a redaction pattern"),
        ("default", ["justapattern"], "write it as NAME=REGEX"),
        ({"kinds": 3}, {}, "cannot be read"),
        ({"kinds": ["nothing-such"]}, {}, "no redaction kind named 'nothing-such'"),
    ],
)
def test_a_bad_policy_is_refused_in_one_sentence(spec: Any, patterns: Any, says: str) -> None:
    with pytest.raises(BadUsage) as caught:
        policy_from(spec, patterns)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_pattern_is_also_refused_by_the_redactor_and_a_key_is_demanded() -> None:
    with pytest.raises(BadUsage):
        Redactor(KEY, Policy(patterns={"x": "["}))
    with pytest.raises(BadUsage, match="needs a key"):
        Redactor(b"")
    assert Redactor(b"k" * 100).redact("ana@example.org").findings


def test_a_policy_survives_json() -> None:
    policy = policy_from("secrets,arguments=drop", {"ticket": "T-[0-9]+"}, {"result": "hash"})
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy
    assert policy_from(msgspec.to_builtins(policy)) == policy
    assert policy_from(policy) == policy


def test_each_field_has_its_own_action() -> None:
    text = "mail ana@example.org"
    fields = {"arguments": "drop", "result": "hash", "task": "keep", "answer": "redact"}
    redactor = Redactor(KEY, policy_from("default", fields=fields))  # type: ignore[arg-type]
    dropped, hashed = redactor.redact(text, "arguments"), redactor.redact(text, "result")
    assert re.fullmatch(r"\[REDACTED:field:[0-9a-f]{8}\]", dropped.text)
    assert dropped.findings == (FoundSecret("field", 0, len(text), dropped.text),)
    assert re.fullmatch(r"\[REDACTED:hash:[0-9a-f]{32}\]", hashed.text)
    assert hashed.text == f"[REDACTED:hash:{redactor.mark(text)}]"
    assert redactor.redact(text, "task") == Redacted(text)
    assert redactor.redact(text, "answer") == redactor.redact(text) == redactor.redact(text, "input")
    assert redactor.redact("", "arguments") == Redacted("")
    for field in ("", *FIELDS):
        once = redactor.redact(text, field).text
        assert redactor.redact(once, field) == Redacted(once)
    assert redactor.redact(hashed.text) == Redacted(hashed.text)


# -- properties --------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [s for _, s in TOKENS]
    + [around.format(s) for _, around, s in ASSIGNED]
    + [s for _, s in PERSONAL]
    + [n for n in NEGATIVES if len(n) < 300]
    + [
        " ",
        "",
        "\n",
        "\\n",
        '"',
        "\\",
        ":",
        "=",
        "@",
        "-",
        "0",
        "a",
        "[REDACTED:",
        "[REDACTED:email:12345678]",
        "\0",
        "é",
    ]
    + ["password=", "token: ", "phone ", "://", "+", "1", "x" * 20, "ä" * 3, "\ud800", "İ"]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=200))
CALM = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@CALM
@given(TEXTS)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = REDACTOR.redact(text)
    assert REDACTOR.redact(once.text) == Redacted(once.text)


@CALM
@given(
    TEXTS,
    st.sampled_from([r"\d+", r"[a-f0-9]{8}", r"^.{6}", r".{6}$", r"(?s).{5}", r"E[A-Z]+", r"(?<=a)b", r"\b\w{3}\b"]),
)
def test_redacting_twice_changes_nothing_with_own_patterns(text: str, pattern: str) -> None:
    redactor = Redactor(KEY, policy_from("secrets", {"own": pattern}))
    once = redactor.redact(text)
    assert redactor.redact(once.text) == Redacted(once.text)


@CALM
@given(TEXTS)
def test_findings_are_in_order_and_make_up_the_text(text: str) -> None:
    redacted = REDACTOR.redact(text)
    at, rebuilt = 0, ""
    for finding in redacted.findings:
        assert at <= finding.start < finding.end <= len(text)
        assert finding.kind in KINDS
        rebuilt += text[at : finding.start] + finding.mark
        at = finding.end
    rebuilt += text[at:]
    assert rebuilt == redacted.text or rebuilt == re.sub(
        r"(\\*[\"'])(\[REDACTED:[a-z0-9-]+:\w{8}\])\1", r"\2", redacted.text
    )
    assert REDACTOR.find(text) == redacted.findings


@CALM
@given(st.sampled_from(TOKENS), st.text(max_size=30), st.text(max_size=30))
def test_the_same_secret_has_the_same_mark_everywhere(token: tuple[str, str], before: str, after: str) -> None:
    kind, secret = token
    expected = REDACTOR.redact(secret).text
    assert expected in REDACTOR.redact(f"{before} {secret} {after}").text
    assert expected.startswith(f"[REDACTED:{kind}:")


@CALM
@given(st.dictionaries(st.text(max_size=8), st.one_of(PIECES, st.text(max_size=20)), max_size=5))
def test_json_with_strings_stays_json(body: dict[str, str]) -> None:
    for ascii_only in (True, False):
        text = json.dumps(body, ensure_ascii=ascii_only)
        if "-----BEGIN" not in text and "[REDACTED:" not in text:
            assert len(json.loads(REDACTOR.redact(text).text)) <= len(body), "two keys may become one mark"


# -- texts that are made to be slow ------------------------------------------------------------------------------------

UNITS = [
    "a", "-", "1", "0", "eyJ", "eyJhbGciOi", "@", "a@", "1-", "1 ", "1.", "(1", ".", "=", "%", "_", "\0", "\\n", "中",
    '\\"', "\u00a0", "token", "token:", "token=", "token%3d", "password: ", 'password="\\\\', '"password": "', "sk-",
    "sk-" + "ant-", "nvapi-", "xoxb-", "AK" + "IA", "T3Blbk" + "FJ", "Q~", "JQQ" + "J99", ":AA", "sig=", "-us1", "hf_",
    "-----BEGIN PRIVATE " + "KEY-----", "://", "://a:", "://a:b@", "%3a%2f%2f", "%3A%2F%2Fa%3A", "%40", "cookie: a=",
    "set-cookie: a=bbbbbbbb;", "cookie:", "authorization: bearer ", "bearer ", "DE89", "DE89 ", "account number ",
    "00 ", "phone 1", "+1", "+", "4111 ", "(415)", "415-555-2671", "[REDACTED:", "[REDACTED:email:12345678]",
    "x" * 19 + " ", "eyJaaaaaaaa.aaaa.", "secret=secret_", "aB3", "api_key:",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_a_megabyte_made_to_be_slow_takes_about_a_second_at_most(unit: str) -> None:
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    for _ in range(3):  # other programs on the same core make seconds longer: the best of a few tries counts
        start = time.process_time()
        REDACTOR.redact(text)
        took = time.process_time() - start
        if took < 2.0:  # twice the aim, for slow machines
            break
    assert took < 2.0


def test_clean_text_is_read_fast() -> None:
    record = {"id": "3f9a0c7b-e15d-4468-a3f9-a0c7be15d246", "at": "2024-01-15T10:30:00Z", "price": 12.5, "tokens": 812}
    text = json.dumps(
        [{**record, "text": "the agent read the policy page and sent an answer with two links. " * 4}] * 4000
    )
    assert REDACTOR.find(text) == ()
    start = time.process_time()
    REDACTOR.find(text)
    assert len(text) / (time.process_time() - start) > 8e6  # a fifth of the aim, for slow machines


def test_suspects_are_the_texts_with_something_in_them():
    redactor = Redactor(b"k" * 32)
    plain = ["a word", "", "x" * 500, '{"a": 1}']
    told = [*plain, "mail joe@example.org", *plain, f"key sk-proj-{BODY[:48]} and sk-proj-{BODY[:48]}", "end"]
    assert redactor.suspects(told) == [4, 9]
    assert redactor.suspects(plain) == redactor.suspects([]) == []
    assert Redactor(b"", NOTHING).suspects(told) == []
    own = Redactor(b"k" * 32, policy_from("default", ["ticket=T-[0-9]+"]))
    assert own.suspects(plain) == [0, 1, 2, 3], "patterns of one's own are asked of each text"


@given(
    st.lists(st.sampled_from(["mail joe@example.org", "word", "é" * 9, "", "\0", "password=hunter2-Xk9!q"]), max_size=9)
)
def test_a_text_that_is_no_suspect_is_clean(texts):
    redactor = Redactor(b"k" * 32)
    suspects = redactor.suspects(texts)
    assert all(i in suspects or not redactor.find(text) for i, text in enumerate(texts))
