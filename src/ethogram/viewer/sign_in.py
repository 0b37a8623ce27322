"""The page where a person signs in with a token, and the cookie that keeps it.

A token is typed into a form and kept by the browser in a cookie that no script can read and no other site can send. It
never stands in an address, where histories, logs and links would keep it.
"""

from __future__ import annotations

import base64
from hashlib import sha256
from html import escape

from ethogram.wire.access import COOKIE

SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"
COOKIE_SECONDS = 30 * 86_400
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto; padding: 0 1rem }
:root { color-scheme: light dark }
input, button { font: inherit; padding: .4rem .6rem; width: 100%; box-sizing: border-box; margin: .3rem 0 }
"""
# the part of an address after # stays in the browser; sent along with the form, it is there again after signing in
SCRIPT = "document.forms[0].action += location.hash"


def _hash_of(inline: str) -> str:
    """How a policy names the one inline style or script that it allows."""
    return f"sha256-{base64.b64encode(sha256(inline.encode()).digest()).decode()}"


FORM_POLICY = (
    f"default-src 'none'; style-src '{_hash_of(STYLE)}'; script-src '{_hash_of(SCRIPT)}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def sign_in_form(onward: str, problem: str = "") -> str:
    """The form; `onward` is where to go afterwards, `problem` what was wrong with the last token."""
    told = f'<p role="alert">{escape(problem)}.</p>' if problem else ""
    return (
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style><main><h1>Ethogram</h1>{told}'
        f'<form method="post" action="{SIGN_IN}"><label for="token">Token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>'
        f'<input type="hidden" name="next" value="{escape(own_path(onward))}"><button>Sign in</button></form>'
        "<p>Make one where the runs are: <code>ethogram token create NAME</code></p></main>"
        f"<script>{SCRIPT}</script>"
    )


def own_path(onward: str) -> str:
    """Where to go after signing in: a path of this server and nothing else."""
    plain = (
        onward.startswith("/") and not onward.startswith(("//", "/\\")) and onward.isascii() and onward.isprintable()
    )
    return onward if plain else "/"


def token_cookie(token: str, *, secure: bool) -> str:
    """The cookie that keeps a token; without one, it is forgotten."""
    seconds = COOKIE_SECONDS if token else 0
    return f"{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
