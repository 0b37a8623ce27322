"""Secrets of sixty-odd kinds, drawn from the formats that providers publish and not from the detectors, and the
disguises that machines give them: dumps, encodings, streams, colours.

A `Planted` is a line as a machine writes it, and `core`, the part of it that nobody may read. `DISGUISES` has for each
disguise how it is put on and how a reader of logs who knows it takes it off again.
"""

import base64
import gzip
import json
import re
import string
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM = UPPER + LOWER + DIGITS
HEX = DIGITS + "abcdef"
URLSAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"
BASE32 = UPPER + "234567"


@dataclass(frozen=True)
class Planted:
    """One secret: its kind, the line that carries it, and the part that must not be readable."""

    kind: str
    line: str
    core: str


def _draw(rng: Random, letters: str, count: int) -> str:
    """Random letters, with at least one digit and one letter where the alphabet has both (as real keys have)."""
    while True:
        word = "".join(rng.choice(letters) for _ in range(count))
        kinds = {c.isdigit() for c in letters if c.isalnum()}
        if count < 12 or kinds <= {c.isdigit() for c in word if c.isalnum()}:
            return word


# kind: (line around the secret, constant beginning, alphabet, length, constant end)
_FORMED: dict[str, tuple[str, str, str, int, str]] = {
    "aws access key": ("aws_access_key_id = {}", "AKIA", BASE32, 16, ""),
    "aws secret key": ("aws_secret_access_key = {}", "", BASE64, 40, ""),
    "aws session token": ("AWS_SESSION_TOKEN={}", "IQoJb3JpZ2luX2Vj", BASE64, 300, "=="),
    "github classic": ("git clone https://{}@github.com/acme/shop.git", "ghp_", ALNUM, 36, ""),
    "github oauth": ("the token is {} until Friday", "gho_", ALNUM, 36, ""),
    "github server": ("GITHUB_TOKEN: {}", "ghs_", ALNUM, 36, ""),
    "github fine-grained": ("export GH={}", "github_pat_11", ALNUM, 57, ""),
    "gitlab personal": ("curl --header 'PRIVATE-TOKEN: {}' https://gitlab.com/api", "glpat-", URLSAFE, 20, ""),
    "gitlab runner": ("gitlab-runner register --token {}", "glrt-", URLSAFE, 20, ""),
    "slack bot": ("slack says {} is fine", "xoxb-2148351234-5412345678901-", ALNUM, 24, ""),
    "slack user": ("SLACK={}", "xoxp-2148351234-5412345678901-5512345678901-", HEX, 32, ""),
    "slack app": ("app level token {}", "xapp-1-A02BCDEFGHI-5512345678901-", HEX, 64, ""),
    "slack webhook": ("POST {}", "https://hooks.slack.com/services/T02ABCDEF/B03ABCDEF12/", ALNUM, 24, ""),
    "openai project": ("OPENAI_API_KEY={}", "sk-proj-", URLSAFE, 120, ""),
    "openai user": ("key: {}", "sk-", ALNUM, 48, ""),
    "openai service": ("client = OpenAI(api_key='{}')", "sk-svcacct-", URLSAFE, 120, ""),
    "anthropic": ("x-api-key: {}", "sk-ant-api03-", URLSAFE, 93, "AA"),
    "google api": ("https://maps.googleapis.com/maps/api/geocode/json?key={}", "AIza", URLSAFE, 35, ""),
    "google oauth secret": ("client_secret: {}", "GOCSPX-", URLSAFE, 28, ""),
    "google access": ("Authorization: Bearer {}", "ya29.a0", URLSAFE, 150, ""),
    "google refresh": ('"refresh_token": "{}"', "1//0", URLSAFE, 90, ""),
    "stripe live": ("stripe.api_key = '{}'", "sk_live_51", ALNUM, 97, ""),
    "stripe restricted": ("use {} for refunds", "rk_live_51", ALNUM, 97, ""),
    "stripe webhook": ("endpoint secret {}", "whsec_", ALNUM, 32, ""),
    "twilio auth": ("TWILIO_AUTH_TOKEN={}", "", HEX, 32, ""),
    "sendgrid": ("mail key {}", "SG.", URLSAFE, 22, ".{tail43}"),
    "mailgun": ("mailgun {}", "key-", HEX, 32, ""),
    "mailchimp": ("MAILCHIMP_API_KEY={}", "", HEX, 32, "-us12"),
    "npm": ("//registry.npmjs.org/:_authToken={}", "npm_", ALNUM, 36, ""),
    "pypi": ("twine upload -u __token__ -p {}", "pypi-AgEIcHlwaS5vcmc", URLSAFE, 150, ""),
    "docker": ("docker login -u acme -p {}", "dckr_pat_", URLSAFE, 27, ""),
    "hugging face": ("huggingface-cli login --token {}", "hf_", UPPER + LOWER, 34, ""),
    "replicate": ("replicate {}", "r8_", ALNUM, 37, ""),
    "groq": ("groq {}", "gsk_", ALNUM, 52, ""),
    "perplexity": ("pplx: {}", "pplx-", ALNUM, 48, ""),
    "digitalocean": ("doctl auth init -t {}", "dop_v1_", HEX, 64, ""),
    "atlassian": ("jira token {}", "ATATT3xFfGF0", URLSAFE, 171, "={crc8}"),
    "atlassian padded": ("JIRA_API_TOKEN={}", "ATATT3xFfGF0", URLSAFE + "=", 172, "={crc8}"),
    "bitbucket": ("bitbucket app password {}", "ATBB", ALNUM, 32, ""),
    "linear": ("linear {}", "lin_api_", ALNUM, 40, ""),
    "notion": ("NOTION_TOKEN={}", "ntn_", ALNUM, 46, ""),
    "airtable": ("airtable {}", "pat", ALNUM, 14, ".{hex64}"),
    "databricks": ("databricks configure --token {}", "dapi", HEX, 32, ""),
    "vault": ("VAULT_TOKEN={}", "hvs.CAESI", URLSAFE, 90, ""),
    "terraform": ("token = '{}'", "", ALNUM, 14, ".atlasv1.{tail67}"),
    "pulumi": ("pulumi {}", "pul-", HEX, 40, ""),
    "doppler": ("doppler {}", "dp.pt.", ALNUM, 43, ""),
    "shopify": ("X-Shopify-Access-Token: {}", "shpat_", HEX, 32, ""),
    "square": ("square {}", "EAAA", URLSAFE, 60, ""),
    "telegram": ("bot token {}", "6128345671:AA", URLSAFE, 33, ""),
    "discord webhook": ("POST {}", "https://discord.com/api/webhooks/112233445566778899/", URLSAFE, 68, ""),
    "age": ("# age\n{}", "AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58, ""),
    "azure storage": (
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={};EndpointSuffix=core.windows.net",
        "", BASE64, 86, "==",
    ),
    "azure sas": (
        "https://acme.blob.core.windows.net/c/f.csv?sv=2023-01-03&se=2026-01-01T00%3A00%3A00Z&sr=b&sp=r&sig={}",
        "", ALNUM, 43, "%3D",
    ),
    "aws presigned": (
        "https://acme.s3.amazonaws.com/f.csv?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260101T000000Z"
        "&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
        "", HEX, 64, "",
    ),
    "google presigned": (
        "https://storage.googleapis.com/acme/f.csv?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Date=20260101T000000Z"
        "&X-Goog-Expires=900&X-Goog-SignedHeaders=host&X-Goog-Signature={}",
        "", HEX, 512, "",
    ),
    "cloudfront": (
        "https://d111111abcdef8.cloudfront.net/f.jpg?Expires=1767225600&Signature={}&Key-Pair-Id=K2JCJMDEHXQW5F",
        "", ALNUM + "-~", 342, "__",
    ),
    "azure client secret": ("AZURE_CLIENT_SECRET={}", "", ALNUM, 3, "8Q~{tail34}"),
    "bearer": ("Authorization: Bearer {}", "", ALNUM, 40, ""),
    "cookie": ("Cookie: theme=dark; sessionid={}", "", LOWER + DIGITS, 32, ""),
    "new relic": ("newrelic {}", "NRAK-", UPPER + DIGITS, 27, ""),
    "datadog": ("DD_API_KEY={}", "", HEX, 32, ""),
    "grafana": ("grafana {}", "glsa_", ALNUM, 32, "_{crc8l}"),
    "postman": ("postman {}", "PMAK-", HEX, 24, "-{hex34}"),
    "figma": ("figma {}", "figd_", URLSAFE, 40, ""),
    "dynatrace": ("dynatrace {}", "dt0c01.", UPPER + DIGITS, 24, ".{upper64}"),
    "supabase": ("supabase {}", "sbp_", HEX, 40, ""),
    "planetscale": ("pscale {}", "pscale_tkn_", URLSAFE, 43, ""),
    "okta": ("Authorization: SSWS {}", "00", URLSAFE, 40, ""),
    "rubygems": ("gem push --key {}", "rubygems_", HEX, 48, ""),
    "password in a setting": ("DB_PASSWORD={}", "", ALNUM + "!#%*", 18, ""),
    "password in json": ('{{"user": "ann", "password": "{}"}}', "", ALNUM + "!#%*", 16, ""),
    "password in yaml": ("  password: {}", "", ALNUM, 16, ""),
    "password in an address": ("postgresql://app:{}@db.internal:5432/shop", "", ALNUM, 16, ""),
    "password of redis": ("redis://:{}@cache.internal:6379/0", "", ALNUM, 20, ""),
    "password of mongo": ("mongodb+srv://app:{}@cluster0.ab1cd.mongodb.net/shop", "", ALNUM, 16, ""),
    "password of netrc": ("machine api.acme.com login ann password {}", "", ALNUM, 18, ""),
    "password of curl": ("curl -u ann:{} https://api.acme.com/v1/orders", "", ALNUM, 18, ""),
    "basic": ("Authorization: Basic {}", "YW5uOm", ALNUM, 26, ""),
}  # fmt: skip

_TAILS = {
    "{tail43}": (URLSAFE, 43),
    "{tail67}": (ALNUM, 67),
    "{tail34}": (ALNUM + "_~.", 34),
    "{hex64}": (HEX, 64),
    "{hex34}": (HEX, 34),
    "{upper64}": (UPPER + DIGITS, 64),
    "{crc8}": (DIGITS + "ABCDEF", 8),
    "{crc8l}": (HEX, 8),
}


def _formed(kind: str, rng: Random) -> Planted:
    around, begins, letters, count, ends = _FORMED[kind]
    core = _draw(rng, letters, count)
    for mark, (alphabet, length) in _TAILS.items():
        if mark in ends:
            ends = ends.replace(mark, _draw(rng, alphabet, length))
    # Where the drawn middle is short, the end is the secret.
    core = core + ends if count < 12 else core
    whole = begins + core + ("" if count < 12 else ends)
    return Planted(kind, around.format(whole), core)


def _jwt(rng: Random) -> Planted:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": "HS256", "typ": "JWT"})
    signature = _draw(rng, URLSAFE, 43)
    return Planted(
        "jwt", f"session {head}.{part({'sub': str(rng.random()), 'iat': 1767225600})}.{signature}", signature
    )


def _pem(kind: str, label: str) -> Callable[[Random], Planted]:
    def draw(rng: Random) -> Planted:
        body = [_draw(rng, BASE64, 64) for _ in range(4)]
        block = "\n".join([f"-----BEGIN {label}-----", *body, f"-----END {label}-----"])
        return Planted(kind, block, body[2])

    return draw


KINDS: dict[str, Callable[[Random], Planted]] = {
    **{kind: (lambda rng, kind=kind: _formed(kind, rng)) for kind in _FORMED},
    "jwt": _jwt,
    "rsa key": _pem("rsa key", "RSA PRIVATE KEY"),
    "openssh key": _pem("openssh key", "OPENSSH PRIVATE KEY"),
    "pkcs8 key": _pem("pkcs8 key", "PRIVATE KEY"),
}

# -- disguises: how a machine writes a text, and how one who knows it reads it again -----------------------------------


def _hex(text: str, rng: Random) -> str:
    return text.encode().hex()


def _xxd(text: str, rng: Random) -> str:
    data = text.encode()
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        digits = row.hex()
        pairs = " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))
        lines.append(f"{at:08x}: {pairs:<39}  {''.join(chr(b) if 32 <= b < 127 else '.' for b in row)}")
    return "\n".join(lines)


def _hexdump(text: str, rng: Random) -> str:
    data = text.encode()
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        halves = "  ".join(row[i : i + 8].hex(" ") for i in (0, 8) if row[i : i + 8])
        lines.append(f"{at:08x}  {halves:<48}  |{''.join(chr(b) if 32 <= b < 127 else '.' for b in row)}|")
    return "\n".join([*lines, f"{len(data):08x}"])


def _base32(text: str, rng: Random) -> str:
    return base64.b32encode(text.encode()).decode()


def _base64(text: str, rng: Random) -> str:
    return base64.b64encode(text.encode()).decode()


def _base64_twice(text: str, rng: Random) -> str:
    return base64.b64encode(base64.b64encode(text.encode())).decode()


def _gzip(text: str, rng: Random) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _pieces(text: str, rng: Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = rng.randint(2, 7)
        yield text[at : at + size]
        at += size


def _stream_openai(text: str, rng: Random) -> str:
    return "\n\n".join(
        "data: " + json.dumps({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": piece}}]})
        for piece in _pieces(text, rng)
    )


def _stream_anthropic(text: str, rng: Random) -> str:
    return "\n\n".join(
        "event: content_block_delta\ndata: "
        + json.dumps({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
        for piece in _pieces(text, rng)
    )


def _stream_repr(text: str, rng: Random) -> str:
    return "\n".join(f"chunk {i}: {piece!r}" for i, piece in enumerate(_pieces(text, rng)))


def _colours(text: str, rng: Random) -> str:
    return "".join(f"\x1b[{rng.choice(('1;31', '32', '38;5;208', '0'))}m{piece}" for piece in _pieces(text, rng)) + (
        "\x1b[0m"
    )


def _all_hex(text: str) -> list[str]:
    dumps = re.findall(r"^[0-9a-f]{8}:? {1,2}((?:[0-9a-f]{2,4} {1,2}){1,16}) *\|?(.*?)\|?$", text, re.MULTILINE)
    runs = re.findall(r"[0-9a-fA-F]{8,}", text)
    runs.append("".join(re.sub(r"\s", "", digits) for digits, _ in dumps))
    plain = ["".join(shown for _, shown in dumps)]
    for run in runs:
        plain += [bytes.fromhex(run[at : at + (len(run) - at) // 2 * 2]).decode("latin-1") for at in (0, 1)]
    return plain


def _all_base(text: str, letters: str, group: int, undo: Callable[[str], bytes]) -> list[bytes]:
    plain = []
    for run in re.findall(rf"[{letters}]{{8,}}", text):
        for at in range(group):
            part = run[at : at + (len(run) - at) // group * group]
            plain.append(undo(part))
    return plain


def _all_base32(text: str) -> list[str]:
    return [raw.decode("latin-1") for raw in _all_base(text, "A-Z2-7", 8, base64.b32decode)]


def _from_base64(text: str) -> list[bytes]:
    return _all_base(text, "A-Za-z0-9+/", 4, base64.b64decode)


def _all_base64(text: str) -> list[str]:
    return [raw.decode("latin-1") for raw in _from_base64(text)]


def _all_twice(text: str) -> list[str]:
    return [plain for once in _all_base64(text) for plain in _all_base64(once)]


def _all_gzip(text: str) -> list[str]:
    plain = []
    for raw in _from_base64(text):
        try:
            plain.append(zlib.decompressobj(wbits=31).decompress(raw).decode("latin-1"))
        except zlib.error:
            continue
    return plain


def _all_pieces(text: str) -> list[str]:
    strings = re.findall(r'"(?:content|text)": ("(?:[^"\\]|\\.)*")', text)
    shown = re.findall(r"^chunk \d+: (['\"])(.*)\1$", text, re.MULTILINE)
    return ["".join(json.loads(s) for s in strings), "".join(piece.replace("\\n", "\n") for _, piece in shown)]


def _without_colours(text: str) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", text)]


@dataclass(frozen=True)
class Disguise:
    """How a disguise is put on (with draws for where it cuts), and every text that one gets who takes it off."""

    on: Callable[[str, Random], str]
    off: Callable[[str], list[str]]


DISGUISES: dict[str, Disguise] = {
    "open": Disguise(lambda text, rng: text, lambda text: [text]),
    "hex": Disguise(_hex, _all_hex),
    "xxd": Disguise(_xxd, _all_hex),
    "hexdump -C": Disguise(_hexdump, _all_hex),
    "base32": Disguise(_base32, _all_base32),
    "base64": Disguise(_base64, _all_base64),
    "base64 twice": Disguise(_base64_twice, _all_twice),
    "gzip + base64": Disguise(_gzip, _all_gzip),
    "stream (OpenAI)": Disguise(_stream_openai, _all_pieces),
    "stream (Anthropic)": Disguise(_stream_anthropic, _all_pieces),
    "stream (repr)": Disguise(_stream_repr, _all_pieces),
    "colours": Disguise(_colours, _without_colours),
}

_AROUND = (
    "$ cat notes\n{}\n$ exit",
    "{}",
    "I looked at the file and it contains:\n\n```\n{}\n```\nShall I go on?",
    "step 3 of 7\n{}\ndone in 0.4 s",
)


def planted(rng: Random, kind: str, disguise: str) -> tuple[Planted, str]:
    """A secret of `kind`, and a text of a log in which its line stands in `disguise`."""
    secret = KINDS[kind](rng)
    return secret, rng.choice(_AROUND).format(DISGUISES[disguise].on(secret.line, rng))


def readable(secret: Planted, disguise: str, text: str) -> bool:
    """True if a third of the secret (at least six characters) can be read in `text` by one who knows the disguise."""
    size = max(6, len(secret.core) // 3)
    parts = {secret.core[at : at + size] for at in range(len(secret.core) - size + 1)} or {secret.core}
    shown = [text, *DISGUISES[disguise].off(text)]
    return any(part in plain for plain in shown for part in parts)
