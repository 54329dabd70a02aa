package mqtt

import (
	"context"
	"errors"
	"testing"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/protocol"
)

// A lender lends the messages of a Cap's channel to those who subscribe to $queue/jobs.
type lender struct{}

func (lender) MayPublish(*broker.Client, string, bool) broker.Verdict { return broker.Verdict{} }
func (lender) MaySubscribe(*broker.Client, string) broker.Verdict     { return broker.Verdict{} }
func (lender) Connected(*broker.Client)                               {}
func (lender) Disconnected(*broker.Client)                            {}

func (lender) About(filter string) string {
	if filter == "$queue/jobs" {
		return "aibridge/cap/hall/message"
	}
	return filter
}

// A client that leaves a Cap loses its subscriptions to the channel, and to what messages
// of the channel are lent by.
func TestSubscriptionsAreByWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	b, err := broker.New(broker.Options{
		Authenticate: func(context.Context, broker.Credentials) (*protocol.Principal, error) {
			return nil, errors.New("nobody")
		},
		Permissions: lender{}, Conditions: true, SysInterval: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(t.Context()) }()
	s := &server{Clients: NewClients(protocol.NewTopics(""), nil), broker: b}
	s.Profiles = []Profile{{Root: "$queue/", Topics: func() Topics { return lender{} }}}
	for filter, want := range map[string]string{
		"aibridge/cap/hall/message":          "cap/hall",
		"$share/g/aibridge/cap/hall/message": "cap/hall",
		"aibridge/cap/hall/message?a=1":      "cap/hall",
		"$queue/jobs":                        "cap/hall",
		"$queue/other":                       "",
		"aibridge/cap/+/message":             "",
		"home/lamp":                          "",
	} {
		if got := s.thing(filter); got != want {
			t.Errorf("%s is about %q, not %q", filter, got, want)
		}
	}
}
