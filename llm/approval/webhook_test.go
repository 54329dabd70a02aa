package approval

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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

func TestWebhooksAreTriedAFewTimes(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		err    error
		tries  int
	}{"down": {0, errors.New("refused"), attempts}, "broken": {503, nil, attempts}, "busy": {429, nil, attempts}, "wrong": {404, nil, 1}, "moved": {302, nil, 1}, "fine": {200, nil, 1}} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			start := time.Now()
			c := newCourier(Options{Log: discard, Now: time.Now, Transport: answers(func(*http.Request) (int, error) {
				tries++
				return test.status, test.err
			})})
			c.deliver(t.Context(), delivery{hook: Webhook{URL: "http://desk.example/"}, body: []byte("{}")})
			if tries != test.tries || test.tries > 1 && time.Since(start) != 7*time.Second {
				t.Errorf("%s: %d times in %s", name, tries, time.Since(start))
			}
		})
	}
}

func TestSecretsInTheURLsOfWebhooksAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCourier(Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now, Transport: answers(func(*http.Request) (int, error) {
			return 0, errors.New("connection refused")
		})})
		c.deliver(t.Context(), delivery{hook: Webhook{URL: "http://desk.example/hooks/T0P-S3CRET"}, body: []byte("{}")})
		if text := log.String(); strings.Contains(text, "S3CRET") || !strings.Contains(text, "host=desk.example") || !strings.Contains(text, "connection refused") {
			t.Errorf("logged %s", text)
		}
	})
}

func TestWebhooksDoNotHoldAnybodyUp(t *testing.T) {
	c := newCourier(Options{Log: discard, Now: time.Now, Webhooks: []Webhook{{URL: "http://desk.example/"}}})
	for range maxDeliveries + 10 {
		c.send(protocol.DefaultSpace, &protocol.Event{Name: "approval.requested"})
	}
	if len(c.queue) != maxDeliveries {
		t.Errorf("%d wait", len(c.queue))
	}
}
