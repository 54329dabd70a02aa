package approval

import (
	"context"
	"net/mail"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// A message of a space, as lines have them in these tests.
type message struct {
	space protocol.SpaceID
	due   time.Time
}

func lineOf(alone bool) line[message] {
	return newLine(alone, func(m *message) place { return place{m.space, m.due} })
}

// Whoever has many people asked does not keep those of another space from being told.
func TestNoSpaceFillsALine(t *testing.T) {
	l := lineOf(false)
	for range 2 * maxDeliveries {
		l.add(&message{space: "acme"})
	}
	if n := len(l.waiting); n != maxDeliveries/2 {
		t.Errorf("%d of one space wait", n)
	}
	for range 2 {
		if !l.add(&message{space: "other"}) {
			t.Error("another space has no room")
		}
	}
	var order []protocol.SpaceID
	for range 5 {
		m, _ := l.next(time.Now())
		order = append(order, m.space)
		l.remove(m)
	}
	if got, want := order[4], protocol.SpaceID("acme"); got != want || order[0] == order[1] || order[2] == order[3] {
		t.Errorf("served are %v", order)
	}
	if l := lineOf(true); !l.add(&message{}) {
		t.Error("a line of one space has no room")
	}
}

func TestALineWaitsForWhatIsDueNext(t *testing.T) {
	l, now := lineOf(false), time.Now()
	if m, wait := l.next(now); m != nil || wait != time.Hour {
		t.Errorf("an empty one has %v, and waits for %v", m, wait)
	}
	late, soon := &message{due: now.Add(time.Minute)}, &message{due: now.Add(time.Second)}
	l.add(late)
	l.add(soon)
	if m, wait := l.next(now); m != nil || wait != time.Second {
		t.Errorf("it has %v, and waits for %v", m, wait)
	}
	if m, _ := l.next(now.Add(time.Hour)); m != soon {
		t.Errorf("it has %v", m)
	}
	l.remove(soon)
	if m, _ := l.next(now.Add(time.Hour)); m != late {
		t.Errorf("it has %v", m)
	}
}

// A letter that the server does not take waits for its next attempt; others go out.
func TestALetterThatIsRefusedHoldsUpNoOther(t *testing.T) {
	office := openPostOffice(t, nil)
	office.refuse = 1
	p := newPostman(Options{Now: time.Now, Mail: &Mailer{Server: office.address, TLS: ClearText, From: address("bridge@example.com")}}, func(string) bool { return true }, func(context.Context, string, news) {})
	first, second := &letter{to: []mail.Address{address("a@example.com")}, at: time.Now(), pause: time.Minute}, &letter{to: []mail.Address{address("b@example.com")}}
	p.add(first)
	p.add(second)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx) })
	got := <-office.letters
	stop()
	running.Wait()
	if len(got.to) != 1 || got.to[0] != "TO:<b@example.com>" || first.pause != 2*time.Minute {
		t.Errorf("sent first: %v, and the other is tried again %v after the next attempt", got.to, first.pause)
	}
}
