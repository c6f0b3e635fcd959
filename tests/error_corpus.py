"""Errors of model services, servers and gateways, as they send them, with the meaning that each must have.

The bodies are facts: they come from documentation and public reports, without the names of accounts.
"""

import json
from typing import Any, NamedTuple


class Case(NamedTuple):
    """One answer. code, retry, wait_ms: its meaning. text: the body, if it is no JSON."""

    who: str
    status: int
    body: Any
    code: str
    retry: bool = False
    wait_ms: int | None = None
    headers: dict[str, str] = {}

    @property
    def raw(self) -> bytes:
        """Return the body as bytes."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    @property
    def document(self) -> Any:
        """Return the body as a reader has it: decoded JSON, or a text."""
        return self.body.decode() if isinstance(self.body, bytes) else self.body


def _of(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


FULL = [
    Case("OpenAI", 400, _of("This model's maximum context length is 8192 tokens. However, your messages resulted in 9500 tokens. Please reduce the length of the messages.", type="invalid_request_error", param="messages", code="context_length_exceeded"), "context_full"),
    Case("OpenAI Responses", 400, _of("Your input exceeds the context window of this model. Please adjust your input and try again.", type="invalid_request_error", param="input", code="context_length_exceeded"), "context_full"),
    Case("OpenAI over a minute's tokens", 429, _of("Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 45000. The input or output tokens must be reduced in order to run successfully.", type="tokens", code="rate_limit_exceeded"), "context_full"),
    Case("llama.cpp", 400, {"error": {"code": 400, "message": "request (124071 tokens) exceeds the available context size (123904 tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 124071, "n_ctx": 123904}}, "context_full"),
    Case("llama.cpp, older", 400, {"error": {"code": 400, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "invalid_request_error"}}, "context_full"),
    Case("llama.cpp with status 500", 500, {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}, "context_full"),
    Case("llama-cpp-python", 400, _of("This model's maximum context length is 2048 tokens. However, you requested 3000 tokens (2800 in the messages, 200 in the completion).", type="invalid_request_error", code="context_length_exceeded"), "context_full"),
    Case("vLLM", 400, _of("This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens.", type="BadRequestError", param="input_tokens", code=400), "context_full"),
    Case("vLLM, older", 400, {"object": "error", "message": "The decoder prompt (length 10127) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.", "type": "BadRequestError", "param": None, "code": 400}, "context_full"),
    Case("SGLang", 400, {"object": "error", "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).", "type": "BadRequestError", "param": None, "code": 400}, "context_full"),
    Case("SGLang, of its memory", 400, {"object": "error", "message": "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate.", "type": "BadRequestError", "code": 400}, "context_full"),
    Case("Text Generation Inference", 422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`", "error_type": "validation"}, "context_full"),
    Case("Text Generation Inference, input", 422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1150", "error_type": "validation"}, "context_full"),
    Case("LM Studio", 400, {"error": "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input."}, "context_full"),
    Case("LM Studio, n_keep", 400, {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}, "context_full"),
    Case("Ollama", 400, {"error": "prompt too long; exceeded max context length by 4 tokens"}, "context_full"),
    Case("Ollama Cloud", 400, _of("input length exceeds context length", type="api_error", param=None, code=None), "context_full"),
    Case("DashScope", 400, {"error": {"code": "invalid_parameter_error", "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]", "param": None, "type": "invalid_request_error"}, "request_id": "81a3"}, "context_full"),
    Case("DashScope, its own form", 400, {"code": "InvalidParameter", "message": "Range of input length should be [1, 30720]", "request_id": "x"}, "context_full"),
    Case("Groq", 400, _of("Please reduce the length of the messages or completion.", type="invalid_request_error", param="messages", code="context_length_exceeded"), "context_full"),
    Case("Groq over a minute's tokens", 413, _of("Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 6294, please reduce your message size and try again.", type="tokens", code="rate_limit_exceeded"), "context_full"),
    Case("Mistral", 400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "param": None, "code": "3051"}, "context_full"),
    Case("Cohere", 400, {"message": "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try using a shorter prompt or a smaller max_tokens value."}, "context_full"),
    Case("OpenRouter", 400, {"error": {"message": "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (139000 of text input, 1000 in the output). Please reduce the length of either one.", "code": 400, "metadata": {"provider_name": None}}}, "context_full"),
    Case("OpenRouter, of a provider", 400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum","type":"invalid_request_error"}}', "provider_name": "Anthropic"}}}, "context_full"),
    Case("xAI", 400, {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}, "context_full"),
    Case("DeepSeek", 400, _of("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.", type="invalid_request_error", param=None, code="invalid_request_error"), "context_full"),
    Case("Gemini", 400, {"error": {"code": 400, "message": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", "status": "INVALID_ARGUMENT"}}, "context_full"),
    Case("Bedrock", 400, {"message": "Input is too long for requested model."}, "context_full", headers={"x-amzn-errortype": "ValidationException"}),
    Case("Messages API", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 209353 tokens > 199999 maximum"}}, "context_full"),
    Case("Messages API, with max_tokens", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length"}}, "context_full"),
    Case("Messages API, in bytes", 413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, "context_full"),
    Case("Moonshot", 400, _of("Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)", type="invalid_request_error"), "context_full"),
    Case("MiniMax", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "invalid params, context window exceeds limit (2013)"}}, "context_full"),
    Case("Z.ai", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, "context_full"),
    Case("GitHub Copilot", 400, _of("prompt token count of 131175 exceeds the limit of 128000", code="model_max_prompt_tokens_exceeded"), "context_full"),
    Case("GitHub Models", 413, {"error": {"code": "tokens_limit_reached", "message": "Request body too large for gpt-4o model. Max size: 8000 tokens.", "details": "Request body too large for gpt-4o model. Max size: 8000 tokens."}}, "context_full"),
    Case("Together", 422, _of("Input validation error: the input (33000 tokens) is longer than the model's context length (32769 tokens).", type="invalid_request_error", param="max_tokens", code=None), "context_full"),
    Case("Cerebras", 400, {"message": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}, "context_full"),
    Case("LiteLLM", 400, _of("litellm.ContextWindowExceededError: litellm.BadRequestError: VertexAIException - too long", type=None, param=None, code="400"), "context_full"),
    Case("Volcengine", 400, {"error": {"code": "InvalidParameter", "message": "Total message token length exceed model limit: 128000", "param": "", "type": "BadRequest"}}, "context_full"),
    Case("nginx", 413, b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n</html>", "context_full"),
]

ACCOUNT = [
    Case("OpenAI", 429, _of("You exceeded your current quota, please check your plan and billing details.", type="insufficient_quota", param=None, code="insufficient_quota"), "billing_error"),
    Case("OpenAI, that says when", 429, _of("You exceeded your current quota, please check your plan and billing details.", type="insufficient_quota", code="insufficient_quota"), "billing_error", False, 1_000, {"retry-after": "1", "x-should-retry": "true"}),
    Case("Messages API", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}, "billing_error"),
    Case("DeepSeek", 402, {"error": {"message": "Insufficient Balance", "type": "unknown_error", "param": None, "code": "invalid_request_error"}}, "billing_error"),
    Case("OpenRouter", 402, {"error": {"message": "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 2666.", "code": 402, "metadata": {"provider_name": None}}}, "billing_error"),
    Case("MiniMax", 500, {"type": "error", "error": {"type": "api_error", "message": "insufficient balance (1008)"}, "request_id": "0599"}, "billing_error"),
    Case("ModelScope", 429, {"error": {"http_code": "429", "message": "insufficient balance (1008)", "type": "insufficient_balance_error"}}, "billing_error"),
    Case("Z.ai", 429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}}, "billing_error"),
    Case("Z.ai, Messages", 429, {"type": "error", "error": {"type": "rate_limit_error", "code": "1113", "message": "[1113][No resource package.]"}}, "billing_error"),
    Case("Moonshot", 429, _of("Your account x is suspended, please check your plan and billing details", type="exceeded_current_quota_error"), "billing_error"),
    Case("DashScope", 400, {"error": {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing.", "type": "Arrearage"}}, "billing_error"),
    Case("DashScope, free tier", 403, {"error": {"code": "AllocationQuota.FreeTierOnly", "message": "The free tier of the model has been exhausted.", "type": "AllocationQuota.FreeTierOnly"}}, "billing_error"),
    Case("xAI", 403, {"code": "The caller does not have permission to execute the specified operation", "error": "Your team x has either used all available credits or reached its monthly spending limit."}, "billing_error"),
    Case("Hugging Face", 402, {"error": "You have exceeded your monthly included credits for Inference Providers. Subscribe to PRO to get 20x more monthly included credits."}, "billing_error"),
    Case("Gemini, of a day", 429, {"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details.", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}, "billing_error"),
    Case("OpenRouter, of a day", 429, {"error": {"message": "Rate limit exceeded: free-models-per-day-high-balance.", "type": "rate_limit_error", "code": "429"}}, "billing_error"),
    Case("OpenAI", 401, _of("Incorrect API key provided: sk-x. You can find your API key at https://platform.openai.com/account/api-keys.", type="invalid_request_error", param=None, code="invalid_api_key"), "authentication_error"),
    Case("OpenAI, without a key", 401, _of("You didn't provide an API key.", type="invalid_request_error", param=None, code=None), "authentication_error"),
    Case("Gemini", 400, {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}, "authentication_error"),
    Case("Bedrock", 403, {"message": "The security token included in the request is invalid."}, "authentication_error", headers={"x-amzn-errortype": "UnrecognizedClientException:http://internal.amazon.com/coral/"}),
    Case("Moonshot", 401, _of("Invalid Authentication", type="invalid_authentication_error"), "authentication_error"),
    Case("Bedrock, no access", 403, {"message": "You don't have access to the model with the specified model ID."}, "permission_error", headers={"x-amzn-errortype": "AccessDeniedException"}),
    Case("OpenAI, region", 403, _of("Country, region, or territory not supported", code="unsupported_country_region_territory", type="request_forbidden"), "permission_error"),
    Case("OpenAI, model", 404, _of("The model `gpt-9` does not exist or you do not have access to it.", type="invalid_request_error", param=None, code="model_not_found"), "not_found_error"),
    Case("Ollama, model", 404, _of("model 'x' not found", type="api_error", param=None, code=None), "not_found_error"),
    Case("OpenRouter, model", 400, {"error": {"message": "x/y is not a valid model ID", "code": 400}}, "not_found_error"),
    Case("Azure, deployment", 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}, "not_found_error"),
]

LIMITS = [
    Case("OpenAI", 429, _of("Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 644ms.", type="tokens", param=None, code="rate_limit_exceeded"), "rate_limit_error", True, 644),
    Case("OpenAI, of a day", 429, _of("Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.", type="requests", code="rate_limit_exceeded"), "rate_limit_error", True, 432_000),
    Case("OpenAI, in headers", 429, _of("Too many requests.", type="requests", code="rate_limit_exceeded"), "rate_limit_error", True, 6_000, {"x-ratelimit-remaining-requests": "14370", "x-ratelimit-reset-requests": "2m59.56s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6s"}),
    Case("Groq", 429, _of("Rate limit reached for model `llama3-70b-8192` in organization `org_x` on tokens per minute (TPM): Limit 7000, Used 0, Requested ~12903. Please try again in 50.597142857s. Visit https://console.groq.com/docs/rate-limits for more information.", type="tokens", code="rate_limit_exceeded"), "rate_limit_error", True, 50_598),
    Case("Groq, of a day", 429, _of("Rate limit reached for model `llama-3.3-70b-versatile` on tokens per day (TPD): Limit 100000, Used 99926, Requested 1739. Please try again in 23m58.56s. Need more tokens? Upgrade today", type="tokens", code="rate_limit_exceeded"), "rate_limit_error", True, 1_438_560),
    Case("Azure", 429, {"error": {"code": "429", "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-02-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 59 seconds."}}, "rate_limit_error", True, 59_000),
    Case("Azure APIM", 429, {"statusCode": 429, "message": "Rate limit is exceeded. Try again in 17 seconds."}, "rate_limit_error", True, 17_000),
    Case("Azure, ms", 429, {"error": {"code": "429", "message": "Rate limit exceeded."}}, "rate_limit_error", True, 1_250, {"retry-after-ms": "1250", "retry-after": "2"}),
    Case("Messages API", 429, {"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your organization's rate limit of 40,000 input tokens per minute."}}, "rate_limit_error", True, 20_000, {"retry-after": "20"}),
    Case("Messages API, limits only", 429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, "rate_limit_error", True, 30_000, {"date": "Sat, 28 Nov 2026 06:00:00 GMT", "anthropic-ratelimit-tokens-reset": "2026-11-28T06:00:30Z", "anthropic-ratelimit-tokens-remaining": "0"}),
    Case("Gemini, of a minute", 429, {"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details.\nPlease retry in 38.4s.", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"}]}}, "rate_limit_error", True, 38_000),
    Case("Gemini, of a day that says when", 429, {"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 36.429760048s.", "status": "RESOURCE_EXHAUSTED", "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}, "rate_limit_error", True, 36_430),
    Case("Gemini in a list", 429, [{"error": {"code": 429, "message": "Resource exhausted. Please try again later.", "errors": [{"message": "Resource exhausted.", "domain": "global", "reason": "rateLimitExceeded"}], "status": "RESOURCE_EXHAUSTED"}}], "rate_limit_error", True),
    Case("Gemini in a text", 429, _of('{\n  "error": {\n    "code": 429,\n    "message": "Resource has been exhausted (e.g. check quota).",\n    "status": "RESOURCE_EXHAUSTED"\n  }\n}\n', code=429, status="Too Many Requests"), "rate_limit_error", True),
    Case("Vertex, refused by an older API", 403, {"error": {"code": 403, "message": "Rate Limit Exceeded", "errors": [{"reason": "rateLimitExceeded"}]}}, "rate_limit_error", True),
    Case("OpenRouter", 429, {"error": {"message": "Rate limit exceeded: free-models-per-min.", "code": 429, "metadata": {"headers": {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795845602200"}}}}, "rate_limit_error", True, 2_200, {"date": "Sat, 28 Nov 2026 06:00:00 GMT"}),
    Case("OpenRouter, of a provider", 429, {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "x/y:free is temporarily rate-limited upstream. Please retry shortly.", "provider_name": "Chutes", "error_type": "rate_limit_exceeded"}}}, "rate_limit_error", True),
    Case("Bedrock", 429, {"message": "Too many tokens, please wait before trying again."}, "rate_limit_error", True, headers={"x-amzn-errortype": "ThrottlingException"}),
    Case("DashScope", 429, {"error": {"code": "Throttling.RateQuota", "message": "Requests rate limit exceeded, please try again later.", "type": "Throttling.RateQuota"}}, "rate_limit_error", True),
    Case("Mistral", 429, {"message": "Requests rate limit exceeded"}, "rate_limit_error", True),
    Case("Mistral, of a tier", 429, {"object": "error", "message": "Service tier capacity exceeded for this model.", "type": "service_tier_capacity_exceeded", "param": None, "code": "3505"}, "rate_limit_error", True),
    Case("Cohere", 429, {"message": "You are using a Trial key, which is limited to 20 API calls / minute."}, "rate_limit_error", True),
    Case("Z.ai", 429, {"error": {"code": "1302", "message": "Your account has reached the limit of concurrent calls."}}, "rate_limit_error", True),
    Case("Moonshot", 429, _of("Your account x request reached organization max RPM: 3, please try again after 1 seconds", type="rate_limit_reached_error"), "rate_limit_error", True, 1_000),
    Case("LiteLLM", 429, _of("litellm.RateLimitError: RateLimitError: OpenAIException - slow. Received Model Group=x", type=None, param=None, code="429"), "rate_limit_error", True),
    Case("LiteLLM, with status 500", 500, _of("litellm.RateLimitError: AnthropicException - slow", type=None, param=None, code="429"), "rate_limit_error", True),
    Case("Kong", 429, {"message": "API rate limit exceeded"}, "rate_limit_error", True, 12_000, {"ratelimit-reset": "12", "x-ratelimit-remaining-minute": "0"}),
    Case("IETF draft", 429, {"title": "Too Many Requests", "status": 429}, "rate_limit_error", True, 50_000, {"ratelimit": '"default";r=0;t=50'}),
    Case("Django REST", 429, {"detail": "Request was throttled. Expected available in 2 seconds."}, "rate_limit_error", True, 2_000),
    Case("Cerebras", 429, {"message": "Requests per minute limit exceeded - too many requests sent.", "type": "too_many_requests_error", "param": "quota", "code": "request_quota_exceeded"}, "rate_limit_error", True, 33_500, {"x-ratelimit-reset-requests-minute": "33.5"}),
    Case("a date", 429, {"message": "no"}, "rate_limit_error", True, 5_000, {"retry-after": "Sat, 28 Nov 2026 06:00:05 GMT", "date": "Sat, 28 Nov 2026 06:00:00 GMT"}),
]

PASSING = [
    Case("OpenAI", 500, _of("The server had an error while processing your request. Sorry about that!", type="server_error", param=None, code=None), "api_error", True),
    Case("OpenAI", 503, _of("The engine is currently overloaded, please try again later", type="server_error", param=None, code="server_is_overloaded"), "overloaded_error", True),
    Case("Messages API", 529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded_error", True),
    Case("Messages API behind a proxy", 500, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded_error", True),
    Case("a proxy of the Messages API", 400, {"error": {"message": "Overloaded", "type": "upstream_error"}}, "overloaded_error", True),
    Case("Bedrock", 424, {"message": "Model produced invalid sequence as part of ToolUse."}, "api_error", True, headers={"x-amzn-errortype": "ModelErrorException"}),
    Case("Bedrock, not ready", 429, {"message": "Model is not ready for inference. Wait and try your request again."}, "overloaded_error", True, headers={"x-amzn-errortype": "ModelNotReadyException"}),
    Case("Bedrock, late", 408, {"message": "Model has timed out in processing the request."}, "timeout_error", True, headers={"x-amzn-errortype": "ModelTimeoutException"}),
    Case("Bedrock, full", 503, {"message": "Bedrock is unable to process your request."}, "overloaded_error", True, headers={"x-amzn-errortype": "ServiceUnavailableException"}),
    Case("Gemini", 503, {"error": {"code": 503, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"}}, "overloaded_error", True),
    Case("Gemini, inner", 500, {"error": {"code": 500, "message": "An internal error has occurred.", "status": "INTERNAL"}}, "api_error", True),
    Case("Gemini, late", 504, {"error": {"code": 504, "message": "Deadline expired before operation could complete.", "status": "DEADLINE_EXCEEDED"}}, "timeout_error", True),
    Case("Gemini, cancelled", 499, {"error": {"code": 499, "message": "The operation was cancelled.", "status": "CANCELLED"}}, "http_499", True),
    Case("Text Generation Inference", 429, {"error": "Model is overloaded", "error_type": "overloaded"}, "overloaded_error", True),
    Case("Text Generation Inference, cut", 424, {"error": "Request failed during generation: Server error: CUDA out of memory", "error_type": "generation"}, "api_error", True),
    Case("Hugging Face", 503, {"error": "Model x/y is currently loading", "estimated_time": 20.0}, "overloaded_error", True, 20_000),
    Case("llama.cpp", 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, "overloaded_error", True),
    Case("Ollama", 503, {"error": "server busy, please try again.  maximum pending requests exceeded"}, "overloaded_error", True),
    Case("DeepSeek", 503, _of("Service is too busy. We advise users to temporarily switch to alternative LLM API service providers.", type="service_unavailable_error", code="service_unavailable_error"), "overloaded_error", True),
    Case("Moonshot", 429, _of("The engine is currently overloaded, please try again later", type="engine_overloaded_error"), "overloaded_error", True),
    Case("Z.ai", 429, {"error": {"code": "1305", "message": "The service may be temporarily overloaded, please try again later"}}, "overloaded_error", True),
    Case("OpenRouter", 502, {"error": {"message": "Provider returned error", "code": 502, "metadata": {"error_type": "provider_unavailable", "raw": "Worker local total request limit reached (33/32)"}}}, "overloaded_error", True),
    Case("OpenRouter, none", 503, {"error": {"message": "No instances available", "code": 503}}, "overloaded_error", True),
    Case("Together", 503, _of("The server is overloaded or not ready yet.", type="service_unavailable"), "overloaded_error", True),
    Case("LiteLLM", 429, _of("No deployments available for selected model, Try again in 5 seconds. Passed model=x.", type="None", code="429"), "rate_limit_error", True, 5_000),
    Case("LiteLLM, late", 408, _of("litellm.Timeout: APITimeoutError - Request timed out. Error_str: Request timed out.", code="408"), "timeout_error", True),
    Case("one-api", 503, _of("no available channel for model x under current group", type="one_api_error"), "overloaded_error", True),
    Case("Envoy", 503, b"upstream connect error or disconnect/reset before headers. reset reason: connection termination", "overloaded_error", True),
    Case("Envoy, none", 503, b"no healthy upstream", "overloaded_error", True),
    Case("nginx", 502, b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway</h1></center></body></html>", "api_error", True),
    Case("nginx, late", 504, b"<html><head><title>504 Gateway Time-out</title></head></html>", "timeout_error", True),
    Case("nginx, gone", 499, b"", "http_499", True),
    Case("Cloudflare", 520, b"error code: 520", "http_520", True),
    Case("Cloudflare", 522, b"error code: 522", "http_522", True),
    Case("Cloudflare, late", 524, b"error code: 524", "http_524", True),
    Case("Cloudflare, in JSON", 524, {"title": "Error 524: A timeout occurred", "status": 524, "detail": "The origin web server did not respond in time.", "error_code": 524, "retryable": True}, "timeout_error", True),
    Case("Workers AI", 429, {"success": False, "errors": [{"message": "AiError: Capacity temporarily exceeded, please try again.", "code": 3040}], "result": {}, "messages": []}, "rate_limit_error", True),
    Case("a conflict", 409, {"error": {"type": "conflict_error", "message": "busy"}}, "http_409", True),
    Case("too early", 425, {"message": "Too Early"}, "http_425", True),
    Case("Command Code", 500, {"success": False, "error": {"code": "INTERNAL_SERVER_ERROR", "status": 500, "message": "An unexpected error occurred. Please try again later."}}, "api_error", True),
    Case("FastAPI", 500, {"detail": "Internal Server Error"}, "api_error", True),
]

REFUSED = [
    Case("OpenAI", 400, _of("Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40.", type="invalid_request_error", param="messages[1].tool_calls[0].id", code="string_above_max_length"), "invalid_request_error"),
    Case("OpenAI, calls", 400, _of("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.", type="invalid_request_error", param="messages", code=None), "invalid_request_error"),
    Case("OpenAI, max_tokens", 400, _of("max_tokens is too large: 100000. This model supports at most 16384 completion tokens.", type="invalid_request_error", param="max_tokens", code="invalid_value"), "invalid_request_error"),
    Case("OpenAI, timeout as a parameter", 400, _of("Unrecognized request argument supplied: timeout", type="invalid_request_error"), "invalid_request_error"),
    Case("Messages API", 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."}}, "invalid_request_error"),
    Case("Gemini", 400, {"error": {"code": 400, "message": "Please ensure that function call turn comes immediately after a user turn.", "status": "INVALID_ARGUMENT"}}, "invalid_request_error"),
    Case("Bedrock", 400, {"message": "Expected toolResult blocks at messages.2.content for the following Ids: x"}, "invalid_request_error", headers={"x-amzn-errortype": "ValidationException"}),
    Case("vLLM", 400, {"object": "error", "message": "1 validation error for ValidatorIterator", "type": "BadRequestError", "param": None, "code": 400}, "invalid_request_error"),
    Case("FastAPI", 422, {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required"}]}, "invalid_request_error"),
    Case("Mistral", 422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "x"], "msg": "Extra inputs are not permitted"}]}, "type": "invalid_request_error"}, "invalid_request_error"),
    Case("DeepSeek", 400, _of("Messages with role 'tool' must be a response to a preceding message with 'tool_calls'", type="invalid_request_error", code="invalid_request_error"), "invalid_request_error"),
    Case("Z.ai", 400, {"error": {"code": "1214", "message": "messages parameter is illegal"}}, "invalid_request_error"),
]

IN_ANSWERS = [
    Case("a key", 200, {"error": {"message": "Incorrect API key provided", "code": 401}}, "authentication_error"),
    Case("MiniMax", 200, {"id": "x", "choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit exceeded(RPM)"}}, "rate_limit_error", True),
    Case("MiniMax, balance", 200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "billing_error"),
    Case("MiniMax, key", 200, {"base_resp": {"status_code": 1004, "status_msg": "login fail: Please carry the API secret key in the 'Authorization' field"}}, "authentication_error"),
    Case("Text Generation Inference", 200, {"error": {"message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 15 `inputs` tokens and 4091 `max_new_tokens`", "http_status_code": 422}}, "context_full"),
    Case("OpenRouter", 200, {"id": "gen-x", "object": "chat.completion.chunk", "error": {"code": "server_error", "message": "Provider disconnected unexpectedly"}, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}, "api_error", True),
    Case("OpenRouter, before a stream", 200, {"error": {"message": "No credits left", "code": 402}, "user_id": "user_x"}, "billing_error"),
    Case("OpenRouter, in a choice", 200, {"id": "x", "choices": [{"index": 0, "message": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "Upstream error from provider"}}]}, "api_error", True),
    Case("vLLM in a stream", 200, {"object": "error", "message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "param": None, "code": 500}, "api_error", True),
    Case("SGLang in a stream", 200, {"error": {"object": "error", "message": "Input length exceeds the maximum allowed length (59862 tokens).", "type": "BadRequestError", "code": 400}}, "context_full"),
    Case("Responses", 200, {"type": "response.failed", "response": {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Rate limit reached. Please try again in 1.5s."}}}, "rate_limit_error", True, 1_500),
    Case("Responses, an event", 200, {"type": "error", "code": "server_error", "message": "The server had an error", "param": None, "sequence_number": 3}, "api_error", True),
    Case("a text", 200, {"error": "boom"}, "api_error", True),
    Case("DashScope", 200, {"code": "Throttling", "message": "Requests throttling triggered.", "request_id": "x"}, "rate_limit_error", True),
    Case("Baidu", 200, {"error_code": 18, "error_msg": "Open api qps request limit reached"}, "rate_limit_error", True),
    Case("an envelope", 200, {"code": 503, "msg": "service unavailable", "data": None}, "overloaded_error", True),
    Case("Gemini in a list", 200, [{"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}], "overloaded_error", True),
]

ANSWERS = [*FULL, *ACCOUNT, *LIMITS, *PASSING, *REFUSED]
"""All that come with a status of their own."""

WHOLE = [
    {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}], "error": None},
    {"id": "r", "object": "response", "status": "completed", "error": None, "output": [{"type": "message"}]},
    {"candidates": [{"content": {"parts": [{"text": "Hi."}]}}]},
    {"output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}}, "stopReason": "end_turn"},
    {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"},
    {"choices": [], "usage": {"prompt_tokens": 4}},
    {"type": "response.output_text.delta", "delta": "error"},
    {"type": "message_start", "message": {"content": []}},
    {"type": "ping"},
    {"choices": [], "base_resp": {"status_code": 0, "status_msg": "success"}},
    {"id": "x", "choices": [{"delta": {"content": "an error"}}]},
    {},
    [],
    "error",
    None,
]
"""Documents and events that are no errors."""
