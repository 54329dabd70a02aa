package approval

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// A world is what outlives processes: the state, and a webhook that may be down.
type world struct {
	approvals *recordstest.Memory[Record]
	told      *recordstest.Memory[Told]

	mu   sync.Mutex
	down bool
	seen map[string]int // by delivery
	of   []string       // the events, in order
}

func newWorld() *world {
	return &world{approvals: recordstest.New[Record](), told: recordstest.New[Told](), seen: make(map[string]int)}
}

// mailing has a process tell people by a mail server, unless the world is broken.
func (w *world) mailing(office *postOffice) func(*Options) {
	return func(o *Options) {
		o.Webhooks = nil
		o.Mail = &Mailer{
			Server: office.address, TLS: ClearText, From: address("bridge@example.com"), To: []mail.Address{address("desk@example.com")},
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				w.mu.Lock()
				down := w.down
				w.mu.Unlock()
				if down {
					return nil, errors.New("the mail server is away")
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}
	}
}

// answer is the webhook.
func (w *world) answer(r *http.Request) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return 503, nil
	}
	w.seen[r.Header.Get("Aibridge-Delivery")]++
	w.of = append(w.of, r.Header.Get("Aibridge-Event"))
	return 204, nil
}

func (w *world) breaks(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// begins starts a process that goes on for others, until stop.
func (w *world) begins(t *testing.T, node string, dead ...string) (d *desk, stop func()) {
	t.Helper()
	return w.beginsWith(t, func(*Options) {}, node, dead...)
}

func (w *world) beginsWith(t *testing.T, change func(*Options), node string, dead ...string) (d *desk, stop func()) {
	t.Helper()
	d = newDesk(t, func(o *Options) {
		o.Approvals, o.Told, o.Node = w.approvals, w.told, node
		o.Webhooks, o.Transport = []Webhook{{URL: "http://desk.example/"}}, answers(w.answer)
		o.Heir = func(context.Context) (func(node, thing string) bool, error) {
			return func(node, _ string) bool {
				for _, d := range dead {
					if node == d {
						return true
					}
				}
				return false
			}, nil
		}
		change(o)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = d.Run(ctx) }()
	return d, func() { cancel(); <-ended }
}

// TestWhatAWebhookIsOwedOutlivesTheProcess has a webhook that is down, a process that
// asks and ends, one that decides and goes on for it, and one that has nothing to tell.
func TestWhatAWebhookIsOwedOutlivesTheProcess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		w.breaks(true)
		a, stop := w.begins(t, "a.1")
		call, leave := context.WithCancel(t.Context())
		passed := a.gate(call, oven, heat(bot))
		asked := a.asked(t)
		synctest.Wait()
		stop()

		b, stop := w.begins(t, "b.1", "a.1")
		if err := b.decide(alice, asked, "deny", "too hot"); err != nil {
			t.Fatal(err)
		}
		<-passed
		leave()
		if err := b.Retell(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.breaks(false)
		time.Sleep(time.Minute)
		for range 3 {
			if err := b.Retell(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		stop()

		c, stop := w.begins(t, "c.1", "a.1", "b.1")
		if owed := c.debt.ids(); len(owed) != 0 {
			t.Errorf("still owed: %v", owed)
		}
		if err := c.Retell(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		if len(w.of) != 2 || len(w.seen) != 2 || w.of[0] == w.of[1] {
			t.Errorf("told of %v, %v", w.of, w.seen)
		}
	})
}

// TestNobodyIsToldForAProcessThatLives starts a second process while the first one
// still tries.
func TestNobodyIsToldForAProcessThatLives(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		w.breaks(true)
		a, stopA := w.begins(t, "a.1")
		call, leave := context.WithCancel(t.Context())
		passed := a.gate(call, oven, heat(bot))
		a.asked(t)
		synctest.Wait()
		b, stopB := w.begins(t, "b.1")
		if err := b.Retell(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.breaks(false)
		synctest.Wait()
		if len(w.of) != 0 {
			t.Errorf("told of %v before the first one tried again", w.of)
		}
		leave()
		<-passed
		time.Sleep(time.Minute)
		stopA()
		stopB()
		if len(w.of) != 2 || len(w.seen) != 2 {
			t.Errorf("told of %v, %v", w.of, w.seen)
		}
	})
}

// TestWhatDoesNotFitIsToldLater lets more wait than there is room for.
func TestWhatDoesNotFitIsToldLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld()
		a, stop := w.begins(t, "a.1")
		w.breaks(true)
		a.hooks.each[0].mu.Lock()
		a.hooks.each[0].waiting = make([]*delivery, maxDeliveries)
		for i := range a.hooks.each[0].waiting {
			a.hooks.each[0].waiting[i] = &delivery{due: time.Now().Add(time.Hour)}
		}
		a.hooks.each[0].mu.Unlock()
		call, leave := context.WithCancel(t.Context())
		passed := a.gate(call, oven, heat(bot))
		a.asked(t)
		leave()
		<-passed
		w.breaks(false)
		a.hooks.each[0].mu.Lock()
		a.hooks.each[0].waiting = nil
		a.hooks.each[0].mu.Unlock()
		if err := a.Retell(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		if len(w.of) != 2 {
			t.Errorf("told of %v", w.of)
		}
	})
}

// TestAnEmailIsSentThoughItsProcessEnds asks about two calls while the mail server is away,
// in a process that ends. One of them is decided meanwhile. The next process sends the
// e-mail about the other, and the one after that none.
func TestAnEmailIsSentThoughItsProcessEnds(t *testing.T) {
	w, office := newWorld(), openPostOffice(t, nil)
	w.breaks(true)
	a, stop := w.beginsWith(t, w.mailing(office), "a.1")
	call, leave := context.WithCancel(t.Context())
	var passed []<-chan error
	var asked []Approval
	for _, at := range []string{"100", "200"} {
		x := heat(bot)
		x.ArgumentsJSON = json.RawMessage(`{"at":` + at + `}`)
		passed = append(passed, a.gate(call, oven, x))
		asked = append(asked, a.asked(t))
	}
	eventually.Holds(t, "the e-mails are tried", func() bool {
		a.mail.mu.Lock()
		defer a.mail.mu.Unlock()
		for _, l := range a.mail.waiting {
			if l.due.IsZero() {
				return false
			}
		}
		return len(a.mail.waiting) == 2
	})
	stop()

	w.breaks(false)
	b, stop := w.beginsWith(t, w.mailing(office), "b.1", "a.1")
	if err := b.decide(alice, asked[0], "deny", "too hot"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Retell(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-office.letters; !strings.Contains(got.text, asked[1].ID) || !strings.Contains(got.text, "Message-ID: <"+asked[1].ID+"-") {
		t.Errorf("sent is %s", got.text)
	}
	eventually.Holds(t, "nothing is owed any more", func() bool { return len(b.debt.ids()) == 0 })
	stop()

	c, stop := w.beginsWith(t, w.mailing(office), "c.1", "a.1", "b.1")
	if owed := c.debt.ids(); len(owed) != 0 {
		t.Errorf("still owed: %v", owed)
	}
	if err := c.Retell(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	if len(office.letters) != 0 || len(c.mail.waiting) != 0 {
		t.Errorf("%d more are sent, %d wait", len(office.letters), len(c.mail.waiting))
	}
	leave()
	for _, p := range passed {
		<-p
	}
}
