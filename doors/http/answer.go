package http

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
)

// secured are the headers every answer carries: nothing here is for other sites'
// pages, for frames, for caches or for guessing at types. Their names are
// canonical, and their slices have no spare capacity, so that adding to one copies
// it.
var secured = http.Header{
	"X-Content-Type-Options":       fixed("nosniff"),
	"X-Frame-Options":              fixed("DENY"),
	"Referrer-Policy":              fixed("no-referrer"),
	"Cross-Origin-Resource-Policy": fixed("same-origin"),
	"Content-Security-Policy":      fixed("default-src 'none'; frame-ancestors 'none'"),
	"Cache-Control":                fixed("no-store"),
}

var jsonText = fixed("application/json")

// fixed is the value of a header that many answers share.
func fixed(value string) []string { return slices.Clip([]string{value}) }

func secure(h http.Header) { maps.Copy(h, secured) }

// writeError answers {"error":{…}} with the status of the code.
func writeError(w http.ResponseWriter, err *protocol.Error) {
	writeErrorStatus(w, err.Code.HTTPStatus(), err)
}

// Refuse answers a request that a handler beside the API turned away.
func Refuse(w http.ResponseWriter, err error) {
	secure(w.Header())
	writeError(w, protocol.AsError(err))
}

func writeErrorStatus(w http.ResponseWriter, status int, err *protocol.Error) {
	hintRetry(w.Header(), err)
	challenge(w.Header(), status)
	body := append(err.Append([]byte(`{"error":`)), '}', '\n')
	writeBody(w, status, body)
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonText
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	boundWrite(w)
	_, _ = w.Write(body) // the client may be gone: there is no reader for an error
}

// writeValue answers 200 with a value of ours as JSON.
func writeValue(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		writeError(w, protocol.AsError(err))
		return
	}
	writeBody(w, http.StatusOK, append(body, '\n'))
}

// writeEnvelope answers with the whole envelope and a status.
func writeEnvelope(w http.ResponseWriter, status int, resp *protocol.Response) {
	writeBody(w, status, appendEnvelope(w.Header(), status, resp, nil))
}

// envelopeOf is the whole envelope, with the status of its code.
func envelopeOf(h http.Header, resp *protocol.Response, body []byte) (int, []byte) {
	status := statusOf(h, resp)
	return status, appendEnvelope(h, status, resp, body)
}

func appendEnvelope(h http.Header, status int, resp *protocol.Response, body []byte) []byte {
	describe(h, resp)
	challenge(h, status)
	return append(resp.Append(body), '\n')
}

// resultOf is the bare result, or {"error":{…}} and, where a part was done,
// "result" beside it.
func resultOf(h http.Header, resp *protocol.Response, body []byte) (int, []byte) {
	describe(h, resp)
	status := statusOf(h, resp)
	switch {
	case resp.Err == nil && len(resp.Result) == 0:
		return status, append(body, "{}\n"...)
	case resp.Err == nil:
		return status, append(append(body, resp.Result...), '\n')
	}
	body = resp.Err.Append(append(body, `{"error":`...))
	if len(resp.Result) > 0 && string(resp.Result) != "{}" {
		body = append(append(body, `,"result":`...), resp.Result...)
	}
	challenge(h, status)
	return status, append(body, "}\n"...)
}

// challenge names the scheme of credentials in a header.
func challenge(h http.Header, status int) {
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="aibridge"`)
	}
}

// describe repeats fields of the envelope in headers, for clients that read no envelope.
func describe(h http.Header, resp *protocol.Response) {
	setHeader(h, "X-Request-Id", resp.ID)
	setHeader(h, "X-Trace-Id", resp.Metadata.TraceID)
	if revision := resp.Metadata.Revision; revision > 0 {
		h.Set("X-Revision", strconv.FormatUint(revision, 10))
	}
	for _, warning := range resp.Metadata.Warnings {
		h.Add("X-Bridge-Warning", headerText(warning))
	}
	if resp.Err != nil {
		hintRetry(h, resp.Err)
	}
}

// hintRetry sets the header with the pause before a retry, in whole seconds,
// rounded up.
func hintRetry(h http.Header, err *protocol.Error) {
	wait, ok := milliseconds(err.Details["retry_after_ms"])
	if !ok {
		if err.Code.Retry() == protocol.RetryNever {
			return
		}
		wait = 1000
	}
	h.Set("Retry-After", strconv.FormatInt((wait+999)/1000, 10))
}

func milliseconds(detail any) (int64, bool) {
	var ms int64
	switch n := detail.(type) {
	case int:
		ms = int64(n)
	case int64:
		ms = n
	case float64:
		ms = int64(n)
	case json.Number:
		parsed, err := n.Int64()
		if err != nil {
			return 0, false
		}
		ms = parsed
	default:
		return 0, false
	}
	return ms, ms >= 0 && ms < 1<<40
}

// setHeader sets a header whose name is canonical, unless the value is empty.
func setHeader(h http.Header, name, value string) {
	if value != "" {
		h[name] = []string{headerText(value)}
	}
}

// headerText is s as a header may carry it: visible ASCII and spaces,
// anything else as a question mark.
func headerText(s string) string {
	if isVisible(s) {
		return s
	}
	text := []rune(s)
	for i, c := range text {
		if c < ' ' || c > '~' {
			text[i] = '?'
		}
	}
	return string(text)
}

// isVisible reports whether there is only visible ASCII and spaces.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
