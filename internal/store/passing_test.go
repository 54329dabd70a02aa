package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/protocol"
)

func TestWhatPassesWhileServersChooseWhoLeads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                   {nil, false},
		"no leader":                 {&jetstream.APIError{Code: 503, ErrorCode: noLeader}, true},
		"no leader, by a question":  {&apiError{Code: 503, ErrCode: noLeader}, true},
		"nobody takes a write":      {fmt.Errorf("line 1: %w", unavailable(nats.ErrNoResponders)), true},
		"a write was not confirmed": {unavailable(context.DeadlineExceeded), true},
		"the server is gone":        {unavailable(errNotConnected), true},
		"a stream is not there":     {&jetstream.APIError{Code: 404, ErrorCode: 10059}, false},
		"a refusal":                 {&apiError{Code: 400, ErrCode: jsWrongLastSequence}, false},
		"damage":                    {errGap, false},
		"a store that is in use":    {protocol.Errorf(protocol.InvalidState, "stop it first"), false},
	} {
		if got := Passing(test.err); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAQuestionIsAskedAgainWhileNobodyLeads has the servers of a cluster choose.
func TestAQuestionIsAskedAgainWhileNobodyLeads(t *testing.T) {
	noneLeads := &jetstream.APIError{Code: 503, ErrorCode: noLeader}
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		answers []error
		want    error
		asked   int
	}{
		"somebody leads at once":  {[]error{nil}, nil, 1},
		"somebody leads later":    {[]error{noneLeads, context.DeadlineExceeded, noneLeads, nil}, nil, 4},
		"the answer is no":        {[]error{noneLeads, refused, nil}, refused, 2},
		"nobody ever leads":       {[]error{noneLeads, noneLeads, noneLeads, noneLeads, noneLeads, nil}, noneLeads, 5},
		"another word than these": {[]error{&jetstream.APIError{Code: 503, ErrorCode: 10076}, nil}, &jetstream.APIError{Code: 503, ErrorCode: 10076}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			err := insist(t.Context(), func(context.Context) error {
				asked++
				return test.answers[asked-1]
			})
			if asked != test.asked || fmt.Sprint(err) != fmt.Sprint(test.want) {
				t.Errorf("%s: %v after %d questions", name, err, asked)
			}
		})
	}
}
