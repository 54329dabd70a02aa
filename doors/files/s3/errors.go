package s3

import (
	"encoding/xml"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A refusal is an error in the words of S3.
type refusal struct{ code, message string }

func refuse(code, message string) error { return &refusal{code, message} }

// Error is the code and the message.
func (r *refusal) Error() string { return "s3: " + r.code + ": " + r.message }

// Refuses implements [files.Refusal].
func (r *refusal) Refuses() {}

// statuses are those of the codes that are not 400.
var statuses = map[string]int{
	"AccessDenied": http.StatusForbidden, "InvalidAccessKeyId": http.StatusForbidden, "SignatureDoesNotMatch": http.StatusForbidden,
	"RequestTimeTooSkewed": http.StatusForbidden, "QuotaExceeded": http.StatusForbidden, "NoSuchKey": http.StatusNotFound,
	"NoSuchBucket": http.StatusNotFound, "NoSuchVersion": http.StatusNotFound, "NoSuchUpload": http.StatusNotFound,
	"BucketNotEmpty": http.StatusConflict, "OperationAborted": http.StatusConflict, "PreconditionFailed": http.StatusPreconditionFailed,
	"MethodNotAllowed": http.StatusMethodNotAllowed, "NotImplemented": http.StatusNotImplemented, "SlowDown": http.StatusServiceUnavailable,
	"ServiceUnavailable": http.StatusServiceUnavailable, "InternalError": http.StatusInternalServerError, "MissingContentLength": http.StatusLengthRequired,
}

// words are the codes of S3 for those of the protocol.
var words = map[protocol.Code]string{
	protocol.NotAuthenticated: "AccessDenied", protocol.CredentialInvalid: "SignatureDoesNotMatch", protocol.PermissionDenied: "AccessDenied",
	protocol.VFSPermission: "AccessDenied", protocol.FileNotFound: "NoSuchKey", protocol.NoSpace: "QuotaExceeded",
	protocol.PayloadTooLarge: "EntityTooLarge", protocol.InvalidParameter: "InvalidArgument", protocol.RevisionConflict: "PreconditionFailed",
	protocol.AlreadyExists: "OperationAborted", protocol.SyncFailed: "IncompleteBody", protocol.RateLimited: "SlowDown", protocol.Busy: "SlowDown",
	protocol.LimitReached: "SlowDown", protocol.VFSUnavailable: "ServiceUnavailable", protocol.ShuttingDown: "ServiceUnavailable",
	protocol.StoreUnavailable: "ServiceUnavailable",
}

// inWords is an error in the words of S3.
func inWords(err error) *refusal {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r
	}
	e := protocol.AsError(err)
	code := words[e.Code]
	if code == "" {
		code = "InternalError"
		if e.Code.HTTPStatus() == http.StatusForbidden || e.Code.HTTPStatus() == http.StatusUnauthorized {
			code = "AccessDenied"
		}
	}
	message := e.Message
	if param, ok := e.Details["param_name"].(string); ok {
		if reason, ok := e.Details["reason"].(string); ok {
			message = param + " " + reason
		}
	}
	return &refusal{code, message}
}

// An errorBody is the document of an error.
type errorBody struct {
	XMLName  xml.Name `xml:"Error"`
	Code     string
	Message  string
	Resource string
	Request  string `xml:"RequestId"`
}

// fail answers an error.
func (q *request) fail(err error, id string) {
	q.door.Files.Failed(q.Request, q.who, err)
	r := inWords(err)
	status := statuses[r.code]
	if status == 0 {
		status = http.StatusBadRequest
	}
	h := q.w.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Disposition", "Accept-Ranges", "Content-Range", "Content-Length"} {
		h.Del(name)
	}
	if wait := protocol.AsError(err).RetryAfter(); wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	if q.ContentLength != 0 {
		h.Set("Connection", "close") // the rest of the body is not read
	}
	_ = q.answer(status, errorBody{Code: r.code, Message: r.message, Resource: q.URL.Path, Request: id})
}

// answer answers with a document.
func (q *request) answer(status int, document any) error {
	body, err := xml.Marshal(document)
	if err != nil {
		return err
	}
	body = append([]byte(xml.Header), body...)
	h := q.w.Header()
	h.Set("Content-Type", "application/xml")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	q.w.WriteHeader(status)
	if q.Method != http.MethodHead {
		_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(30 * time.Second))
		_, _ = q.w.Write(body)
	}
	return nil
}
