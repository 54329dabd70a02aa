package model

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// asFailure is the provider's failure in an error, nil for none.
func asFailure(err error) *chat.Error {
	e, _ := errors.AsType[*chat.Error](err)
	return e
}

// A failure is the failure of one provider, now or at its last request.
type failure struct {
	provider string
	err      *chat.Error
}

// failures are the failures of all providers of a query, in the order of the attempts.
type failures []failure

func (f *failures) add(p *provider, err *chat.Error) {
	if err != nil {
		*f = append(*f, failure{p.config.Name, err})
	}
}

// maxFailures is the greatest number of failures in an error.
const maxFailures = 8

// A FailureReport is one provider's failure, for callers.
type FailureReport struct {
	Provider string         `json:"provider"`
	Reason   chat.ErrorKind `json:"reason"`
	Status   int            `json:"status,omitempty"` // HTTP
}

// error converts the failures to an error of the protocol. A transient failure decides
// over a permanent one, since the query may be repeated then. Wait is the time until
// the first provider may be asked again, 0 if unknown.
func (f failures) error(wait time.Duration) error {
	if len(f) == 0 {
		f = failures{{err: chat.Errorf(chat.Unavailable, "no provider of the model is available")}}
	}
	decisive := f[0]
	reports := make([]FailureReport, 0, min(len(f), maxFailures))
	told := make([]string, 0, cap(reports))
	for i, one := range f {
		if prospect(one.err.Kind) > prospect(decisive.err.Kind) {
			decisive = one
		}
		if i < maxFailures {
			reports = append(reports, FailureReport{one.provider, one.err.Kind, one.err.Status})
			told = append(told, one.String())
		}
	}
	err := protocol.Errorf(codeOf(decisive.err.Kind), "%s", strings.Join(told, "; ")).With("reason", string(decisive.err.Kind))
	if decisive.provider != "" {
		err = err.With("provider", decisive.provider)
	}
	if decisive.err.Status != 0 {
		err = err.With("status", decisive.err.Status)
	}
	if len(f) > 1 {
		err = err.With("failures", reports)
	}
	if err.Code == protocol.LLMUnavailable {
		if wait == 0 {
			wait = decisive.err.RetryAfter
		}
		err = err.With("retry_after_ms", max(wait, time.Second).Milliseconds())
	}
	return err
}

// prospect ranks failures by how soon the same query may be answered.
func prospect(k chat.ErrorKind) int {
	switch k {
	case chat.RateLimited, chat.Overloaded:
		return 3
	case chat.TimedOut:
		return 1
	}
	if codeOf(k) == protocol.LLMUnavailable {
		return 2
	}
	return 0
}

func codeOf(k chat.ErrorKind) protocol.Code {
	switch k {
	case chat.BadRequest, chat.ContextTooLong, chat.UnknownModel, chat.AuthFailed:
		return protocol.LLMRefused
	case chat.TimedOut:
		return protocol.TimedOut
	}
	return protocol.LLMUnavailable
}

// String is the text of a failure, as "401 from openai: …". The service's text about a
// refused key is for the operator, in the log.
func (f failure) String() string {
	message := f.err.Message
	if f.err.Kind == chat.AuthFailed {
		message = "the provider refuses the bridge's credential"
	}
	switch {
	case f.provider == "":
		return message
	case f.err.Status == 0:
		return f.provider + ": " + message
	}
	return fmt.Sprintf("%d from %s: %s", f.err.Status, f.provider, message)
}
