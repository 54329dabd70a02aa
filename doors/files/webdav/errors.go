package webdav

import (
	"encoding/xml"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A statusError has a status of its own, other than that of its code.
type statusError struct {
	status int
	cause  *protocol.Error
}

// Error is the text of the cause.
func (e statusError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e statusError) Unwrap() error { return e.cause }

// A conditionError names the condition of RFC 4918 (section 16) that does not hold.
type conditionError struct {
	status    int
	condition string   // local name of an element of DAV:
	hrefs     []string // the resources concerned
}

// Error is the condition, in its own word.
func (e conditionError) Error() string { return "webdav: " + e.condition }

// Refuses implements [files.Refusal].
func (e conditionError) Refuses() {}

// precondition is the 412 for a condition of the request's headers.
func precondition(about string) error {
	return statusError{http.StatusPreconditionFailed, protocol.Errorf(protocol.RevisionConflict, "the precondition %s does not hold", about)}
}

// conflict is the 409 for a resource whose folder is missing.
func conflict(at target) error {
	return statusError{http.StatusConflict, protocol.Errorf(protocol.FileNotFound, "the folder %q does not exist", at.parent().name())}
}

// fail answers an error: its status, and a DAV:error element with the condition,
// if RFC 4918 has a word for it, and the code and message of the protocol.
func (q *request) fail(err error) {
	q.door.Files.Failed(q.Request, q.who, err)
	status, inner := explain(err)
	h := q.w.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Disposition", "Accept-Ranges", "Content-Range", "Content-Length"} {
		h.Del(name)
	}
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Basic realm="aibridge", charset="UTF-8"`)
	}
	if wait := protocol.AsError(err).RetryAfter(); wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	if q.ContentLength != 0 {
		h.Set("Connection", "close") // the rest of the body is not read
	}
	q.xml(status, `<D:error xmlns:D="DAV:" xmlns:b="`+namespace+`">`+inner+`</D:error>`)
}

// namespace is that of the bridge's own elements.
const namespace = "https://aibridge.dev/ns/webdav"

func explain(err error) (status int, inner string) {
	if c := (conditionError{}); errors.As(err, &c) {
		var b strings.Builder
		b.WriteString("<D:" + c.condition + ">")
		for _, href := range c.hrefs {
			b.WriteString("<D:href>" + escape(href) + "</D:href>")
		}
		b.WriteString("</D:" + c.condition + ">")
		return c.status, b.String()
	}
	e := protocol.AsError(err)
	status = e.Code.HTTPStatus()
	if s := (statusError{}); errors.As(err, &s) {
		status = s.status
	}
	if e.Code == protocol.NoSpace {
		inner = "<D:quota-not-exceeded/>" // RFC 4331
	}
	if e.Code == protocol.RevisionConflict && status == http.StatusConflict {
		status = http.StatusPreconditionFailed // the version that a condition named has been replaced
	}
	return status, inner + "<b:code>" + string(e.Code) + "</b:code><b:message>" + escape(e.Message) + "</b:message>"
}

// xml answers a document.
func (q *request) xml(status int, body string) {
	h := q.w.Header()
	h.Set("Content-Type", "application/xml; charset=utf-8")
	body = xml.Header + body + "\n"
	h.Set("Content-Length", strconv.Itoa(len(body)))
	q.w.WriteHeader(status)
	if q.Method != http.MethodHead {
		_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(30 * time.Second))
		_, _ = q.w.Write([]byte(body))
	}
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}
