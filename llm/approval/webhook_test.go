package approval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

var discard = slog.New(slog.DiscardHandler)

// answers is a network with one server.
type answers func(*http.Request) (int, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, err := f(r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func TestWebhooksAreToldWithASignature(t *testing.T) {
	secret := []byte("a secret")
	got := make(chan *http.Request, 8)
	bodies := make(chan string, 8)
	d := newDesk(t, func(o *Options) {
		o.Webhooks = []Webhook{{URL: "http://desk.example/hook", Secret: secret}, {URL: "http://elsewhere.example/", Spaces: []protocol.SpaceID{"elsewhere"}}}
		o.Transport = answers(func(r *http.Request) (int, error) {
			body, _ := io.ReadAll(r.Body)
			bodies <- string(body)
			got <- r
			return 204, nil
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	call, stop := context.WithCancel(ctx)
	passed := d.gate(call, oven, heat(bot))
	a := d.asked(t)
	r, body := <-got, <-bodies
	event, err := protocol.DecodeEvent([]byte(body), protocol.Limits{})
	if err != nil || event.Name != "approval.requested" || event.ID != a.ID || !strings.Contains(string(event.Data), a.Nonce) || r.URL.Host != "desk.example" {
		t.Errorf("%s got %s, %v", r.URL, body, err)
	}
	unix, signature, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(SignatureHeader), "t="), ",v1=")
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s", unix, body)
	if signature != hex.EncodeToString(mac.Sum(nil)) || r.Header.Get("Aibridge-Event") != "approval.requested" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("header %v", r.Header)
	}
	stop()
	<-passed
	if r := <-got; r.Header.Get("Aibridge-Event") != "approval.withdrawn" {
		t.Errorf("header %v", r.Header)
	}
	cancel()
	<-ended
}

// TestAWebhookIsToldOfACloudEvent: what its signature covers is the whole event.
func TestAWebhookIsToldOfACloudEvent(t *testing.T) {
	hook := Webhook{URL: "http://desk.example/", CloudEvents: true, Secret: []byte("a secret")}
	var contentType, signature string
	var body []byte
	c, _ := couriersOf(Options{Webhooks: []Webhook{hook}, Now: func() time.Time { return time.Unix(7, 0) }, Transport: answers(func(r *http.Request) (int, error) {
		body, _ = io.ReadAll(r.Body)
		contentType, signature = r.Header.Get("Content-Type"), r.Header.Get(SignatureHeader)
		return 200, nil
	})})
	c.send(protocol.DefaultSpace, &protocol.Event{ID: "a-1", Name: "approval.requested", Seq: 2, Timestamp: 5, Data: []byte(`{"nonce":"n"}`)}, 0, toldNobody)
	c.each[0].deliver(t.Context(), c.each[0].waiting[0])
	var event struct {
		ID, Type, Subject, Specversion string
		Data                           struct{ Nonce string }
	}
	if err := json.Unmarshal(body, &event); err != nil {
		t.Fatal(err)
	}
	if event.ID != "a-1.2.5" || event.Type != "io.github.aibridge.approval.requested" || event.Subject != "approval/a-1" || event.Specversion != "1.0" || event.Data.Nonce != "n" {
		t.Errorf("%s", body)
	}
	if contentType != "application/cloudevents+json" || signature != Sign(hook.Secret, body, time.Unix(7, 0)) {
		t.Errorf("%s, %s", contentType, signature)
	}
}

// toldNobody is for webhooks that were told nothing yet.
func toldNobody(string) bool { return false }

// couriersOf are couriers with nothing behind them. settled counts what they are done with.
func couriersOf(o Options) (c *couriers, settled *atomic.Int32) {
	settled, o.Log = new(atomic.Int32), cmp.Or(o.Log, discard)
	if o.Now == nil {
		o.Now = time.Now
	}
	return newCouriers(o, func(context.Context, string, news) { settled.Add(1) }), settled
}

func TestWebhooksAreTriedForADay(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		err    error
		again  bool
	}{"down": {0, errors.New("refused"), true}, "broken": {503, nil, true}, "busy": {429, nil, true}, "wrong": {404, nil, false}, "moved": {302, nil, false}, "fine": {200, nil, false}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var tries []time.Duration
				start := time.Now()
				all, settled := couriersOf(Options{Webhooks: []Webhook{{URL: "http://desk.example/"}}, Transport: answers(func(*http.Request) (int, error) {
					tries = append(tries, time.Since(start))
					return test.status, test.err
				})})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); all.run(ctx) }()
				all.send(protocol.DefaultSpace, &protocol.Event{ID: "a", Timestamp: start.UnixMilli()}, 0, toldNobody)
				time.Sleep(tooOld - time.Minute)
				synctest.Wait()
				if n := settled.Load(); n != 1 && !test.again || n != 0 && test.again {
					t.Errorf("settled %d times", n)
				}
				time.Sleep(10 * time.Minute)
				cancel()
				<-done
				if n := settled.Load(); n != 1 || len(all.each[0].waiting) != 0 {
					t.Errorf("settled %d times, %d wait", n, len(all.each[0].waiting))
				}
				if !test.again && len(tries) != 1 || test.again && (tries[1] != time.Second || tries[2] != 3*time.Second || tries[11]-tries[10] != longestPause) {
					t.Errorf("tried after %v", tries)
				}
			})
		})
	}
}

