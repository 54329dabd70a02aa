package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

// lister is a provider that answers to being looked at.
type lister struct {
	status int // 0 cannot be reached
	looks  atomic.Int64
}

func (l *lister) RoundTrip(*http.Request) (*http.Response, error) {
	l.looks.Add(1)
	if l.status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: l.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"data":[]}`))}, nil
}

func TestIdleProvidersAreLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		works  bool // as its breaker has it after a while
	}{
		"one that works":             {200, true},
		"one that lists no models":   {404, true},
		"one that breaks at it":      {500, true},
		"one that cannot be reached": {0, false},
		"one that does not know us":  {401, false},
		"one that is overloaded":     {503, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				l := &lister{status: test.status}
				s := New(Options{Transport: l})
				c := at(&wiretest.Server{URL: "http://127.0.0.1:1"})
				c.Probe = 0
				if _, err := s.Configure(c); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = s.Run(ctx) })
				time.Sleep(defaultProbe - 2*time.Second)
				if n := l.looks.Load(); n != 0 {
					t.Errorf("it is looked at %d times before its time", n)
				}
				time.Sleep(2*defaultProbe + 5*time.Second)
				synctest.Wait()
				if state, _, _ := s.catalog.Load().providers[0].breaker.state(); l.looks.Load() != 3 || (state == "closed") != test.works {
					t.Errorf("after %d looks it is %s", l.looks.Load(), state)
				}
				cancel()
				running.Wait()
			})
		})
	}
}

func TestSpansFollowTheConventions(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	h := newHouse(t, at(wiretest.New(t, said("a secret"), wiretest.Reply{Status: 503})), func(o *Options) { o.Tracer = tracer })
	for range 2 {
		_, _ = h.ask(t, `{"query":"my secret","options":{"max_tokens":9}}`)
	}
	spans := recorder.Ended()
	if len(spans) != 2 || spans[0].Name() != "chat real-m" {
		t.Fatalf("got %v", spans)
	}
	said := attribute.NewSet(spans[0].Attributes()...)
	for key, want := range map[attribute.Key]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "real-m", "gen_ai.response.model": "m-1",
		"gen_ai.request.max_tokens": "9", "gen_ai.usage.input_tokens": "10", "gen_ai.usage.output_tokens": "5", "gen_ai.response.finish_reasons": `["end_turn"]`,
	} {
		if got, _ := said.Value(key); got.String() != want {
			t.Errorf("%s is %q", key, got.String())
		}
	}
	failed := attribute.NewSet(spans[1].Attributes()...)
	if kind, _ := failed.Value("error.type"); kind.AsString() != "overloaded" {
		t.Errorf("the second failed with %q", kind.AsString())
	}
	for _, span := range spans {
		for _, a := range span.Attributes() {
			if strings.Contains(a.Value.String(), "secret") {
				t.Errorf("%s tells what was asked", a.Key)
			}
		}
	}
}

func TestAQueryThatIsGivenUpIsNoFailureOfTheProvider(t *testing.T) {
	slow := wiretest.Stream(`{"choices":[{"delta":{"content":"Well"}}]}`)
	slow.Hold = true
	s := wiretest.New(t, slow)
	h := newHouse(t, at(s))
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error)
	began := make(chan struct{}, 8)
	go func() {
		_, err := h.Ask(ctx, question1("a"), func(chat.Event) error {
			began <- struct{}{}
			return nil
		})
		answered <- err
	}()
	<-began
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for s.Gone() == 0 {
		time.Sleep(time.Millisecond)
	}
	if state, last, _ := h.catalog.Load().providers[0].breaker.state(); state != "closed" || last != chat.ErrorKind("") {
		t.Errorf("the provider is %s for %s", state, last)
	}
}
