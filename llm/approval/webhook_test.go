package approval

import (
	"bytes"
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
	"testing"
	"testing/synctest"
	"time"

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
	c := newCouriers(Options{Webhooks: []Webhook{hook}, Log: discard, Now: func() time.Time { return time.Unix(7, 0) }, Transport: answers(func(r *http.Request) (int, error) {
		body, _ = io.ReadAll(r.Body)
		contentType, signature = r.Header.Get("Content-Type"), r.Header.Get(SignatureHeader)
		return 200, nil
	})})
	c.send(protocol.DefaultSpace, &protocol.Event{ID: "a-1", Name: "approval.requested", Seq: 2, Timestamp: 5, Data: []byte(`{"nonce":"n"}`)})
	c.each[0].deliver(t.Context(), <-c.each[0].queue)
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

func TestWebhooksAreTriedAFewTimes(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		err    error
		tries  int
	}{"down": {0, errors.New("refused"), attempts}, "broken": {503, nil, attempts}, "busy": {429, nil, attempts}, "wrong": {404, nil, 1}, "moved": {302, nil, 1}, "fine": {200, nil, 1}} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			start := time.Now()
			c := newCouriers(Options{Webhooks: []Webhook{{URL: "http://desk.example/"}}, Log: discard, Now: time.Now, Transport: answers(func(*http.Request) (int, error) {
				tries++
				return test.status, test.err
			})}).each[0]
			c.deliver(t.Context(), delivery{body: []byte("{}")})
			if tries != test.tries || test.tries > 1 && time.Since(start) != 7*time.Second {
				t.Errorf("%s: %d times in %s", name, tries, time.Since(start))
			}
		})
	}
}

func TestSecretsInTheURLsOfWebhooksAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCouriers(Options{Webhooks: []Webhook{{URL: "http://desk.example/hooks/T0P-S3CRET"}}, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now, Transport: answers(func(*http.Request) (int, error) {
			return 0, errors.New("connection refused")
		})}).each[0]
		c.deliver(t.Context(), delivery{body: []byte("{}")})
		if text := log.String(); strings.Contains(text, "S3CRET") || !strings.Contains(text, "host=desk.example") || !strings.Contains(text, "connection refused") {
			t.Errorf("logged %s", text)
		}
	})
}

func TestWebhooksDoNotHoldAnybodyUp(t *testing.T) {
	c := newCouriers(Options{Log: discard, Now: time.Now, Webhooks: []Webhook{{URL: "http://desk.example/"}}})
	for range maxDeliveries + 10 {
		c.send(protocol.DefaultSpace, &protocol.Event{Name: "approval.requested"})
	}
	if n := len(c.each[0].queue); n != maxDeliveries {
		t.Errorf("%d wait", n)
	}
}

// TestADeadWebhookHoldsNoOtherUp fills the queue of one that never answers
// before another is told anything.
func TestADeadWebhookHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan struct{}, 1)
		c := newCouriers(Options{
			Log: discard, Now: time.Now,
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
		for range many {
			c.send("acme", &protocol.Event{Name: "approval.requested"})
			<-told
		}
		start := time.Now()
		c.send(protocol.DefaultSpace, &protocol.Event{Name: "approval.requested"})
		<-told
		if took := time.Since(start); took != 0 {
			t.Errorf("told after %s", took)
		}
		if n := len(c.each[0].queue); n != maxDeliveries {
			t.Errorf("%d wait for the dead one", n)
		}
	})
}
