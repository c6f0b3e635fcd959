"""The table of errors: which code of ours the words of a service stand for.

A row has the names of the errors (codes, types, statuses of services, without case and punctuation), phrases
of their messages in lower case, and the statuses at which the phrases count. The rows are read from the top,
and the first that fits decides. `PLAIN` statuses come next: they say more than the general names of `VAGUE`.
All other statuses are the last to be asked.

Errors are a closed list, words for success an open one: `finishes.py` has the words for the end of an answer.
The wording is that of recorded answers and public reports; `tests/data/errors.jsonl` has an answer of each.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

RETRYABLE: Final = frozenset({"rate_limit_error", "overloaded_error", "timeout_error", "api_error"})
"""Codes of errors that another attempt may cure."""
FINAL: Final = frozenset({"context_full", "billing_error"})
"""Codes of errors that no other attempt cures, even if a header names a wait."""
REFUSED: Final = frozenset(
    {"authentication_error", "permission_error", "not_found_error", "invalid_request_error", *FINAL}
)
"""Codes of errors that no other attempt cures, unless a header says so."""

_SERVER: Final = frozenset({200, *range(500, 600)})
_ANY_BUT_ACCESS: Final = _SERVER | {400, 408, 409, 422, 424, 425, 429, 499}
_BAD: Final = frozenset({200, 400, 413, 422, 429, 500, 502})
_ACCESS: Final = frozenset({200, 400, 401, 403, 500})


class Row(NamedTuple):
    """The words for one code. at: the statuses at which the phrases count; empty for all."""

    code: str
    names: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    at: frozenset[int] = frozenset()


ROWS: Final = (
    Row(
        "context_full",
        frozenset(
            {
                "contextlengthexceeded",  # OpenAI, Azure, Groq, OpenRouter
                "contextwindowexceeded",
                "contextwindowexceedederror",  # LiteLLM
                "exceedcontextsizeerror",  # llama.cpp
                "modelcontextwindowexceeded",
                "modelmaxprompttokensexceeded",  # GitHub Copilot
                "requesttoolarge",  # Messages API
                "tokenslimitreached",  # GitHub Models
                "inputtoolong",
                "prompttoolong",
            }
        ),
        (
            "prompt is too long",  # Messages API, Bedrock, Vertex
            "prompt too long",  # Ollama
            "exceed context limit",  # Messages API
            "input is too long",  # Bedrock
            "input tokens exceeded",  # Bedrock (OpenAI's models)
            "maximum context length",  # OpenAI, vLLM, OpenRouter, DeepSeek, Mistral
            "context_length_exceeded",
            "contextwindowexceedederror",  # LiteLLM
            "reduce the length of the messages",  # Groq, Cerebras
            "exceeds the maximum number of tokens",  # Gemini
            "number of tokens allowed",  # Gemini, of uploaded files
            "maximum prompt length",  # xAI
            "range of input length should be",  # DashScope
            "context size",  # llama.cpp, LM Studio with MLX
            "context length",  # SGLang, Together, LM Studio, Ollama
            "context window",  # OpenAI's Responses, MiniMax
            "n_ctx",  # LM Studio: Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)
            "maximum model length",  # vLLM
            "max_model_len",  # vLLM
            "max_num_tokens",  # TensorRT-LLM
            "maximum allowed length",  # SGLang
            "maximum allowed input length",  # OpenRouter, Poolside
            "`inputs` tokens + `max_new_tokens`",  # Text Generation Inference
            "`inputs` must have less than",  # Text Generation Inference
            "model token limit",  # Moonshot
            "too large for model with",  # Mistral
            "prompt exceeds max length",  # Z.ai 1261
            "total message token length exceed",  # Volcengine
            "prompt token count of",  # GitHub Copilot
            "too many input tokens",
            "too many tokens: size limit exceeded",  # Cohere: "too many tokens: total number of tokens ..."
            "too many tokens: total number of tokens",  # Cohere
            "tokens in request more than max tokens allowed",
            "request too large for model",  # Groq, OpenAI: more tokens than a whole minute has
            "must be reduced in order to run",  # OpenAI, of the same
            "input length exceeds",
            "prompt exceeds the length limit",
        ),
        _BAD,
    ),
    Row(
        "billing_error",
        frozenset(
            {
                "insufficientquota",  # OpenAI, with status 429
                "billinghardlimitreached",
                "billingnotactive",
                "billingerror",
                "creditbalanceexhausted",
                "organizationspendlimitexceeded",
                "organizationusagelimitexceeded",
                "projectspendlimitexceeded",
                "exceededcurrentquotaerror",  # Moonshot, 429
                "insufficientbalance",
                "insufficientbalanceerror",  # MiniMax, 429
                "insufficientcredits",
                "arrearage",  # DashScope, 400
                "freetieronly",  # DashScope: AllocationQuota.FreeTierOnly, 403
                "accountoverdueerror",  # Volcengine, 403
                "servicequotaexceededexception",  # Bedrock
                "dailycostlimitexceeded", "creditsexhausted",  # gateways, 429
                "paymentrequired",
                # Z.ai, 429: https://docs.z.ai/api-reference/api-code
                "1113", "1308", "1309", "1310", "1311", "1313", "1314", "1315", "1316", "1317", "1318",
                "1319", "1320", "1321",
            }
        ),
        (
            "credit balance is too low",  # Messages API, 400
            "insufficient balance",  # DeepSeek 402, MiniMax 500
            "insufficient credits",
            "requires more credits",  # OpenRouter
            "used all available credits",  # xAI, 403 or 429
            "monthly spending limit",  # xAI
            "monthly included credits",  # Hugging Face
            "insufficient_quota",
            "billing hard limit",
            "enable billing on your project",  # Gemini, FAILED_PRECONDITION
            "in good standing",  # DashScope
            "limit: 0,",  # Gemini, 429: the plan has none of this model, whatever wait stands beside it
        ),
    ),
    Row(
        "rate_limit_error",
        frozenset(
            {
                "ratelimiterror",
                "ratelimitexceeded",
                "ratelimitreachederror",  # Moonshot
                "ratelimit",
                "toomanyrequests",
                "toomanyrequestsexception",
                "throttlingexception",  # Bedrock
                "throttling",
                "resourceexhausted",  # Gemini
                "servicetiercapacityexceeded",  # Mistral 3505
                "concurrencylimitexceeded",
                "tokensquotaexceeded",
                "429",
                "1302", "1303",  # Z.ai
            }
        ),
        (
            "rate limit",
            "ratelimit",  # names in words: litellm.RateLimitError
            "rate_limit",
            "too many requests",
            "throttl",  # DashScope: Throttling.RateQuota
            "too many tokens, please wait",  # Bedrock
            "too many concurrent",  # Cloudflare, Mistral
            "quota exceeded for",  # Gemini
            "qps request limit",  # Baidu
            "service tier capacity exceeded",  # Mistral
        ),
        _ANY_BUT_ACCESS | {403},  # Google's older APIs answer 403
    ),
    Row(
        "overloaded_error",
        frozenset(
            {
                "overloadederror",  # Messages API
                "overloaded",  # Text Generation Inference, 429
                "serverisoverloaded",  # OpenAI
                "serveroverloaded",  # Volcengine
                "engineoverloadederror",  # Moonshot, 429
                "serviceunavailable",
                "serviceunavailableerror",
                "serviceunavailableexception",  # Bedrock
                "modelnotreadyexception",  # Bedrock
                "slowdown",
                "unavailable",  # Gemini; llama.cpp: unavailable_error
                "unavailableerror",
                "providerunavailable",  # OpenRouter
                "provideroverloaded",
                "nocapacity",
                "capacityexceeded",
                "insufficientsystemresource",  # DeepSeek
                "503", "529",
                "1305", "1312",  # Z.ai
            }
        ),
        (
            "overloaded",
            "over capacity",
            "at capacity",
            "currently loading",  # Hugging Face
            "loading model",  # llama.cpp
            "service unavailable",
            "service_unavailable",
            "temporarily unavailable",
            "temporarily overloaded",
            "server busy",
            "server is busy",
            "high demand",
            "no healthy upstream",  # Envoy
            "no available channel",  # one-api
            "no instances available",  # OpenRouter
            "no deployments available",  # LiteLLM
            "upstream connect error",  # Envoy
            "capacity exceeded",
            "not ready",
        ),
        _ANY_BUT_ACCESS,
    ),
    Row(
        "timeout_error",
        frozenset(
            {
                "timeouterror",
                "timeout",
                "requesttimeout",
                "gatewaytimeout",
                "deadlineexceeded",  # Gemini
                "modeltimeoutexception",  # Bedrock, 408
                "504", "524",
            }
        ),
        ("timed out", "timeout", "deadline exceeded", "deadline expired"),
        _ANY_BUT_ACCESS - {400, 422},  # there it is a parameter
    ),
    Row(
        "authentication_error",
        frozenset(
            {
                "authenticationerror",
                "invalidapikey",
                "apikeyinvalid",  # Gemini, 400
                "apikeyexpired",
                "unauthenticated",
                "unauthorized",
                "invalidauthentication",
                "invalidauthenticationerror",  # Moonshot
                "incorrectapikeyerror",  # Moonshot
                "unrecognizedclientexception",  # Bedrock, 403
                "invalidsignatureexception",
                "expiredtokenexception",
                "expiredtoken",
                "401",
            }
        ),
        (
            "incorrect api key",
            "invalid api key",
            "invalid api-key",  # DashScope
            "invalid x-api-key",
            "api key not valid",
            "api key expired",
            "no auth credentials",
            "login fail",  # MiniMax 1004
        ),
        _ACCESS,
    ),
    Row(
        "not_found_error",
        frozenset(
            {
                "notfounderror",
                "notfound",
                "modelnotfound",
                "modelnotexist",
                "resourcenotfoundexception",  # Bedrock
                "deploymentnotfound",  # Azure
                "404",
            }
        ),
        (
            "is not a valid model id",  # OpenRouter, 400
            "provided model identifier is invalid",  # Bedrock, 400
        ),
        _BAD,
    ),
    Row(
        "permission_error",
        frozenset({"permissionerror", "permissiondenied", "accessdeniedexception", "accessdenied", "403"}),
    ),
    Row("billing_error", frozenset({"402"})),
    Row("context_full", frozenset({"413"})),
)  # fmt: skip

DAILY: Final = (
    "per day", "per-day", "perday", "daily limit", "daily quota",
    "per week", "weekly", "per month", "monthly", "billing cycle",  # Moonshot: monthly usage limit
)  # fmt: skip
"""Words for a limit that no wait of minutes cures, unless the service says how long to wait."""

PLAIN: Final[Mapping[int, str]] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "context_full",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Statuses with one meaning for all services."""

