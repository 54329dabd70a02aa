package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestCodesMapToHTTPAndRetryClasses(t *testing.T) {
	t.Parallel()
	for code, want := range map[protocol.Code]struct {
		status int
		retry  protocol.Retry
	}{
		protocol.MalformedEnvelope: {400, protocol.RetryNever},
		protocol.PayloadTooLarge:   {413, protocol.RetryNever},
		protocol.NotAuthenticated:  {401, protocol.RetryNever},
		protocol.CredentialInvalid: {401, protocol.RetryNever},
		protocol.PermissionDenied:  {403, protocol.RetryNever},
		protocol.ProofFailed:       {403, protocol.RetryNever},
		protocol.NotFound:          {404, protocol.RetryNever},
		protocol.AgentOffline:      {409, protocol.RetryNever},
		protocol.VFSUnavailable:    {503, protocol.RetryBackoff},
		protocol.SyncFailed:        {400, protocol.RetryNever},
		protocol.NoSpace:           {507, protocol.RetryNever},
		protocol.TargetUnavailable: {503, protocol.RetryBackoff},
		protocol.TimedOut:          {504, protocol.RetryNever},
		protocol.Busy:              {503, protocol.RetryAfter},
		protocol.RateLimited:       {429, protocol.RetryAfter},
		protocol.LLMUnavailable:    {503, protocol.RetryBackoff},
		protocol.LLMRefused:        {502, protocol.RetryNever},
		protocol.OutcomeUnknown:    {504, protocol.RetryNever},
		protocol.Cancelled:         {409, protocol.RetryNever},
		protocol.BudgetSpent:       {429, protocol.RetryNever},
		protocol.Internal:          {500, protocol.RetryNever},
		"9999":                     {500, protocol.RetryNever},
	} {
		if code.HTTPStatus() != want.status || code.Retry() != want.retry {
			t.Errorf("%s: %d, %s", code, code.HTTPStatus(), code.Retry())
		}
	}
}

func TestCodesAreFourDigitsAndDescribed(t *testing.T) {
	t.Parallel()
	codes := protocol.Codes()
	if len(codes) != 40 {
		t.Errorf("%d codes", len(codes))
	}
	for _, code := range codes {
		if len(code) != 4 || !code.Known() || code.String() == "" {
			t.Errorf("%q: %q", string(code), code)
		}
	}
	if protocol.Code("9999").Known() {
		t.Error("9999 is known")
	}
}

func TestErrorsBecomeWhatCallersMaySee(t *testing.T) {
	t.Parallel()
	secret := errors.New("disk /var/secret is full")
	for name, tt := range map[string]struct {
		err     error
		code    protocol.Code
		message string
	}{
		"own":      {fmt.Errorf("while reading: %w", protocol.Errorf(protocol.NotFound, "no skill x")), protocol.NotFound, "no skill x"},
		"wrapped":  {protocol.Wrap(protocol.StoreUnavailable, secret, "store unavailable"), protocol.StoreUnavailable, "store unavailable"},
		"other":    {secret, protocol.Internal, "internal error"},
		"deadline": {fmt.Errorf("x: %w", context.DeadlineExceeded), protocol.TimedOut, "timed out"},
		"cancel":   {context.Canceled, protocol.Cancelled, "cancelled"},
	} {
		e := protocol.AsError(tt.err)
		if e.Code != tt.code || e.Message != tt.message || protocol.CodeOf(tt.err) != tt.code {
			t.Errorf("%s: %v", name, e)
		}
	}
	if protocol.AsError(nil) != nil || protocol.CodeOf(nil) != "" {
		t.Error("nil is an error")
	}
	if !errors.Is(protocol.Wrap(protocol.Internal, secret, "x"), secret) {
		t.Error("the cause is lost")
	}
}

func TestRetryAfterIsWithinReason(t *testing.T) {
	t.Parallel()
	for value, want := range map[any]time.Duration{
		nil: 0, "1": 0, 5: 5 * time.Millisecond, int64(-5): 0, -2.5: 0, 1e300: 24 * time.Hour, int64(1 << 62): 24 * time.Hour,
	} {
		if got := protocol.Errorf(protocol.Busy, "x").With("retry_after_ms", value).RetryAfter(); got != want {
			t.Errorf("%v: %v", value, got)
		}
	}
	if got := protocol.BusyFor(time.Microsecond, "x").RetryAfter(); got != time.Millisecond {
		t.Errorf("rounded to %v", got)
	}
}
