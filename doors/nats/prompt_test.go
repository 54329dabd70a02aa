package nats

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/aibridge/aibridge/internal/eventually"
)

// TestAQuestionTakesOneAnswer sends more than one before the first is read.
func TestAQuestionTakesOneAnswer(t *testing.T) {
	s, client := startNATS(t)
	asking, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(asking.Close)
	answers, err := expectOne(asking)
	if err != nil {
		t.Fatal(err)
	}
	last, err := asking.SubscribeSync(asking.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := asking.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"the kitchen", "the hall", "the cellar"} {
		if err := client.Publish(answers.Subject, []byte(words)); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Publish(last.Subject, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := last.NextMsg(eventually.Patience); err != nil { // so those before have come, too
		t.Fatal(err)
	}
	if waiting, _, err := answers.Pending(); err != nil || waiting != 1 {
		t.Errorf("%d answers wait, %v", waiting, err)
	}
	if m, err := answers.NextMsg(eventually.Patience); err != nil || string(m.Data) != "the kitchen" {
		t.Errorf("the answer is %v, %v", m, err)
	}
	if _, err := client.Request(answers.Subject, nil, eventually.Patience); err != nats.ErrNoResponders {
		t.Errorf("after the answer somebody listens: %v", err)
	}
}
