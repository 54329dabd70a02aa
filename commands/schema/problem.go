package schema

import (
	"errors"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// maxProblems ends decoding: no reader needs more, and it bounds the work that bad
// input can cause.
const maxProblems = 16

// A problem is one thing that is wrong with the parameters.
type problem struct {
	path       string
	reason     string
	didYouMean string
	cause      *protocol.Error // with a code of its own, nil for 1001
}

// A step leads from a value to one inside it: an index, or a name when index
// is negative.
type step struct {
	name  string
	index int
}

func pathOf(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(join(b.String(), s))
	}
	return b.String()
}

// join writes a step as it appears after a path: .name, [2] or ["a b"].
func join(path string, s step) string {
	switch {
	case s.index >= 0:
		return "[" + strconv.Itoa(s.index) + "]"
	case !simple(s.name):
		return "[" + strconv.Quote(clip(s.name)) + "]"
	case path == "":
		return s.name
	}
	return "." + s.name
}

func simple(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && c != '$' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// clip shortens the words of a caller, so that errors stay small.
func clip(s string) string {
	const most = 64
	count := 0
	for i := range s {
		if count++; count > most {
			return s[:i] + "…"
		}
	}
	return s
}

// asError turns problems into the error the caller gets: the first decides
// about code, message and details, the others are listed beside it.
func asError(problems []problem) error {
	if len(problems) == 0 {
		return nil
	}
	first := problems[0]
	err := protocol.InvalidParam(first.path, first.reason)
	if first.cause != nil {
		err = protocol.Wrap(first.cause.Code, first.cause, first.cause.Message).
			With("param_name", first.path).With("reason", first.reason)
	}
	if first.didYouMean != "" {
		err = err.With("did_you_mean", first.didYouMean)
	}
	if len(problems) > 1 {
		all := make([]any, len(problems))
		for i, p := range problems {
			all[i] = map[string]any{"param_name": p.path, "reason": p.reason}
		}
		err = err.With("problems", all)
	}
	return err
}

// problemOf is the problem that a method of a parameter type found at path. A
// *protocol.Error may name a place inside the value and bring its own code.
func problemOf(path string, err error) problem {
	var e *protocol.Error
	if !errors.As(err, &e) {
		return problem{path: path, reason: err.Error()}
	}
	p := problem{path: path, reason: e.Message}
	if reason, ok := e.Details["reason"].(string); ok {
		p.reason = reason
	}
	if inner, ok := e.Details["param_name"].(string); ok && inner != "" {
		p.path = within(path, inner)
	}
	if e.Code != protocol.InvalidParameter {
		p.cause = e
	}
	return p
}

func within(path, inner string) string {
	if path == "" || inner[0] == '[' {
		return path + inner
	}
	return path + "." + inner
}
