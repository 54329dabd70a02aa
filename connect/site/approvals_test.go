package site

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// A router answers every command alike.
type router struct {
	result string
	err    *protocol.Error
}

func (r router) Handle(context.Context, commands.Inbound) *protocol.Response {
	return &protocol.Response{Result: json.RawMessage(r.result), Err: r.err}
}

// siteOf is a site whose bridge answers so, and whose calls wait for the centre.
func siteOf(r router) *Site {
	return New(Options{
		Join: Join{Name: "plant", Approvals: []string{"*"}}, Router: func() Router { return r }, Log: slog.New(slog.DiscardHandler),
		Authenticate: func(context.Context, string) (*protocol.Principal, error) {
			return &protocol.Principal{Kind: protocol.KindOperator, ID: "centre", Space: protocol.DefaultSpace}, nil
		},
	})
}

// TestADecisionThatCameTooLateIsNotTakenOver as when somebody at the site was faster.
func TestADecisionThatCameTooLateIsNotTakenOver(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code       protocol.Code
		done, told bool
	}{
		{"", true, false},
		{protocol.InvalidState, false, false},
		{protocol.InvalidParameter, false, false},
		{protocol.NotFound, false, false},
		{protocol.PermissionDenied, false, true},
		{protocol.StoreUnavailable, false, true},
	} {
		r := router{result: "{}"}
		if test.code != "" {
			r.err = protocol.Errorf(test.code, "no")
		}
		done, err := siteOf(r).decide(t.Context(), &waiting{ID: "x"}, "approve", standing{By: "ann"})
		if done != test.done || (err != nil) != test.told {
			t.Errorf("%s: %v, %v", test.code, done, err)
		}
	}
}

// TestWhatIsNotShownToTheSiteIsToldAndHoldsUpNothing has a principal that may not list
// approvals: the agents are shown all the same.
func TestWhatIsNotShownToTheSiteIsToldAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code  protocol.Code
		fails bool
		told  int
	}{
		{protocol.PermissionDenied, false, 1},
		{protocol.Busy, true, 0},
	} {
		s := siteOf(router{err: protocol.Errorf(test.code, "no")})
		err := newAsked(s, nil).settle(t.Context())
		if v, _ := s.Look(); (err != nil) != test.fails || len(v.NotShown) != test.told {
			t.Errorf("%s: %v, told %q", test.code, err, v.NotShown)
		}
	}
}
