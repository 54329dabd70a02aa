package http

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/aibridge/aibridge/protocol"
)

// secure sets the headers every answer carries: nothing here is for other
// sites' pages, for frames, for caches or for guessing at types.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

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
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="aibridge"`)
	}
	body := append(err.Append([]byte(`{"error":`)), '}', '\n')
	writeBody(w, status, body)
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	boundWrite(w)
	_, _ = w.Write(body) // the reader may be gone: nobody is left to tell
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

// writeEnvelope answers with the whole envelope and the status of its code.
func writeEnvelope(w http.ResponseWriter, status int, resp *protocol.Response) {
	describe(w.Header(), resp)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="aibridge"`)
	}
	writeBody(w, status, append(resp.Append(nil), '\n'))
}

// writeResult answers with the bare result, or with {"error":{…}} and, where
// a part was done, "result" beside it.
func writeResult(w http.ResponseWriter, resp *protocol.Response) {
	describe(w.Header(), resp)
	if resp.Err == nil {
		result := resp.Result
		if len(result) == 0 {
			result = []byte("{}")
		}
		writeBody(w, accepted(w.Header(), result), append(result[:len(result):len(result)], '\n'))
		return
	}
	if len(resp.Result) == 0 || string(resp.Result) == "{}" {
		writeError(w, resp.Err)
		return
	}
	hintRetry(w.Header(), resp.Err)
	body := append(resp.Err.Append([]byte(`{"error":`)), `,"result":`...)
	body = append(append(body, resp.Result...), '}', '\n')
	writeBody(w, resp.Err.Code.HTTPStatus(), body)
}

// describe repeats in headers what clients without an envelope want to know.
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

// hintRetry says in whole seconds, rounded up, when a retryable error may be
// tried again.
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

func setHeader(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, headerText(value))
	}
}

// headerText is s as a header may carry it: visible ASCII and spaces,
// anything else as a question mark.
func headerText(s string) string {
	text := []rune(s)
	for i, c := range text {
		if c < ' ' || c > '~' {
			text[i] = '?'
		}
	}
	return string(text)
}