func TestSecretsInTheURLsOfWebhooksAreNotLogged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		all, _ := couriersOf(Options{Webhooks: []Webhook{{URL: "http://desk.example/hooks/T0P-S3CRET"}}, Log: slog.New(slog.NewTextHandler(&log, nil)), Transport: answers(func(*http.Request) (int, error) {
			return 0, errors.New("connection refused")
		})})
		all.each[0].deliver(t.Context(), &delivery{body: []byte("{}")})
		if text := log.String(); strings.Contains(text, "S3CRET") || !strings.Contains(text, "host=desk.example") || !strings.Contains(text, "connection refused") {
			t.Errorf("logged %s", text)
		}
	})
}

func TestWebhooksDoNotHoldAnybodyUp(t *testing.T) {
	c, _ := couriersOf(Options{Webhooks: []Webhook{{URL: "http://desk.example/"}}})
	for i := range maxDeliveries + 10 {
		c.send(protocol.DefaultSpace, &protocol.Event{Name: "approval.requested", Seq: uint64(i)}, -1, toldNobody)
	}
	if n := len(c.each[0].waiting); n != maxDeliveries/2 {
		t.Errorf("%d wait", n)
	}
}

// TestADeadWebhookHoldsNoOtherUp fills the queue of one that never answers
// before another is told anything.
func TestADeadWebhookHoldsNoOtherUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		told := make(chan struct{}, 1)
		c, _ := couriersOf(Options{
			Webhooks: []Webhook{{URL: "http://dead.example/", Spaces: []protocol.SpaceID{"acme"}}, {URL: "http://desk.example/"}},
			Transport: answers(func(r *http.Request) (int, error) {
				if r.URL.Host == "dead.example" {
					<-r.Context().Done()
					return 0, r.Context().Err()
				}
				told <- struct{}{}
				return 204, nil
			}),
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.run(ctx)
		const many = maxDeliveries + 10 // more than wait for one
		for i := range many {
			c.send("acme", &protocol.Event{Name: "approval.requested", Seq: uint64(i)}, -1, toldNobody)
			<-told
		}
		start := time.Now()
		c.send(protocol.DefaultSpace, &protocol.Event{Name: "approval.requested", Seq: many}, -1, toldNobody)
		<-told
		if took := time.Since(start); took != 0 {
			t.Errorf("told after %s", took)
		}
		if n := len(c.each[0].waiting); n != maxDeliveries {
			t.Errorf("%d wait for the dead one", n)
		}
	})
}
