package a2a

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/fair"
)

// A desk answers at once, but for the host "hole", which never does.
type desk struct{ waits chan struct{} }

// RoundTrip implements [http.RoundTripper].
func (d desk) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "hole" {
		d.waits <- struct{}{}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
}

// Receivers of one principal that do not answer leave room for those of others, of the
// same space and of another one.
func TestReceiversThatDoNotAnswerDelayNobodyElse(t *testing.T) {
	t.Parallel()
	p := newPushes(New(Options{}))
	to := desk{waits: make(chan struct{}, 2*maxPosts)}
	p.client = &http.Client{Transport: to}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	mallory := fair.Party{Principal: "acme/operator/mallory", Space: "acme"}
	for range 2 * maxPosts {
		all.Go(func() {
			if err := p.post(ctx, mallory, &PushConfig{URL: "http://hole/"}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a receiver that does not answer: %v", err)
			}
		})
	}
	own, _ := fair.Share(maxPosts, mallory)
	for range own { // all that it may have
		<-to.waits
	}
	for _, other := range []fair.Party{{Principal: "acme/operator/ann", Space: "acme"}, {Principal: "home/operator/ben", Space: "home"}} {
		if err := p.post(ctx, other, &PushConfig{URL: "http://desk/"}, nil); err != nil {
			t.Errorf("%s: %v", other.Principal, err)
		}
	}
}
