package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
)

// told is the content of an error, read from the shapes of different services.
type told struct {
	code, message string
	param         string // the field of the request at fault
	retryAfter    time.Duration
}

func toldBy(data []byte) told {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  any             `json:"detail"`
		Code    any             `json:"code"`
		Type    string          `json:"type"`
		Param   any             `json:"param"`
		Details []detail        `json:"details"`
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil && len(list) > 0 { // Gemini
		return toldBy(list[0])
	}
	if json.Unmarshal(data, &body) != nil {
		var text string
		if json.Unmarshal(data, &text) == nil {
			return told{message: text}
		}
		return told{}
	}
	if len(body.Error) > 0 && string(body.Error) != "null" {
		return toldBy(body.Error)
	}
	t := told{message: body.Message}
	t.param, _ = body.Param.(string)
	t.detail(body.Detail)
	switch code := body.Code.(type) {
	case string:
		t.code = code
	case float64:
		t.code = strconv.Itoa(int(code))
	}
	if t.code == "" {
		t.code = body.Type
	}
	for _, d := range body.Details { // Google
		if d.Reason == "API_KEY_INVALID" {
			t.code = "invalid_api_key"
		}
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil {
			t.retryAfter = seconds(wait.Seconds())
		}
	}
	return t
}

// detail reads FastAPI's detail: a text, or a list of faults with their places.
func (t *told) detail(detail any) {
	if text, ok := detail.(string); ok && t.message == "" {
		t.message = text
	}
	list, _ := detail.([]any)
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		if text, ok := fields["msg"].(string); ok && t.message == "" {
			t.message = text
		}
		path, _ := fields["loc"].([]any)
		for _, step := range path {
			t.param = strings.TrimPrefix(fmt.Sprintf("%s.%v", t.param, step), ".")
		}
	}
}

// tooLong are words of services that have no code for a context that is too long. The
// distinction from a bad request matters, since another model may accept a longer
// context.
var tooLong = []string{
	"prompt is too long", "input is too long", "exceed context limit", // Anthropic
	"maximum number of tokens allowed",                                  // Gemini
	"maximum context length", "context window", "maximum prompt length", // OpenAI, vLLM, xAI
	"available context size", "model token limit", "reduce the length of the messages", // llama.cpp, Moonshot, Groq
}

// badKey are words of services that refuse a key with the status of a bad request, or
// with none.
var badKey = []string{
	"incorrect api key", "invalid api key", "api key not valid", "api key not found", "api key expired", "api key is invalid", "api_key_invalid", // xAI, Gemini
	"invalid x-api-key", "no api key provided", "missing api key", "authentication fails", "authentication failed", "invalid authentication", // DeepSeek, Moonshot
	"invalid bearer token", "unauthorized", "无效的令牌", // gateways
}

// kind is the kind of the error, with the status of its response or 0.
func (t *told) kind(status int) chat.ErrorKind {
	kind := kindOf(status, t.code)
	if kind != chat.BadRequest {
		return kind
	}
	text := strings.ToLower(t.message)
	says := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case slices.ContainsFunc(tooLong, says):
		return chat.ContextTooLong
	case slices.ContainsFunc(badKey, says):
		return chat.AuthFailed
	}
	return kind
}

type detail struct {
	Reason     string `json:"reason"`
	RetryDelay string `json:"retryDelay"`
}

// kindOf is the kind of an error by its code and status. A specific code precedes the
// status, which precedes a code for any failure.
func kindOf(status int, code string) chat.ErrorKind {
	switch code {
	case "context_length_exceeded", "string_above_max_length":
		return chat.ContextTooLong
	case "model_not_found", "not_found_error":
		return chat.UnknownModel
	case "authentication_error", "permission_error", "invalid_api_key", "billing_error":
		return chat.AuthFailed
	case "rate_limit_error", "rate_limit_exceeded", "insufficient_quota":
		return chat.RateLimited
	case "overloaded_error", "server_is_overloaded", "slow_down":
		return chat.Overloaded
	}
	if kind, ok := kindsOfStatus[status]; ok {
		return kind
	}
	switch code {
	case "api_error", "server_error", "internal_error":
		return chat.Unavailable
	case "timeout_error":
		return chat.TimedOut
	}
	if status >= http.StatusInternalServerError {
		return chat.Unavailable
	}
	return chat.BadRequest
}

// kindsOfStatus is never changed.
var kindsOfStatus = map[int]chat.ErrorKind{
	http.StatusUnauthorized:          chat.AuthFailed,
	http.StatusForbidden:             chat.AuthFailed,
	http.StatusPaymentRequired:       chat.AuthFailed,
	http.StatusNotFound:              chat.UnknownModel,
	http.StatusRequestTimeout:        chat.TimedOut,
	http.StatusGatewayTimeout:        chat.TimedOut,
	http.StatusRequestEntityTooLarge: chat.ContextTooLong,
	http.StatusTooManyRequests:       chat.RateLimited,
	http.StatusServiceUnavailable:    chat.Overloaded,
	529:                              chat.Overloaded, // Anthropic
}