VAGUE: Final = (
    Row(
        "api_error",
        frozenset(
            {
                "apierror",
                "servererror",
                "internalservererror",
                "internalserverexception",  # Bedrock
                "internalerror",
                "internal",  # Gemini
                "modelerrorexception",  # Bedrock, 424
                "modelstreamerrorexception",  # Bedrock, in a stream
                "generation", "incompletegeneration",  # Text Generation Inference, 424
                "toolusefailed", "jsonvalidatefailed", "outputparsefailed",  # Groq, 400: the model's output
                "engineerror",
                "upstreamerror",
                "providererror",
                "badgateway",
                "unknown",  # Gemini
                "aborted",  # Gemini
                "500", "502", "520", "521", "522", "523", "530",
                "1234",  # Z.ai: network error
            }
        ),
        (
            "internal server error",
            "internal error",
            "server had an error",  # OpenAI
            "an error occurred while processing your request",  # OpenAI
            "model produced invalid sequence",  # Bedrock
            "failed during generation",  # Text Generation Inference
            "failed to call a function",  # Groq, from a gateway without its code
            "connection reset",
            "upstream error",
            "error from provider",
            "provider returned error",  # OpenRouter
        ),
    ),
    Row(
        "invalid_request_error",
        frozenset(
            {
                "invalidrequesterror",
                "invalidrequest",
                "invalidargument",  # Gemini
                "invalidparameter",  # DashScope
                "invalidparametererror",
                "validationexception",  # Bedrock
                "validation",  # Text Generation Inference
                "badrequest",
                "badrequesterror",  # vLLM, SGLang
                "unprocessableentity",
                "failedprecondition",
                "400", "422",
                "1210", "1213", "1214",  # Z.ai
            }
        ),
    ),
)  # fmt: skip

STATUSES: Final[Mapping[int, str]] = {
    **PLAIN,
    400: "invalid_request_error",
    422: "invalid_request_error",
    424: "api_error",  # Bedrock, Text Generation Inference: the model failed while it generated
    500: "api_error",
    502: "api_error",
}
"""The meaning of a status when the answer says nothing else."""

TRANSIENT: Final = frozenset({408, 409, 424, 425, 429, 499})
"""Statuses below 500 that another attempt may cure."""

LOST: Final = frozenset({408, 499, 502, 504, 520, 522, 524})
"""Statuses of a gateway that has lost an answer: the service may have made it, and bills it then."""
