package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

const (
	maxNesting = 60       // of results and errors, so that they fit an envelope
	maxError   = 16 << 10 // bytes of an error that a script prints
)

// result returns the output of the script, or the error it ended with.
func (o exitState) result() (json.RawMessage, error) {
	var exit *exec.ExitError
	switch {
	case o.err == nil || errors.Is(o.err, exec.ErrWaitDelay): // it ended well, though another process kept its pipes
		return o.parse()
	case errors.As(o.err, &exit):
		return nil, o.failure(exit)
	}
	return nil, o.explain(o.notStarted())
}

// parse reads standard output as one JSON value.
func (o exitState) parse() (json.RawMessage, error) {
	text := bytes.TrimSpace(o.stdout)
	if len(text) == 0 {
		return json.RawMessage("{}"), nil
	}
	if err := protocol.CheckJSON(text, protocol.Limits{MaxBytes: len(text), MaxDepth: maxNesting}); err != nil {
		return nil, o.explain(protocol.Errorf(protocol.Internal, "%s did not print JSON: %s", o.script.Path, reason(err)).
			With("stdout", clean(string(text[:min(len(text), 256)]), 256)))
	}
	return text, nil
}

// reason is the reason why JSON is refused: "at byte 7: is a duplicate key".
func reason(err error) string {
	e := protocol.AsError(err)
	reason, ok := e.Details["reason"].(string)
	if !ok {
		return e.Message
	}
	if offset, ok := e.Details["offset"].(int); ok {
		return fmt.Sprintf("at byte %d: %s", offset, reason)
	}
	return reason
}

// statusCodes gives meaning to the exit statuses that sysexits.h names. Any
// other but 0 is 5000.
var statusCodes = map[int]protocol.Code{
	64: protocol.InvalidParameter,  // EX_USAGE
	65: protocol.InvalidParameter,  // EX_DATAERR
	66: protocol.NotFound,          // EX_NOINPUT
	69: protocol.TargetUnavailable, // EX_UNAVAILABLE
	75: protocol.Busy,              // EX_TEMPFAIL
	77: protocol.PermissionDenied,  // EX_NOPERM
}

// failure is the error of a script that exited with another status than 0:
// the one it printed, or the one its status stands for.
func (o exitState) failure(exit *exec.ExitError) error {
	if e := o.printed(); e != nil {
		return complete(e)
	}
	status := exit.ExitCode()
	if status < 0 {
		return o.explain(protocol.Errorf(protocol.Internal, "%s was ended by a signal (%s)", o.script.Path, strings.TrimPrefix(exit.String(), "signal: ")))
	}
	code, ok := statusCodes[status]
	if !ok {
		code = protocol.Internal
	}
	e := protocol.Errorf(code, "%s exited with status %d", o.script.Path, status)
	if line := lastLine(o.stderr); line != "" {
		e.Message += ": " + line
	}
	return complete(o.explain(e.With("exit_status", status)))
}

// printed is the error a script wrote to standard output:
// {"error": {"code": "3001", "message": "…", "details": {…}}}.
func (o exitState) printed() *protocol.Error {
	text := bytes.TrimSpace(o.stdout)
	if len(text) > maxError {
		return nil
	}
	var body struct {
		Error struct {
			Code    json.RawMessage `json:"code"`
			Message string          `json:"message"`
			Details map[string]any  `json:"details"`
		} `json:"error"`
	}
	sound := protocol.CheckJSON(text, protocol.Limits{MaxDepth: maxNesting}) == nil
	if !sound || !fits(text, &body) {
		return nil
	}
	code := protocol.Code(strings.Trim(string(body.Error.Code), `"`))
	if !code.Known() {
		return nil
	}
	e := &protocol.Error{Code: code, Message: clean(body.Error.Message, maxMessage), Details: body.Error.Details}
	if e.Message == "" {
		e.Message = code.String()
	}
	return e
}

func fits(text []byte, into any) bool { return json.Unmarshal(text, into) == nil }

// complete adds the details that the protocol promises for a code.
func complete(e *protocol.Error) *protocol.Error {
	setDetail := func(key string, value any) {
		if _, there := e.Details[key]; !there {
			e = e.With(key, value)
		}
	}
	if e.Code == protocol.InvalidParameter {
		setDetail("param_name", "params")
		setDetail("reason", e.Message)
	}
	if e.Code.Retry() == protocol.RetryAfter {
		setDetail("retry_after_ms", time.Second.Milliseconds())
	}
	return e
}

// notStarted explains why a process did not start.
func (o exitState) notStarted() *protocol.Error {
	reason := "cannot be started"
	switch {
	case errors.Is(o.err, syscall.ENOEXEC):
		reason = "has no #! line that names its interpreter"
	case errors.Is(o.err, fs.ErrNotExist):
		reason = "names an interpreter in its #! line that does not exist"
	case errors.Is(o.err, fs.ErrPermission):
		reason = "may not be run by the agent's user"
	}
	return protocol.Wrap(protocol.TargetUnavailable, o.err, fmt.Sprintf("%s %s", o.script.Path, reason))
}

// explain adds the end of standard error to an error. The error may be shared
// and so is copied.
func (o exitState) explain(err error) *protocol.Error {
	e := *protocol.AsError(err)
	e.Details = maps.Clone(e.Details)
	if o.stderr == "" {
		return &e
	}
	return e.With("stderr", o.stderr)
}

func lastLine(s string) string {
	s = s[strings.LastIndexByte(s, '\n')+1:]
	return clean(strings.TrimSpace(s), maxMessage)
}
