"""Patterns of secrets: one table of detectors.

A detector's pattern is tried only where one of its anchors stands, so text without anchors costs almost nothing.
Patterns read a `View`: the text as ASCII bytes of the same length, where earlier marks are blanked with NUL.
No pattern may match NUL, so no match ever crosses a mark; and where a token must end, NUL counts as a letter, so that
a mark never sets free what stands right beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal

import msgspec

from .lookalikes import (
    AMPERSAND,
    BARE,
    EMAIL_LEFT,
    assigned_value,
    aws_key_id,
    card_number,
    discord_token,
    email_address,
    international_phone,
    json_web_token,
    looks_random,
    mixed_token,
    north_american_phone,
    openai_key,
    social_security,
    trunk_phone,
    url_password,
)
from .text_view import DIGITS, HEX, LETTERS, NAME, TAIL, TextRange, View

SecretFamily = Literal["secret", "personal"]
Sweep = Literal["run", "raw", "word", "shape"]
MatchCheck = Callable[[View, "re.Match[bytes]", int, int], TextRange | None]

_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})")
# Digits with separators between them; plain dates, by far the most frequent, are left out at once.
_CLUSTER = re.compile(rb"0(?<!00)(?!000-00-00[a,])[0 \-./()]{6,}")


class Detector(msgspec.Struct, frozen=True):
    """One row of the table; `grow` widens a match to the left over some bytes, from `least` to `most` of them."""

    kind: str
    family: SecretFamily
    sweep: Sweep
    anchors: tuple[bytes, ...]
    regex: re.Pattern[bytes]
    group: int | str = 0
    check: MatchCheck | None = None
    grow: tuple[bytes, int, int] | None = None

    def tails(self) -> dict[bytes, bytes]:
        """Each anchor with its first two letters and separator, or with nothing if it has none."""
        found = ((anchor, TAIL.search(anchor)) for anchor in self.anchors)
        return {anchor: tail[1] if tail else b"" for anchor, tail in found}

    def take(self, view: View, match: re.Match[bytes]) -> TextRange | None:
        """The span of the secret itself, or nothing if this is a lookalike."""
        start, end = match.span(self.group)
        if self.grow is not None:
            members, least, most = self.grow
            left = view.raw[max(0, start - most) : start]
            grown = len(left) - len(left.rstrip(members))
            if grown < least:
                return None
            # The digits of an escape just before, as in %22, are not part of the secret.
            escape = _ESCAPE.match(view.raw, max(0, start - grown - 1))
            start = escape.end() if escape and start - escape.end() >= least else start - grown
        return (start, end) if self.check is None else self.check(view, match, start, end)


# A token may follow an escape, a percent code or a colour code directly; otherwise not a letter or a digit.
_EDGE = rb"(?:(?<![A-Za-z0-9\0])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})|(?<=[0-9]m))"
_ALNUM = rb"[A-Za-z0-9]"
_STRONG: tuple[tuple[str, str, bytes], ...] = (
    ("anthropic-key", "sk-ant-", rb"[\w-]{16,}"),
    ("ethogram-token", "ethogram_", rb"[0-9a-f]{12}_[\w-]{43}"),
    ("openrouter-key", "sk-or-", rb"(?:v1-)?\w{32,}"),
    ("langfuse-key", "sk-lf- pk-lf-", rb"[\w-]{20,}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", rb"[\w-]{20,}"),
    ("google-key", "AIza", rb"[\w-]{35}"),
    ("google-key", "GOCSPX-", rb"[\w-]{20,}"),
    ("google-key", "ya29.", rb"[\w.-]{20,}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rb"\w{30,}"),
    ("github-token", "github_pat_", rb"\w{22,}"),
    ("gitlab-token", "glpat- gldt- glft- glsoat- glrt- glrtr- glcbt- glptt- glagent- gloas- glimt- glffct- GR1348941",
     rb"[\w.-]{20,}"),
    ("slack-token", "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs-", rb"(?:[\w-]|%2[BbFf]|%3[Dd]){10,}"),
    ("slack-token", "xapp-", rb"\d-[\w-]{20,}"),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", _ALNUM + rb"{16,}"),
    ("stripe-key", "whsec_", _ALNUM + rb"{24,}(?:[+/][A-Za-z0-9+/]{8,})?={0,2}"),
    ("huggingface-token", "api_org_", _ALNUM + rb"{30,}"),
    ("langsmith-key", "lsv2_", rb"\w{30,}"),
    ("perplexity-key", "pplx-", _ALNUM + rb"{32,}"),
    ("pypi-token", "pypi-AgE", rb"[\w-]{40,}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rb"[0-9a-f]{32,}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", rb"[0-9a-fA-F]{32}"),
    ("linear-key", "lin_api_ lin_oauth_", _ALNUM + rb"{30,}"),
    ("supabase-key", "sb_secret_", rb"[\w-]{20,}"),
    ("vercel-token", "vercel_blob_rw_", rb"\w{20,}"),
)  # fmt: skip
# Prefixes that other text might hold: what follows must look random; the last ones must also begin a word.
_WEAK: tuple[tuple[str, str, bytes], ...] = (
    ("huggingface-token", "hf_", _ALNUM + rb"{30,}"),
    ("groq-key", "gsk_", _ALNUM + rb"{40,}"),
    ("xai-key", "xai-", _ALNUM + rb"{40,}"),
    ("replicate-token", "r8_", _ALNUM + rb"{32,}"),
    ("npm-token", "npm_", _ALNUM + rb"{36,}"),
    ("sendgrid-key", "SG.", rb"[\w-]{16,32}\.[\w-]{32,64}"),
    ("databricks-token", "dapi", rb"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9\0])"),
    ("newrelic-key", "NRAK- NRII- NRJS- NRIQ- NRRA- NRAA-", rb"[A-Za-z0-9-]{18,}"),
    ("notion-key", "ntn_", _ALNUM + rb"{40,}"),
    ("notion-key", "secret_", _ALNUM + rb"{43}(?![\w\0])"),
    ("supabase-key", "sbp_", rb"(?:v0_)?[0-9a-f]{40}"),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", _ALNUM + rb"{24,}"),
    ("service-token", "nvapi- tgp_v1_ pcsk_ tvly- pylf_v1_ dckr_pat_ glsa_ glc_ sntrys_ sntryu_ hvs. hvb. hvr. dp.pt. "
     "dp.st. dp.ct. HRKU- ATBB pul- dt0c01. figd_ PMAK- pscale_tkn_ pscale_pw_ pscale_oauth_ rubygems_ sq0csp- sq0atp- "
     "AKCp AGE-SECRET-KEY-1 ops_eyJ xkeysib- sk.eyJ pat-na1- pat-eu1- bkua_ rzp_live_ CCIPAT_ wandb_v1_",
     rb"[\w.+-]{20,}={0,2}"),
    ("service-token", "ATATT3 ATCTT3", rb"[\w.+=-]{20,}"),
)  # fmt: skip
_EDGED: tuple[tuple[str, str, bytes], ...] = (
    ("openai-key", "sk-", _ALNUM + rb"{20,}[\w-]*"),
    ("google-key", "1//0", rb"[\w-]{28,}"),
    ("langsmith-key", "ls__", rb"[0-9a-f]{32}"),
    ("mailgun-key", "key-", rb"(?<!-key-)[0-9a-f]{32}(?![A-Za-z0-9\0])"),
    ("service-token", "EAAA", rb"[\w-]{56,64}(?![\w+/=\0-])"),
    ("service-token", "csk- fw_ e2b_ jina_ nfp_ sgp_ tfp_ napi_", _ALNUM + rb"{20,}"),
)


def _token_rows() -> tuple[Detector, ...]:
    rows = []
    for table, edge, check in ((_STRONG, b"", None), (_WEAK, b"", mixed_token), (_EDGED, _EDGE, mixed_token)):
        for kind, words, body in table:
            anchors = tuple(word.encode() for word in words.split())
            regex = re.compile(edge + b"(?:" + b"|".join(map(re.escape, anchors)) + b")" + body)
            rows.append(Detector(kind, "secret", "run", anchors, regex, check=check))
    return tuple(rows)


def _row(
    kind: str, anchors: str, regex: bytes, *, sweep: Sweep = "run", group: int | str = 0,
    check: MatchCheck | None = None, grow: tuple[bytes, int, int] | None = None, family: SecretFamily = "secret",
) -> Detector:  # fmt: skip
    return Detector(kind, family, sweep, tuple(anchors.encode().split()), re.compile(regex), group, check, grow)


# What stands between a sensitive name and its value, in headers, JSON, code, shells, YAML, XML, queries and prose.
_QUOTE = rb"\\{0,7}[\"'`]"
_BETWEEN = (
    rb"(?P<gap>(?:" + _QUOTE + rb"\]?)?(?: ?\[[^\]\s\0]{0,20}\])?[ \t]*"
    rb"(?:=>|:=|={1,2}|:(?:[ \t]*(?:optional\[)?(?:str|string|bytes|secretstr)\]?(?: \| none)?[ \t]*=)?|"
    rb"(?:%|\\u00)3[ad]|>)[ \t]*|"
    + _QUOTE + rb",[ \t]*(?:" + _QUOTE + rb"value" + _QUOTE + rb"[ \t]*:[ \t]*|(?=b?" + _QUOTE + rb"))|"
    rb"[ \t]+(?:(?:is|was)[ \t:]+)?)"
)  # fmt: skip
_VALUE = (
    rb"(?:[bfru@]{1,2}(?=[\"']))?(?P<q>" + _QUOTE + rb")?"
    rb"(?P<scheme>(?:bearer|basic|token|ssws|bot|apikey|api-key)(?:[ \t]+|%20|\+))?(?P<value>(?(q)"
    rb"(?:(?!(?P=q))(?:[^\s\"\\\0]|\\[^\s\0])){6,4000}|"
    rb"(?:" + BARE + rb"{6,4000}={0,2}|" + BARE + rb"{1,5}" + AMPERSAND + rb")))"
)  # fmt: skip


def _assignment(kind: str, anchors: str, stem: bytes, check: MatchCheck = assigned_value) -> Detector:
    return _row(kind, anchors, b"(?P<stem>" + stem + b")" + _BETWEEN + _VALUE, sweep="word", group="value", check=check)


_PEM_LINE = rb"(?:[\s\"'+,]|\\+[nr])*+[A-Za-z0-9+/=]{16,}+"
_LEFT, _RIGHT = rb"(?<![0a#])(?<![0a][-/])(?<!0\.)", rb"(?![0a])(?![-/][0a])(?!\.0)"

DETECTORS: tuple[Detector, ...] = (
    *_token_rows(),
    _row("openai-key", "T3BlbkFJ", rb"T3BlbkFJ[A-Za-z0-9]{16,}[\w-]*", grow=(NAME, 16, 180), check=openai_key),
    _row("aws-key-id", "AKIA ASIA ABIA ACCA A3T", rb"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}",
         check=aws_key_id),
    _row("aws-secret-key", "AKIA ASIA", rb"A[KS]IA[A-Z0-9]{16}[\"']?[\s,:;|]{1,4}[\"']?([A-Za-z0-9/+]{40})(?![\w/+\0])",
         group=1),
    _row("azure-key", "Q~", rb"Q~[\w.~-]{31,34}(?![\w~\0])", grow=(NAME + b"~.", 4, 4)),
    _row("azure-key", "JQQJ99", rb"JQQJ99[A-Za-z0-9]{20,44}", grow=(LETTERS + DIGITS, 20, 60)),
    _row("azure-key", "sig=", rb"(?<=[?&;])sig=([\w%+/-]{40,}={0,2})", group=1),
    # What a presigned address is signed with; a `&` may be escaped.
    _row("secret", "ignature=", rb"(?:(?<=[?&;6]S)|(?<=[?&;6]X-Amz-S)|(?<=[?&;6]X-Goog-S))ignature="
         rb"([\w%~+/-]{40,}={0,2})", group=1),
    _row("slack-webhook", "hooks.slack.com/", rb"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,})",
         group=1),
    _row("discord-webhook", "/api/webhooks/", rb"/api/webhooks/\d{15,20}/([\w-]{40,})", group=1),
    _row("discord-token", "", rb"([MNO][\w-]{23,27})\.[\w-]{6}\.[\w-]{27,40}(?![\w\0-])", check=discord_token),
    _row("telegram-token", ":AA", rb":AA[\w-]{32,34}(?![\w\0-])", grow=(DIGITS, 8, 10)),
    _row("service-token", "", rb"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", check=mixed_token),
    _row("twilio-key", "", rb"(?:AC|SK)[0-9a-f]{32}(?![A-Za-z0-9\0])", check=mixed_token),
    _row("mailchimp-key", "-us", rb"-us\d{1,2}(?![\w\0])", grow=(HEX, 32, 32)),
    _row("newrelic-key", "NRAL", rb"NRAL(?![\w\0])", grow=(HEX, 36, 36)),
    _row("private-key", "-----BEGIN", rb"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
         rb"(?:(?:[^-\0]|-(?!----))*+-----END [A-Z0-9 ]{0,40}-----|(?:" + _PEM_LINE + rb")*+)", sweep="raw"),
    # The parts behind the first are optional here and demanded by the check, so that a long lookalike is read once.
    _row("jwt", "eyJ", rb"(eyJ[\w-]{8,})(\.[\w-]{4,}(?:\.[\w-]*){1,3})?", check=json_web_token),
    _row("url-password", "://", rb"://[^\s:/@\"'<>\\\0]{0,64}:([^\s@/\"'<>\\\0]{1,256})@[\w.\[{$-]", sweep="raw",
         group=1, check=url_password),
    _row("url-password", "%3a%2f%2f", rb"%3a%2f%2f[\w.+-]{0,64}+%3a((?:[\w.!$*+~-]|%(?!3a|2f)){1,128})%40\w",
         sweep="word", group=1),
    *(_assignment("authorization", stem, stem.encode()) for stem in ("authorization", "_auth")),
    _row("authorization", "bearer", rb"(?P<stem>bearer)(?P<gap>[ \t]+|%20|\+)" + _VALUE, sweep="word", group="value",
         check=lambda view, match, start, end: (start, end) if looks_random(view.raw[start:end]) else None),
    # Of what a response sets the first value alone, since the attributes behind it tell nothing; else all that is sent.
    _row("cookie", "cookie", rb"cookie(?<=set.cookie)" + _BETWEEN + rb"(?:" + _QUOTE + rb")?[\w.$-]{1,64}="
         rb"(?P<value>[^\s\"'\\\0;]{6,4000})", sweep="word", group="value"),
    _row("cookie", "cookie", rb"cookie(?<!set.cookie)" + _BETWEEN + rb"(?:" + _QUOTE + rb")?"
         rb"(?P<value>[\w.$-]{1,64}=[^\r\n\"'\\\0]{6,4000}(?<!\s))", sweep="word", group="value"),
    _assignment("password", "pass", rb"pass(?:word|wd|phrase|code|wort)?\d{0,2}"),
    _assignment("password", "pwd", rb"pwd"),
    _assignment("secret", "secret", rb"secret(?:[_ -]?(?:access[_ -]?)?key|[_-]?(?:token|value|string))?\d{0,2}"),
    _assignment("token", "token", rb"token(?:[_-]?(?:value|secret|string))?\d{0,2}"),
    _assignment("api-key", "key", rb"key(?:[_-]?value)?\d{0,2}"),
    _row("password", "curl", rb"curl\b[^\n\0]{0,200}? (?:-u|--user) [\"']?[^\s:\"'\0]{1,64}:([^\s\"'\0]{6,128})",
         sweep="raw", group=1, check=url_password),
    *(_row("email", at, at.encode() + rb"([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,6})", sweep="raw",
           check=email_address, grow=(EMAIL_LEFT, 1, 64), family="personal") for at in ("@", "%40")),
    *(_row(kind, "", _LEFT + shape + _RIGHT, sweep="shape", check=check, family="personal") for kind, shape, check in (
        ("card-number", rb"0{13,19}", card_number),
        ("card-number", rb"0000(?P<s>[ -])0000(?P=s)0000(?P=s)0000(?:(?P=s)000)?", card_number),
        ("card-number", rb"0000(?P<s>[ -])000000(?P=s)00000?", card_number),
        ("us-ssn", rb"000-00-0000", social_security),
        ("phone", rb"(?:\(000\)[ .-]?000[ .-]|000-000-|000\.000\.)0000", north_american_phone),
        ("phone", rb"0(?:[ .-]?\(000\)[ .-]?000[ .-]|-000-000-|\.000\.000\.| 000 000 )0000", north_american_phone),
        ("phone", rb"\+0(?:[ ().-]{0,2}0){10}", north_american_phone),
        ("phone", rb"(?<!0 )000 000 0000(?! 0)", north_american_phone),
        ("phone", rb"\+0(?:[ ().-]{0,2}0){7,14}", international_phone),
        ("phone", rb"(?<!0 )(?:\(00{1,4}\)[ /-]?|00{1,4}[ -]|00{2,4}/)0{3,8}(?:[ -]0{3,4})?(?! 0)", trunk_phone),
        ("phone", rb"(?<!0 )00(?P<s>[ .-])00(?:(?P=s)00){3}(?! 0)", trunk_phone),
    )),
)  # fmt: skip
# Found from clusters of digits by `iban_at` and `labelled_at`; last in the table's order.
NUMBER_KINDS = ("iban", "us-ssn", "bank-routing", "bank-account", "phone")
# A more telling kind for a value whose name holds one of these words.
_TELLING = (
    ("aws-secret-key", (b"aws", b"secretaccesskey", b"secret_access_key", b"secret access key")),
    ("azure-key", (b"azure", b"accountkey", b"sharedaccesskey", b"ocp-apim")),
    ("cohere-key", (b"cohere", b"co_api_key")),
    ("mistral-key", (b"mistral",)),
)
_RENAMED = ("secret", "token", "api-key")
SECRET_KINDS: tuple[str, ...] = tuple(
    dict.fromkeys([row.kind for row in DETECTORS if row.family == "secret"] + [kind for kind, _ in _TELLING])
)
PERSONAL_KINDS: tuple[str, ...] = tuple(
    dict.fromkeys([row.kind for row in DETECTORS if row.family == "personal"] + list(NUMBER_KINDS))
)


def telling_kind(kind: str, view: View, match: re.Match[bytes]) -> str:
    """The kind, made more precise by the name that the value was given to."""
    if kind in _RENAMED:
        left = view.before(match.start("gap"), 48)
        name = left[len(left.rstrip(NAME + b". ")) :]
        for telling, words in _TELLING:
            if any(word in name for word in words):
                return telling
    return kind


_SHAPES = tuple((order, row) for order, row in enumerate(DETECTORS) if row.sweep == "shape")


def _shape_hits(shape: bytes) -> tuple[TextRange, ...]:
    return tuple((order, m.start()) for order, row in _SHAPES for m in row.regex.finditer(shape))


_remembered_hits = lru_cache(maxsize=4096)(_shape_hits)


def clusters(view: View) -> Iterator[tuple[int, int, tuple[TextRange, ...]]]:
    """Where digits cluster, and which rows their shape fits; the same few shapes recur, so they are remembered."""
    for match in _CLUSTER.finditer(view.shape):
        start, end = match.span()
        base = max(0, start - 3)
        shape = view.shape[base : end + 2]
        yield start, base, _remembered_hits(shape) if end - base < 64 else _shape_hits(shape)
