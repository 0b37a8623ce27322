"""Which reply is whose: real bodies of every provider, and the class that each of them has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.wire.gateway.refusals import CallOutcomes, ProviderRefusal, refusal_reason


def openai(message: str, kind: str = "invalid_request_error", code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def gemini(code: int, status: str, message: str, reason: str = "") -> dict[str, Any]:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}] if reason else []
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


QUOTA = "You exceeded your current quota, please check your plan and billing details."
LONG = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens."

THE_WORLDS: list[tuple[str, int, Any]] = [
    ("key", 401, openai("Incorrect API key provided: sk-abc***. You can find it at …", code="invalid_api_key")),
    ("permission", 403, openai("Country not supported", "request_forbidden", "unsupported_country_region_territory")),
    ("permission", 403, openai("Project `p` does not have access to model `gpt-5`", code="model_not_found")),
    ("model", 404, openai("The model `gpt-9` does not exist or you do not have access to it.", code="model_not_found")),
    ("address", 404, openai("Invalid URL (POST /v1/v1/chat/completions)")),
    ("balance", 429, openai(QUOTA, "insufficient_quota", "insufficient_quota")),
    ("balance", 400, openai("Billing hard limit has been reached", code="billing_hard_limit_reached")),
    ("overload", 429, openai("Rate limit reached for gpt-4o", "tokens", "rate_limit_exceeded")),
    ("down", 500, openai("The server had an error", "server_error")),
    ("down", 503, openai("That engine is down", "server_error")),
    ("key", 401, anthropic("authentication_error", "invalid x-api-key")),
    ("permission", 403, anthropic("permission_error", "Your API key does not have permission to use the resource")),
    ("model", 404, anthropic("not_found_error", "model: claude-9-opus")),
    ("address", 404, anthropic("not_found_error", "Not Found")),
    ("balance", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API.")),
    ("overload", 429, anthropic("rate_limit_error", "Number of request tokens has exceeded your rate limit")),
    ("overload", 529, anthropic("overloaded_error", "Overloaded")),
    ("overload", 200, anthropic("overloaded_error", "Overloaded")),  # in the middle of a stream
    ("down", 500, anthropic("api_error", "Internal server error")),
    ("key", 400, gemini(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", "API_KEY_INVALID")),
    ("permission", 403, gemini(403, "PERMISSION_DENIED", "The caller does not have permission")),
    ("permission", 400, gemini(400, "FAILED_PRECONDITION", "User location is not supported for the API use.")),
    ("model", 404, gemini(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta")),
    ("overload", 429, gemini(429, "RESOURCE_EXHAUSTED", QUOTA)),  # the same words for the limit of a minute
    ("down", 503, gemini(503, "UNAVAILABLE", "The service is currently unavailable.")),
    ("permission", 403, {"__type": "com.amazon#AccessDeniedException", "message": "User: x is not authorized"}),
    ("key", 403, {"__type": "UnrecognizedClientException", "message": "The security token … is invalid."}),
    ("key", 403, {"__type": "ExpiredTokenException", "message": "The security token included in the request …"}),
    ("overload", 429, {"__type": "ThrottlingException", "message": "Too many requests"}),
    ("overload", 429, {"__type": "ModelNotReadyException", "message": "The model is not ready"}),
    ("model", 400, {"__type": "ValidationException", "message": "The provided model identifier is invalid."}),
    ("key", 401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong API …"}}),
    ("model", 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource …"}}),
    ("address", 404, {"error": {"code": "404", "message": "Resource not found"}}),
    ("overload", 429, {"error": {"code": "429", "message": "Requests have exceeded call rate limit"}}),
    (
        "model",
        404,
        {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
    ),
    ("model", 404, openai('model "llama9" not found, try pulling it first', "api_error")),
    ("model", 404, {"error": "model 'llama9' not found"}),
    ("address", 404, {"detail": "Not Found"}),
    ("address", 404, "404 page not found"),
    ("address", 404, "<html><body>nginx</body></html>"),
    ("address", 405, {"detail": "Method Not Allowed"}),
    ("balance", 402, {"error": {"code": 402, "message": "Insufficient credits"}}),
    ("overload", 200, {"error": {"code": 429, "message": "Provider returned error"}}),
    ("down", 502, "<html>Bad gateway</html>"),
    ("down", 504, ""),
]

THE_AGENTS: list[tuple[int, Any]] = [
    (400, openai(LONG, code="context_length_exceeded")),
    (400, openai("Invalid type for 'messages[0].content'")),
    (400, openai("Invalid schema for function 'f': 'x' is not valid", code="invalid_function_parameters")),
    (400, openai("The response was filtered", code="content_filter")),
    (400, openai("Invalid value: 'API key not valid'. Supported values are: 'user'.")),  # it repeats what was sent
    (400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
    (400, anthropic("invalid_request_error", "tools.0.input_schema: JSON schema is invalid")),
    (404, anthropic("not_found_error", "File not found: file_1")),
    (413, anthropic("request_too_large", "Request exceeds the maximum size")),
    (400, gemini(400, "INVALID_ARGUMENT", "Please use a valid role: user, model.")),
    (400, {"__type": "ValidationException", "message": "Input is too long for requested model."}),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}),
    (403, {"error": {"code": 403, "message": "Your chosen model requires moderation and your input was flagged"}}),
    (200, {"choices": []}),
]


def body(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@pytest.mark.parametrize(("kind", "status", "reply"), THE_WORLDS)
def test_what_the_world_refuses_has_a_class(kind: str, status: int, reply: Any) -> None:
    assert refusal_reason(status, body(reply)) == f"infrastructure.provider.{kind}"


@pytest.mark.parametrize(("status", "reply"), THE_AGENTS)
def test_what_the_agent_asked_wrongly_stays_the_agents(status: int, reply: Any) -> None:
    assert refusal_reason(status, body(reply)) is None


def test_no_reply_at_all() -> None:
    assert refusal_reason(None, sent=False) == "infrastructure.provider.unreached"
    assert refusal_reason(None) == "infrastructure.provider.down"


def test_amazon_names_its_error_in_a_header() -> None:
    kind = "UnrecognizedClientException:http://internal.amazon.com/coral/"
    assert refusal_reason(403, b'{"message": "no"}', kind=kind) == "infrastructure.provider.key"


def test_an_episode_is_unanswered_only_where_the_world_refused_all_its_calls() -> None:
    key = ProviderRefusal(reason="infrastructure.provider.key", provider="openai", status=401)
    outcomes = CallOutcomes()
    assert (outcomes.unanswered, outcomes.last, outcomes.lost) == (None, None, "")
    outcomes.refused(key, "a")
    outcomes.refused(key, "b")
    assert outcomes.unanswered is outcomes.last is key
    outcomes.reached("a")
    assert (outcomes.unanswered, outcomes.last) == (None, None)
    assert outcomes.lost == key.reason, "nobody answered b"
    outcomes.reached("b")
    assert outcomes.lost == ""


def test_a_call_beside_the_gateway_may_have_been_answered(gateway: Any, record: Any) -> None:
    key = ProviderRefusal(reason="infrastructure.provider.key", provider="openai", status=401)
    joined = gateway.join(record)
    joined.outcomes.refused(key, "a")
    assert joined.outcomes.unanswered is key
    gateway.bypassed(joined.token, "bedrock-runtime.eu-west-1.amazonaws.com")
    assert joined.outcomes.unanswered is None
    joined.leave()
