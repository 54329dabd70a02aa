package approval

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = d.Run(ctx) }()
	return d, func() { cancel(); <-ended }
}

// TestWhatAWebhookIsOwedOutlivesTheProcess has a webhook that is down, a process that
// asks and ends, one that decides and goes on for it, and one that has nothing to tell.
func TestWhatAWebhookIsOwedOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
