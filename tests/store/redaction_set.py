"""A labelled set of texts with planted secrets and hard negatives, made from a seed.

Every value is made up, and put together at run time, so that no scanner of this repository finds one.
A planted secret is wrapped in two private characters while its carrier is built; `Case` knows where it ended up.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from typing import NamedTuple

OPEN, CLOSE = "\ue000", "\ue001"
HEX, LOWER, UPPER = "0123456789abcdef", string.ascii_lowercase, string.ascii_uppercase
ALNUM = string.ascii_letters + string.digits
URLSAFE, BASE64 = ALNUM + "-_", ALNUM + "+/"
WORDS = tuple(
    word
    for line in (
        "the report shows that our customer asked for a refund after the second delivery was late and the agent opened",
        "a ticket in the queue while checking the order status before sending an answer with links to the policy page",
        "results were written to disk then compared with the baseline which passed most tests except two flaky ones",
    )
    for word in line.split()
)
Rng = random.Random


class Planted(NamedTuple):
    kind: str
    start: int
    end: int


class Case(NamedTuple):
    text: str
    planted: tuple[Planted, ...]
    carrier: str


def chars(rng: Rng, alphabet: str, size: int) -> str:
    return "".join(rng.choices(alphabet, k=size))


def mixed(rng: Rng, size: int, alphabet: str = ALNUM) -> str:
    """Random, with at least one digit and one letter of each case, as any real token of that length has."""
    while True:
        value = chars(rng, alphabet, size)
        if any(c.isdigit() for c in value) and any(c.islower() for c in value) and any(c.isupper() for c in value):
            return value


def uuid(rng: Rng) -> str:
    h = chars(rng, HEX, 32)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"


def prose(rng: Rng, low: int = 5, high: int = 18) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(low, high)))


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# -- secrets that any context may hold ---------------------------------------------------------------------------------


def _jwt(rng: Rng) -> str:
    header = rng.choice([{"alg": "HS256", "typ": "JWT"}, {"typ": "JWT", "alg": "RS256", "kid": chars(rng, HEX, 8)}])
    claims = {"sub": str(rng.randint(10**6, 10**9)), "iat": rng.randint(1_600_000_000, 1_750_000_000), "admin": True}
    return ".".join([b64url(json.dumps(header).encode()), b64url(json.dumps(claims).encode()), chars(rng, URLSAFE, 43)])


def _pem(rng: Rng) -> str:
    label = rng.choice(["RSA ", "EC ", "", "OPENSSH ", "ENCRYPTED "]) + "PRIVATE KEY"
    body = "\n".join(chars(rng, BASE64, 64) for _ in range(rng.randint(3, 14)))
    return f"-----BEGIN {label}-----\n{body}\n{chars(rng, BASE64, 30)}==\n-----END {label}-----"


def _discord(rng: Rng) -> str:
    return f"{b64url(str(rng.randint(10**17, 10**18 - 1)).encode())}.{mixed(rng, 6)}.{chars(rng, URLSAFE[:-2], 27)}"


def luhn_digit(body: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 - place % 2)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def _card(rng: Rng) -> str:
    prefix, size = rng.choice(
        [
            ("4", 16),
            ("51", 16),
            ("55", 16),
            ("2221", 16),
            ("34", 15),
            ("37", 15),
            ("6011", 16),
            ("65", 16),
            ("3530", 16),
            ("36", 14),
            ("62", 16),
            ("4", 19),
        ]
    )
    body = prefix + chars(rng, string.digits, size - 1 - len(prefix))
    number = body + luhn_digit(body)
    sep = rng.choice(["", " ", "-"])
    if size in (14, 15):
        return sep.join([number[:4], number[4:10], number[10:]])
    return sep.join(number[i : i + 4] for i in range(0, size, 4))


_IBANS = {
    "DE": "d" * 18,
    "GB": "UUUU" + "d" * 14,
    "FR": "d" * 10 + "x" * 11 + "dd",
    "ES": "d" * 20,
    "NL": "UUUU" + "d" * 10,
    "IT": "U" + "d" * 10 + "x" * 12,
    "CH": "d" * 5 + "x" * 12,
    "NO": "d" * 11,
    "BE": "d" * 12,
    "PL": "d" * 24,
    "AT": "d" * 16,
    "SE": "d" * 20,
}


def _iban(rng: Rng) -> str:
    country = rng.choice(sorted(_IBANS))
    alphabets = {"d": string.digits, "U": UPPER, "x": UPPER + string.digits}
    body = "".join(rng.choice(alphabets[c]) for c in _IBANS[country])
    check = 98 - int("".join(str(int(c, 36)) for c in body + country + "00")) % 97
    iban = f"{country}{check:02d}{body}"
    return iban if rng.random() < 0.5 else " ".join(iban[i : i + 4] for i in range(0, len(iban), 4))


def _area(rng: Rng) -> str:
    return rng.choice(["212", "415", "303", "617", "702", "818", "905"])


def _phone(rng: Rng) -> str:
    a, e, n = _area(rng), str(rng.randint(220, 999)).replace("11", "21"), f"{rng.randint(0, 9999):04d}"
    d = [chars(rng, string.digits, k) for k in range(9)]
    return rng.choice(
        [
            f"({a}) {e}-{n}",
            f"{a}-{e}-{n}",
            f"{a}.{e}.{n}",
            f"+1 {a} {e} {n}",
            f"+1-{a}-{e}-{n}",
            f"+1{a}{e}{n}",
            f"1-{a}-{e}-{n}",
            f"+44 20 7{d[3]} {d[4]}",
            f"+4420 7{d[3]} {d[4]}",
            f"+49 30 {d[8]}",
            f"+49 (0)171 {d[7]}",
            f"+33 6 12 34 {d[2]} {d[2]}",
            f"+91 98{d[3]} {d[5]}",
            f"+81-3-{d[4]}-{d[4]}",
            f"+86 138 {d[4]} {d[4]}",
            f"+61 412 {d[3]} {d[3]}",
            f"+5511{d[8]}",
            f"020 7{d[3]} {d[4]}",
            f"07700 9{d[5]}",
            f"(020) 7{d[3]} {d[4]}",
            f"01 4{d[1]} {d[2]} {d[2]} {d[2]}",
            f"06.1{d[1]}.{d[2]}.{d[2]}.{d[2]}",
            f"030 {d[8]}",
            f"0171/{d[7]}",
            f"03-{d[4]}-{d[4]}",
            f"0412 {d[3]} {d[3]}",
        ]
    )


def _email(rng: Rng) -> str:
    first, last = rng.choice(["ana", "j.smith", "li", "o_brien", "sales+eu", "m-k", "Max.Muster"]), chars(rng, LOWER, 4)
    host = rng.choice(
        ["example.org", "mail.example.co.uk", "corp-" + last + ".com", "uni." + last + ".edu", last + ".io"]
    )
    return f"{first}{rng.choice(['', str(rng.randint(1, 99))])}@{host}"


def _ssn(rng: Rng) -> str:
    area = rng.choice([rng.randint(1, 665), rng.randint(667, 899)])
    return f"{area:03d}-{rng.randint(1, 99):02d}-{rng.randint(1, 9999):04d}"


TOKENS: dict[str, Callable[[Rng], str]] = {
    "openai-key": lambda r: r.choice(
        [
            "sk-" + mixed(r, 20) + "T3Blbk" + "FJ" + mixed(r, 20),
            "sk-" + "proj-" + mixed(r, 74, URLSAFE) + "T3Blbk" + "FJ" + mixed(r, 74, URLSAFE),
            "sk-" + "svcacct-" + mixed(r, 60, URLSAFE),
            "sk-" + mixed(r, 48),
            "sk-" + chars(r, HEX, 32),
        ]
    ),
    "anthropic-key": lambda r: (
        "sk-" + "ant-" + r.choice(["api03-", "admin01-", "oat01-"]) + mixed(r, 93, URLSAFE) + "AA"
    ),
    "openrouter-key": lambda r: "sk-" + "or-v1-" + chars(r, HEX, 64),
    "google-key": lambda r: r.choice(
        [
            "AI" + "za" + mixed(r, 35, URLSAFE),
            "GOC" + "SPX-" + mixed(r, 28, URLSAFE),
            "ya" + "29." + mixed(r, 120, URLSAFE),
        ]
    ),
    "aws-key-id": lambda r: r.choice(["AK" + "IA", "AS" + "IA"]) + chars(r, UPPER + "234567", 14) + "4Q",
    "azure-key": lambda r: r.choice(
        [mixed(r, 3) + "8" + "Q~" + mixed(r, 34), chars(r, ALNUM, 52) + "JQQ" + "J99" + mixed(r, 26)]
    ),
    "github-token": lambda r: r.choice(
        ["gh" + c + "_" + mixed(r, 36) for c in "pousr"] + ["github" + "_pat_" + mixed(r, 22) + "_" + mixed(r, 59)]
    ),
    "gitlab-token": lambda r: r.choice(["gl" + "pat-", "gl" + "dt-", "gl" + "rt-"]) + mixed(r, 20, URLSAFE[:-2]),
    "slack-token": lambda r: (
        "xo" + "x" + r.choice("bpars") + f"-{r.randint(10**10, 10**12)}-{r.randint(10**10, 10**12)}-" + mixed(r, 24)
    ),
    "stripe-key": lambda r: r.choice(["sk", "rk"]) + r.choice(["_live_", "_test_"]) + mixed(r, r.choice([24, 99])),
    "huggingface-token": lambda r: "h" + "f_" + chars(r, string.ascii_letters, 34),
    "langfuse-key": lambda r: r.choice("sp") + "k-" + "lf-" + uuid(r),
    "langsmith-key": lambda r: (
        "ls" + "v2_" + r.choice(["pt", "sk"]) + "_" + chars(r, HEX, 32) + "_" + chars(r, HEX, 10)
    ),
    "groq-key": lambda r: "gs" + "k_" + mixed(r, 52),
    "xai-key": lambda r: "xa" + "i-" + mixed(r, 80),
    "replicate-token": lambda r: "r" + "8_" + mixed(r, 37),
    "perplexity-key": lambda r: "pp" + "lx-" + mixed(r, 48),
    "ethogram-token": lambda r: "ethogram" + "_" + chars(r, HEX, 12) + "_" + mixed(r, 43, URLSAFE),
    "npm-token": lambda r: "np" + "m_" + mixed(r, 36),
    "pypi-token": lambda r: "py" + "pi-" + "AgEIcHlwaS5vcmc" + mixed(r, 120, URLSAFE),
    "sendgrid-key": lambda r: "S" + "G." + mixed(r, 22, URLSAFE) + "." + mixed(r, 43, URLSAFE),
    "twilio-key": lambda r: r.choice(["A" + "C", "S" + "K"]) + chars(r, HEX, 32),
    "telegram-token": lambda r: f"{r.randint(10**8, 10**10 - 1)}:" + "A" + "A" + mixed(r, 33, URLSAFE),
    "discord-token": _discord,
    "digitalocean-token": lambda r: "do" + "p_v1_" + chars(r, HEX, 64),
    "databricks-token": lambda r: "da" + "pi" + chars(r, HEX, 32) + r.choice(["", "-2"]),
    "shopify-token": lambda r: "sh" + r.choice(["pat", "pss", "pca"]) + "_" + chars(r, HEX, 32),
    "mailgun-key": lambda r: "ke" + "y-" + chars(r, HEX, 32),
    "mailchimp-key": lambda r: chars(r, HEX, 32) + "-" + "us" + str(r.randint(1, 21)),
    "newrelic-key": lambda r: "NR" + "AK-" + chars(r, UPPER + string.digits, 27),
    "linear-key": lambda r: "lin" + "_api_" + mixed(r, 40),
    "notion-key": lambda r: r.choice(
        ["nt" + "n_" + chars(r, string.digits, 11) + mixed(r, 35), "sec" + "ret_" + mixed(r, 43)]
    ),
    "supabase-key": lambda r: r.choice(["sb" + "p_" + chars(r, HEX, 40), "sb" + "_secret_" + mixed(r, 31, URLSAFE)]),
    "vercel-token": lambda r: "vc" + r.choice("pkiar") + "_" + mixed(r, 56),
    "service-token": lambda r: r.choice(
        [
            "nv" + "api-" + mixed(r, 64, URLSAFE),
            "pc" + "sk_" + mixed(r, 60),
            "tv" + "ly-" + "dev-" + mixed(r, 32),
            "dck" + "r_pat_" + mixed(r, 27, URLSAFE),
            "hv" + "s." + mixed(r, 90, URLSAFE),
            "gl" + "sa_" + mixed(r, 32) + "_" + chars(r, HEX, 8),
            "ATA" + "TT3" + mixed(r, 180, URLSAFE),
            "fig" + "d_" + mixed(r, 40, URLSAFE),
            "PM" + "AK-" + chars(r, HEX, 24) + "-" + chars(r, HEX, 34),
            "e2" + "b_" + chars(r, HEX, 40),
            "sq0" + "csp-" + mixed(r, 43, URLSAFE),
        ]
    ),
    "jwt": _jwt,
}
PERSONAL: dict[str, Callable[[Rng], str]] = {
    "email": _email,
    "phone": _phone,
    "card-number": _card,
    "iban": _iban,
    "us-ssn": _ssn,
}


# -- secrets that their context gives away -----------------------------------------------------------------------------


def _password(rng: Rng) -> str:
    return rng.choice(
        [
            mixed(rng, rng.randint(10, 24)),
            rng.choice(["Summer", "dragon", "Blue-Horse", "letmein"]) + str(rng.randint(10, 9999)),
            rng.choice(["Tr0ub4dor", "p4ss", "Winter"]) + rng.choice("!?#*") + mixed(rng, 5),
            chars(rng, LOWER + string.digits, 7) + "4k",
        ]
    )


ASSIGN = (
    "{n}={v}",
    "export {n}={v}",
    "{n}: {v}",
    '{n} = "{v}"',
    '"{n}": "{v}"',
    "'{n}': '{v}'",
    '{{"{n}":"{v}"}}',
    "{n}='{v}'",
    '{n}="{v}" ./run.sh',
    "- name: {n}\n  {n}: {v}",
    "https://svc.example.com/v1?{n}={v}&page=2",
    "<{n}>{v}</{n}>",
    'config["{n}"] = "{v}"',
    "--{n} {v}",
    "--{n}={v}",
    '{n}: str = "{v}"',
    "{n} := `{v}`",
    ":{n} => '{v}',",
    "docker run -e {n}={v} image",
    "ENV {n} {v}",
    'os.environ["{n}"] = "{v}"',
    '{{"name": "{n}", "value": "{v}"}}',
    "{n}: '{v}'  # rotate",
    "curl -d '{n}={v}&grant=x' https://svc.example.com",
    '\\"{n}\\": \\"{v}\\"',
    "the {w} is {v}",
    "{w}: {v}",
)


def _assigned(kind: str, names: tuple[str, ...], value: Callable[[Rng], str]) -> Callable[[Rng], str]:
    def make(rng: Rng) -> str:
        template = rng.choice(ASSIGN)
        name = rng.choice(names)
        if "--" in template:
            name = name.lower().replace("_", "-")
        words = name.replace("_", " ").lower()
        return template.format(n=name, w=words, v=f"{OPEN}{kind}:{value(rng)}{CLOSE}")

    return make


def _wrapped(kind: str, templates: tuple[str, ...], value: Callable[[Rng], str]) -> Callable[[Rng], str]:
    return lambda rng: rng.choice(templates).replace("{v}", f"{OPEN}{kind}:{value(rng)}{CLOSE}")


def _routing(rng: Rng) -> str:
    body = [rng.choice([0, 1, 2, 3])] + [rng.randint(0, 9) for _ in range(7)]
    return "".join(map(str, body)) + str(-sum(w * d for w, d in zip((3, 7, 1, 3, 7, 1, 3, 7), body, strict=True)) % 10)


def _curl_password(rng: Rng) -> str:
    return rng.choice(
        [mixed(rng, 12), "p%40" + mixed(rng, 8), "hunter" + str(rng.randint(2, 99)), mixed(rng, 6) + "!x"]
    )


CONTEXTUAL: dict[str, Callable[[Rng], str]] = {
    "password": _assigned(
        "password",
        ("password", "DB_PASSWORD", "passwd", "smtp_pass", "user_pwd", "adminPassword", "passphrase"),
        _password,
    ),
    "api-key": _assigned(
        "api-key",
        ("api_key", "API_KEY", "apiKey", "x-api-key", "SERVICE_APIKEY", "access_key", "encryption_key"),
        lambda r: r.choice([mixed(r, 32), chars(r, HEX, 31) + "7", mixed(r, 20, URLSAFE[:-2])]),
    ),
    "secret": _assigned(
        "secret",
        ("client_secret", "SECRET", "secret_key", "APP_SECRET", "webhookSecret", "SECRET_KEY"),
        lambda r: mixed(r, 40),
    ),
    "token": _assigned(
        "token",
        ("token", "ACCESS_TOKEN", "refresh_token", "authToken", "bot_token", "X-Auth-Token"),
        lambda r: r.choice([mixed(r, 36), uuid(r), mixed(r, 64, URLSAFE[:-2]), chars(r, HEX, 39) + "a1"]),
    ),
    "cohere-key": _assigned("cohere-key", ("COHERE_API_KEY", "CO_API_KEY", "cohere_api_key"), lambda r: mixed(r, 40)),
    "mistral-key": _assigned(
        "mistral-key", ("MISTRAL_API_KEY", "mistral_api_key", "mistralApiKey"), lambda r: mixed(r, 32)
    ),
    "azure-key": _assigned(
        "azure-key", ("AZURE_OPENAI_API_KEY", "azure_api_key", "AZURE_CLIENT_SECRET"), lambda r: chars(r, HEX, 31) + "9"
    ),
    "aws-secret-key": lambda r: r.choice(
        [
            _assigned(
                "aws-secret-key",
                ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key", "SecretAccessKey", "secretAccessKey"),
                lambda r: mixed(r, 40, BASE64),
            ),
            _wrapped(
                "aws-secret-key",
                ("AWS Secret Access Key [None]: {v}", "SECRET_ACCESS_KEY\t= {v}".replace("\t", " ")),
                lambda r: mixed(r, 40, BASE64),
            ),
        ]
    )(r),
    "azure-storage": _wrapped(
        "azure-key",
        (
            "DefaultEndpointsProtocol=https;Account" + "Name=blobs;Account" + "Key={v};EndpointSuffix=core.windows.net",
            "Account" + "Key={v}",
        ),
        lambda r: mixed(r, 86, BASE64) + "==",
    ),
    "authorization": _wrapped(
        "authorization",
        (
            "Authorization: Bearer {v}",
            "authorization: Basic {v}",
            "Authorization: Token {v}",
            '"Authorization": "Bearer {v}"',
            "'Authorization': 'Bearer {v}'",
            "curl -H 'Authorization: Bearer {v}' https://api.example.com/v1/me",
            'headers={"Authorization": "Basic {v}"}',
            "Proxy-Authorization: Basic {v}",
            "('authorization', 'Bearer {v}')",
            '-H "authorization: token {v}"',
        ),
        lambda r: r.choice([mixed(r, 40), mixed(r, 26, BASE64) + "=="]),
    ),
    "header-key": _wrapped(
        "api-key",
        (
            "x-api-key: {v}",
            "api-key: {v}",
            '"x-api-key": "{v}"',
            "'X-Api-Key': '{v}'",
            "X-API-KEY: {v}",
            "Ocp-Apim-Subscription-Key: {v}",
        ),
        lambda r: mixed(r, 32),
    ),
    "cookie": _wrapped(
        "cookie",
        (
            "Cookie: {v}",
            "cookie: {v}",
            '"Cookie": "{v}"',
            "'cookie': '{v}'",
            "curl -H 'Cookie: {v}' https://x.example.com",
        ),
        lambda r: f"sessionid={mixed(r, 24)}; csrftoken={mixed(r, 16)}",
    ),
    "set-cookie": _wrapped(
        "cookie",
        (
            "Set-Cookie: sid={v}; Path=/; HttpOnly",
            '"set-cookie": "auth={v}; Secure; SameSite=Lax"',
            "set-cookie: SESSION={v}",
        ),
        lambda r: mixed(r, 32),
    ),
    "url-password": _wrapped(
        "url-password",
        (
            "postgres://app:{v}@db.internal:5432/main",
            "https://deploy:{v}@git.example.com/org/repo.git",
            "redis://:{v}@cache:6379/0",
            "amqp://guest:{v}@mq.example.com//",
            "mongodb+srv://root:{v}@cluster0.example.net/?w=majority",
            "redirect=https%3A%2F%2Fadmin%3A{v}%40intra.example.com%2Fhome",
        ),
        _curl_password,
    ),
    "slack-webhook": _wrapped(
        "slack-webhook",
        ("https://hooks.slack.com/services/{v}",),
        lambda r: f"T{chars(r, UPPER, 8)}/B{chars(r, UPPER, 9)}/{mixed(r, 24)}",
    ),
    "discord-webhook": lambda r: (
        f"https://discord.com/api/webhooks/{r.randint(10**17, 10**19)}/"
        f"{OPEN}discord-webhook:{mixed(r, 68, URLSAFE)}{CLOSE}"
    ),
    "bank-routing": _wrapped(
        "bank-routing",
        ("routing number: {v}", "ABA {v}", '"routing_number": "{v}"', "Routing No. {v}", "routingNumber={v}"),
        _routing,
    ),
    "bank-account": _wrapped(
        "bank-account",
        (
            "account number: {v}",
            "Account Number {v}",
            '"account_number": "{v}"',
            "acct #{v}",
            "Account no. {v}",
            "bank account {v}",
            '"accountNumber": {v}',
        ),
        lambda r: chars(r, "123456789", 1) + chars(r, string.digits, r.randint(7, 15)),
    ),
    "labelled-phone": _wrapped(
        "phone",
        (
            '"phone": "{v}"',
            "Phone: {v}",
            "tel: {v}",
            "mobile number is {v}",
            '"phone_number": {v}',
            "call me at {v}",
            "phoneNumber={v}",
            "WhatsApp: {v}",
        ),
        lambda r: f"{_area(r)}{r.randint(220, 999)}{r.randint(0, 9999):04d}",
    ),
    "labelled-ssn": _wrapped(
        "us-ssn",
        ('"ssn": "{v}"', "SSN: {v}", "social security number {v}"),
        lambda r: _ssn(r).replace("-", r.choice(["", " "])),
    ),
    "npm-token": _wrapped("npm-token", ("//registry.npmjs.org/:_authToken={v}",), TOKENS["npm-token"]),
    "private-key": _wrapped("private-key", ("{v}", "key:\n{v}", "cat id_rsa\n{v}"), _pem),
}


# -- what only looks like a secret -------------------------------------------------------------------------------------

NEGATIVES: tuple[Callable[[Rng], str], ...] = (
    uuid,
    lambda r: f"commit {chars(r, HEX, 40)}",
    lambda r: f"{chars(r, HEX, 7)}..{chars(r, HEX, 7)}",
    lambda r: f"sha256:{chars(r, HEX, 64)}",
    lambda r: f"{chars(r, HEX, 64)}  dist/pkg-{r.randint(0, 9)}.{r.randint(0, 30)}.tar.gz",
    lambda r: (
        f"2024-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}T{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:07"
        f".{r.randint(0, 999999):06d}+00:00"
    ),
    lambda r: f"{r.randint(1, 28):02d}/{r.randint(1, 12):02d}/2024 {r.randint(10, 23)}:{r.randint(10, 59)}",
    lambda r: f"timestamp {r.randint(1_600_000_000, 1_800_000_000)}",
    lambda r: f'"start_ns": {r.randint(16 * 10**17, 18 * 10**17)}, "ms": {r.randint(16 * 10**11, 18 * 10**11)}',
    lambda r: f"v{r.randint(0, 20)}.{r.randint(0, 99)}.{r.randint(0, 9)}-beta.{r.randint(1, 9)}",
    lambda r: f"lodash@{r.randint(1, 4)}.17.{r.randint(1, 30)} react@18.2.0",
    lambda r: f"order ORD-2024-{r.randint(0, 999999):06d}",
    lambda r: f"order 11{r.randint(1, 4)}-{r.randint(10**6, 10**7 - 1)}-{r.randint(10**6, 10**7 - 1)}",
    lambda r: "data:image/png;base64,iVBORw0KGgo" + chars(r, BASE64, r.choice([200, 1500])) + "==",
    lambda r: f"${r.randint(1, 99)},{r.randint(100, 999)}.{r.randint(10, 99)} or EUR {r.randint(1000, 99999)}.00",
    lambda r: f"({r.uniform(-90, 90):.6f}, {r.uniform(-180, 180):.6f})",
    lambda r: r.choice(
        ["user@localhost", "root@ip-10-0-3-17:~#", "deploy@build-host", "admin@db01.internal", "me@mybox.local"]
    ),
    lambda r: f"git@github.com:org{r.randint(1, 9)}/repo.git",
    lambda r: (
        f"ticket #{_area(r)}-{r.randint(220, 999)}-{r.randint(1000, 9999)} and "
        f"REF-{_area(r)}-{r.randint(220, 999)}-{r.randint(1000, 9999)}"
    ),
    lambda r: f"id {r.randint(2 * 10**9, 10**10)}",
    lambda r: f"user_id={r.randint(10**17, 10**18 - 1)}",
    lambda r: f"10.{r.randint(0, 255)}.{r.randint(0, 255)}.{r.randint(1, 254)}:8080 and fe80::1ff:fe23:4567:890a",
    lambda r: "ISBN 978-3-16-148410-0, EAN 4006381333931",
    lambda r: (
        f'"max_tokens": {r.randint(256, 8192)}, "total_tokens": {r.randint(10**3, 10**7)}, '
        f'"token_count": {r.randint(1, 999)}'
    ),
    lambda r: "def login(user: str, password: Optional[str] = None, token: str = '') -> None:",
    lambda r: r.choice(
        [
            'password=os.environ["DB_PASSWORD"]',
            "api_key=settings.api_key",
            "token = get_token(user_id)",
            "secret=config.secret",
            "api_key: ${API_KEY}",
            '"api_key": "YOUR_API_KEY_HERE"',
            "password: ********",
            "TOKEN=<your token>",
            "token=${{ secrets.GITHUB_TOKEN }}",
        ]
    ),
    lambda r: r.choice(
        [
            "secret_name: my-app-secret",
            '"token": "hello"',
            "key: user:1234:profile",
            "password must be at least 12 characters",
            '"token_type": "bearer"',
            "API key is required",
            "the token is invalid or expired",
            "Password: [hidden]",
            "pass: 12345678 fail: 2",
        ]
    ),
    lambda r: f'"next_token": "{mixed(r, 64)}", "pageToken": "{mixed(r, 32)}"',
    lambda r: r.choice(
        [
            "icon@2x.png",
            "@app.route('/x')",
            "y = x @ W.T + b",
            "z = h@self.weight",
            "@types/node",
            "uses: actions/checkout@v4.1.7",
        ]
    ),
    lambda r: r.choice(
        [
            "sk-container-id-1 sk-toggleable__content",
            "task-force-member-assignment",
            "hf_hub_download_with_progress",
            "npm_config_cache_directory",
        ]
    ),
    lambda r: r.choice(
        [
            "claude-3-5-sonnet-20241022",
            "gpt-4o-2024-08-06",
            "meta-llama/Llama-3.1-70B-Instruct",
            "text-embedding-3-large",
        ]
    ),
    lambda r: r.choice(["call_", "toolu_01", "req_011", "chatcmpl-", "msg_01", "run-", "sess_", "pi_3"]) + mixed(r, 24),
    lambda r: f"trace_id={chars(r, HEX, 32)} span_id={chars(r, HEX, 16)}",
    lambda r: f"loss=1.{r.randint(10**6, 10**7)}e-0{r.randint(1, 9)} acc=0.{r.randint(10**12, 10**15)}",
    lambda r: f'ETag: "{chars(r, HEX, 40)}" Content-Length: {r.randint(10**4, 10**8)}',
    lambda r: f'"integrity": "sha512-{chars(r, BASE64, 86)}=="',
    lambda r: f"00:1b:{chars(r, HEX, 2)}:{chars(r, HEX, 2)}:3a:b7 color #{chars(r, HEX, 6)}",
    lambda r: f"0x{chars(r, HEX, 16)} in frame_{r.randint(1, 99)} at +0x{chars(r, HEX, 4)}",
    lambda r: (
        f"/usr/lib/python3.11/site-packages/some_long_package_name/_private_module_{r.randint(1, 9)}.py:"
        f"{r.randint(10, 999)}"
    ),
    lambda r: f"rows 1 - 50 of {r.randint(10**3, 10**6)}; 2023-2024; 10-15 min; 3/4; 16:9; 1920x1080",
    lambda r: f"bin {r.randint(10**15, 10**16 - 1) // 10 * 10 + 1}",
    lambda r: r.choice(
        [
            "cache-key-" + chars(r, HEX, 32),
            "task-" + chars(r, HEX, 24),
            "vpc-0" + chars(r, HEX, 16),
            "pod-" + mixed(r, 5),
        ]
    ),
    lambda r: f"{chars(r, HEX, 2)} 01 02 03 04 05 06 {chars(r, HEX, 2)} | 12 345 678 9012 | 1.234 567 8901",
    lambda r: r.choice(
        [
            "class ApiKey: secret: SecretStr",
            "if token == other_token2: pass",
            "def set_password(self, password2): ...",
            "passed: 1234567, bypass: enabled2",
            "tokens per second: 123456789",
            "keyboard: qwerty12345678",
        ]
    ),
    lambda r: (
        f"serial {r.randint(100, 999)}-{r.randint(1000, 9999)}-{r.randint(100, 999)}, part 0{r.randint(10, 99)}-773"
    ),
    lambda r: "https://docs.example.com/guide/v2/getting-started-with-the-api#authentication-tokens",
    lambda r: f"AWS account 4{r.randint(10**10, 10**11 - 1)} arn:aws:iam::4{r.randint(10**10, 10**11 - 1)}:role/reader",
)


# -- carriers ----------------------------------------------------------------------------------------------------------


def _json_result(rng: Rng, parts: list[str]) -> str:
    body = {"status": "ok", "id": uuid(rng), "items": [{"n": i, "text": p} for i, p in enumerate(parts)], "took": 12}
    return json.dumps(body, ensure_ascii=False, indent=rng.choice([None, 2]))


def _nested_json(rng: Rng, parts: list[str]) -> str:
    return json.dumps({"name": "run", "result": _json_result(rng, parts)}, ensure_ascii=False)


def _shell(rng: Rng, parts: list[str]) -> str:
    lines = [
        "$ " + rng.choice(["env", "cat .env", "kubectl logs web-0", "history | tail"]),
        *parts,
        "PATH=/usr/local/bin:/usr/bin",
    ]
    return "\n".join(lines) + "\n"


def _stack(rng: Rng, parts: list[str]) -> str:
    head = "Traceback (most recent call last):\n"
    frames = "".join(
        f'  File "/app/src/{rng.choice(WORDS)}.py", line {rng.randint(3, 900)}, in {rng.choice(WORDS)}\n    call({p})\n'
        for p in parts[:-1]
    )
    return f"{head}{frames}RuntimeError: request failed: {parts[-1]}"


def _plain(rng: Rng, parts: list[str]) -> str:
    return ". ".join(f"{prose(rng).capitalize()} {p} {prose(rng, 2, 8)}" for p in parts) + "."


def _code(rng: Rng, parts: list[str]) -> str:
    return (
        "import os\n\n"
        + "\n".join(f"{rng.choice(WORDS)}_{i} = load()  # {p}" for i, p in enumerate(parts))
        + "\nmain()\n"
    )


def _log(rng: Rng, parts: list[str]) -> str:
    return "\n".join(
        f"2025-03-{rng.randint(1, 28):02d} 10:{rng.randint(0, 59):02d}:11,{rng.randint(0, 999):03d} INFO  "
        f"[worker-{rng.randint(1, 9)}] {prose(rng, 2, 5)} {p}"
        for p in parts
    )


def _csv(rng: Rng, parts: list[str]) -> str:
    return "id\tvalue\tnote\n" + "\n".join(f"{rng.randint(1, 999)}\t{p}\t{rng.choice(WORDS)}" for p in parts)


def _repr(rng: Rng, parts: list[str]) -> str:
    return "{" + ", ".join(f"'{rng.choice(WORDS)}_{i}': ({p})" for i, p in enumerate(parts)) + "}"


CARRIERS: dict[str, Callable[[Rng, list[str]], str]] = {
    "json": _json_result,
    "nested": _nested_json,
    "shell": _shell,
    "stack": _stack,
    "prose": _plain,
    "code": _code,
    "log": _log,
    "table": _csv,
    "repr": _repr,
}
AROUND_TOKEN = (
    "{v}",
    '"{v}"',
    "`{v}`",
    "({v})",
    "'{v}'",
    "key {v}",
    "/tmp/{v}/x",
    "https://h.example.com/{v}/run",
    "https://h.example.com/?key={v}&p=1",
    "value={v}",
    "[{v}]",
    "<{v}>",
    "{v},",
    "{v}.",
    'f("{v}")',
    "\\n{v}\\n",
    "Bearer {v}",
    "\x1b[32m{v}\x1b[0m",
    "q=%22{v}%22",
    "\\u0022{v}\\u0022",
    "|{v}|",
    "=>{v}",
    "**{v}**",
    "{v}\\n\\nnext",
    "old_{v}",
    "${v}$",
    "x\u00a0{v}\u2014y",
    "\u4ee4\u724c{v}\u3002",
)
AROUND_PERSONAL = (
    "{v}",
    '"{v}"',
    "({v})",
    "<{v}>",
    "contact {v}",
    "{v},",
    "value: {v}",
    "'{v}'",
    "it is {v} now",
    "a\u00a0{v};",
    "\\n{v}\\n",
    "to:{v}",
    "{v} x12",
    "**{v}**",
    "[{v}]",
)


def planted_piece(rng: Rng, kind: str) -> str:
    if kind in CONTEXTUAL and (kind not in TOKENS or rng.random() < 0.5):
        return CONTEXTUAL[kind](rng)
    around: tuple[str, ...]
    makers, around = (TOKENS, AROUND_TOKEN) if kind in TOKENS else (PERSONAL, AROUND_PERSONAL)
    if kind in TOKENS and rng.random() < 0.02:
        around = ("id{v}",)  # glued to a word, where a short prefix cannot be told from the word's end
    return rng.choice(around).replace("{v}", f"{OPEN}{kind}:{makers[kind](rng)}{CLOSE}")


def located(marked: str, carrier: str) -> Case:
    """Take the private characters out again, and remember where they stood."""
    text, planted = "", []
    first, *rest = marked.split(OPEN)
    text = first
    for part in rest:
        label, _, after = part.partition(CLOSE)
        kind, _, secret = label.partition(":")
        planted.append(Planted(kind, len(text), len(text) + len(secret)))
        text += secret + after
    return Case(text, tuple(planted), carrier)


def make_set(seed: int, size: int = 2400) -> list[Case]:
    """Texts with up to three secrets each, and hard negatives among them; one in five has no secret at all."""
    rng = random.Random(seed)
    kinds = sorted({*TOKENS, *PERSONAL, *CONTEXTUAL})
    cases: list[Case] = []
    turn = 0
    for number in range(size):
        parts = [rng.choice(NEGATIVES)(rng) for _ in range(rng.randint(1, 3))]
        if number % 5:
            first, turn = kinds[turn % len(kinds)], turn + 1
            parts += [planted_piece(rng, kind) for kind in [first, *rng.choices(kinds, k=rng.randint(0, 2))]]
        rng.shuffle(parts)
        carrier = rng.choice(sorted(CARRIERS))
        cases.append(located(CARRIERS[carrier](rng, parts), carrier))
    return cases
