package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/aibridge/aibridge/internal/bubble"
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
		bubble.Test(t, func(t *testing.T) {
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

// TestAStreamIsPlacedOnceServersSeeEachOther has servers of a cluster lose sight of each
// other for a moment, and for good.
func TestAStreamIsPlacedOnceServersSeeEachOther(t *testing.T) {
	noneSeen := fmt.Errorf("make: %w", &jetstream.APIError{Code: 400, ErrorCode: noPeers})
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		blind int // attempts
		then  error
		want  error
		made  int
	}{
		"at once":  {0, nil, nil, 1},
		"soon":     {10, nil, nil, 11},
		"refused":  {3, refused, refused, 4},
		"for good": {1000, nil, noneSeen, placeAttempts + 1},
	} {
		bubble.Test(t, func(t *testing.T) {
			made := 0
			err := untilPlaced(t.Context(), func() error {
				if made++; made <= test.blind {
					return noneSeen
				}
				return test.then
			})
			if made != test.made || !errors.Is(err, test.want) {
				t.Errorf("%s: %v after %d attempts", name, err, made)
			}
		})
	}
}

// TestAStreamThatWasMadeIsFound has the server answer that led the cluster before, and
// then the one that does.
func TestAStreamThatWasMadeIsFound(t *testing.T) {
	t.Parallel()
	_, line := quietNATS(t)
	answers := make(chan string, 2)
	answers <- `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`
	answers <- `{"state":{"last_seq":7}}`
	_, err := line.conn.Subscribe("$JS.API.STREAM.INFO.S", func(m *nats.Msg) { _ = m.Respond([]byte(<-answers)) })
	if err != nil {
		t.Fatal(err)
	}
	if info, err := inspectMade(t.Context(), line, "S"); err != nil || info.State.LastSeq != 7 {
		t.Errorf("told %+v, %v", info, err)
	}
}

// TestAWriteIsRepeatedWhileNobodyLeads has a stream without a leader for a while.
func TestAWriteIsRepeatedWhileNobodyLeads(t *testing.T) {
	nobody := unavailable(nats.ErrNoResponders)
	unsure := unavailable(context.DeadlineExceeded)
	for name, test := range map[string]struct {
		until time.Duration // nobody leads
		then  error
		bad   bool // the store is known not to work
		tries int
		want  error
	}{
		"somebody leads":                {0, nil, false, 1, nil},
		"somebody leads soon":           {100 * time.Millisecond, nil, false, 4, nil},
		"nobody leads":                  {time.Hour, nil, false, 7, nobody},
		"the store did not work before": {100 * time.Millisecond, nil, true, 1, nobody},
		"the write may have happened":   {100 * time.Millisecond, unsure, false, 4, unsure},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := &Store{}
				s.pulse.bad.Store(test.bad)
				began, tries := time.Now(), 0
				err := s.onceLed(t.Context(), func() error {
					tries++
					if time.Since(began) < test.until {
						return nobody
					}
					return test.then
				})
				if tries != test.tries || !errors.Is(err, test.want) {
					t.Errorf("%d tries ended with %v, want %d and %v", tries, err, test.tries, test.want)
				}
			})
		})
	}
}

// TestAWriteIsNotRepeatedForWhoHasLeft ends the caller's patience.
func TestAWriteIsNotRepeatedForWhoHasLeft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		s, tries := &Store{}, 0
		err := s.onceLed(ctx, func() error { tries++; return unavailable(nats.ErrNoResponders) })
		if tries != 2 || !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%d tries ended with %v", tries, err)
		}
	})
}
