//go:build linux

package bench

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
)

// A notedSender keeps when its messages were due and when they went.
type notedSender struct {
	c        *conn
	busy     bool
	takes    time.Duration // of a send
	due, now []int64
}

func (s *notedSender) conn() *conn { return s.c }
func (s *notedSender) send(due int64) {
	s.due, s.now = append(s.due, due), append(s.now, s.c.loop.now)
	time.Sleep(s.takes)
}
func (s *notedSender) room() int {
	if s.busy {
		return 0
	}
	return 1
}

// pacing is a pump for a rate with a number of senders, whose clock is the bubble's.
func pacing(rate float64, senders int) (*pump, []*notedSender) {
	l := &load{}
	l.sending.Store(true)
	p := &pump{load: l, loop: &loop{start: time.Now()}, rate: rate}
	all := make([]*notedSender, senders)
	for i := range all {
		all[i] = &notedSender{c: &conn{loop: p.loop, stage: established}}
		p.senders = append(p.senders, all[i])
	}
	return p, all
}

func sentBy(all []*notedSender) (n int) {
	for _, s := range all {
		n += len(s.due)
	}
	return n
}

// TestPacedMessagesAreEvenlySpread over time and over the senders: one at a time, each at
// its own moment.
func TestPacedMessagesAreEvenlySpread(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const senders, each, apart = 50, 20, 200 * time.Microsecond
		p, all := pacing(float64(time.Second/apart), senders)
		for turn := range senders*each + 1 {
			wait := p.turn()
			if got := sentBy(all); got != turn || wait != apart {
				t.Fatalf("%d are sent in %d turns, and the next is awaited for %v", got, turn, wait)
			}
			time.Sleep(wait)
		}
		for i, s := range all {
			for k, due := range s.due {
				if want := int64(apart) * int64(k*senders+i+1); due != want || s.now[k] != want {
					t.Fatalf("message %d of sender %d was due at %d and sent at %d instead of %d", k, i, due, s.now[k], want)
				}
			}
		}
	})
}

// TestLateMessagesCountFromWhenTheyWereDue has a loop that was busy, senders that are, and
// a rate that cannot be kept.
func TestLateMessagesCountFromWhenTheyWereDue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, all := pacing(1000, 3)
		p.turn()
		time.Sleep(5 * time.Millisecond)
		all[1].busy = true
		p.turn()
		if first, third := all[0].due, all[2].due; len(first) != 3 || len(third) != 2 || len(all[1].due) != 0 ||
			first[0] != 1e6 || third[0] != 2e6 || first[1] != 3e6 || third[1] != 4e6 || first[2] != 5e6 {
			t.Errorf("after 5 ms: %v, %v, %v", first, all[1].due, third)
		}

		all[0].busy, all[2].busy = true, true
		time.Sleep(2 * time.Millisecond)
		if wait := p.turn(); wait >= 0 || sentBy(all) != 5 {
			t.Errorf("with nobody free: %d are sent, and the next waits %v", sentBy(all), wait)
		}
		all[1].busy = false
		p.turn()
		if second := all[1].due; len(second) != 2 || second[0] != 6e6 || second[1] != 7e6 {
			t.Errorf("of one that is free again: %v", second)
		}

		time.Sleep(time.Minute)
		if wait := p.turn(); sentBy(all) != 7 || wait != time.Millisecond {
			t.Errorf("a minute is caught up: %d, and the next in %v", sentBy(all), wait)
		}
	})
}

// TestMessagesThatComeDueDuringATurnDoNotWait has a turn that lasts until the next message
// is due: the loop returns to it at once, and not with the next answer.
func TestMessagesThatComeDueDuringATurnDoNotWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, all := pacing(1000, 2)
		p.turn()
		time.Sleep(time.Millisecond)
		all[0].takes = 1500 * time.Microsecond
		if wait := p.turn(); wait != 0 || sentBy(all) != 1 {
			t.Fatalf("%d are sent, and the next, which is late, waits %v", sentBy(all), wait)
		}
		if wait := p.turn(); wait != 500*time.Microsecond || sentBy(all) != 2 {
			t.Errorf("%d are sent, and the next waits %v", sentBy(all), wait)
		}
	})
}

func TestAnswersOfHTTPAreTakenWhole(t *testing.T) {
	t.Parallel()
	const one = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: 5\r\n\r\nhello"
	for cut := range len(one) {
		if _, _, size, err := httpAnswer([]byte(one[:cut])); size != 0 || err != nil {
			t.Fatalf("of %d bytes: %d %v", cut, size, err)
		}
	}
	if first, body, size, err := httpAnswer([]byte(one + "HTTP/1.1 ")); first != answeredOK || string(body) != "hello" || size != len(one) || err != nil {
		t.Errorf("%d %q %d %v", first, body, size, err)
	}
	if first, body, _, err := httpAnswer([]byte("HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno")); first != answeredOther || string(body) != "no" || err != nil {
		t.Errorf("a refusal is %d %q %v", first, body, err)
	}
	for _, bad := range []string{"Content-Length: x", "Content-Length: -1", "Transfer-Encoding: chunked", "Content-Length: 99999999"} {
		if _, _, _, err := httpAnswer([]byte("HTTP/1.1 200 OK\r\n" + bad + "\r\n\r\n")); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
