package model

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/protocol"
)

// A roundTrip is a provider without a network between.
type roundTrip func(question string) (answer string)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	question, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer := f(string(question))
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(answer)),
		Header: http.Header{"Content-Type": {"text/event-stream"}},
	}, nil
}

// stream is an answer with a text, in pieces of some bytes.
func stream(text string, piece int) string {
	var b bytes.Buffer
	for len(text) > 0 {
		n := min(piece, len(text))
		fmt.Fprintf(&b, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", text[:n])
		text = text[n:]
	}
	b.WriteString("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n")
	return b.String()
}

// inMemory is a house whose only provider answers as f does.
func inMemory(t *testing.T, concurrency int, f roundTrip) *house {
	t.Helper()
	return newHouse(t, Config{
		Providers: []ProviderConfig{{Name: "p", Wire: "openai", BaseURL: "http://127.0.0.1:1/v1", Concurrency: concurrency, Idle: -1}},
		Models:    []ModelConfig{{Name: "m", Routes: []Route{{Provider: "p"}}}},
		Probe:     -1,
	}, func(o *Options) { o.Transport = f })
}

func (h *house) askAs(ctx context.Context, who, text string) (*Reply, error) {
	return h.Ask(ctx, Question{
		Principal: &protocol.Principal{Kind: protocol.KindAgent, ID: who},
		Request:   chat.Request{Messages: []chat.Message{chat.TextMessage(chat.User, text)}},
	}, nil)
}

func TestSlowQueriesOfOneKeepNobodyElseWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		h := inMemory(t, 16, func(question string) string {
			if strings.Contains(question, "slow") {
				<-slow
			}
			return stream("yes", 1)
		})
		var queries sync.WaitGroup
		for range 10 { // four are asked, and the others wait
			queries.Go(func() {
				if _, err := h.askAs(t.Context(), "greedy", "slow"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		places := h.catalog.Load().providers[0].places
		if places.Used() != 4 || places.Waiting() != 6 {
			t.Errorf("%d of the greedy one's are asked and %d wait, want 4 and 6", places.Used(), places.Waiting())
		}
		if o, err := h.askAs(t.Context(), "modest", "quick"); err != nil || o.Answer.Text() != "yes" {
			t.Errorf("somebody else gets %v, %v", o, err)
		}
		close(slow)
		queries.Wait()
		if places.Used() != 0 || h.answers.Used() != 0 {
			t.Errorf("%d places and %d bytes are lost", places.Used(), h.answers.Used())
		}
	})
}

func TestAQueryThatWaitsForTooLongIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		h := inMemory(t, 1, func(string) string { <-slow; return stream("yes", 1) })
		first := make(chan error, 1)
		go func() {
			_, err := h.askAs(t.Context(), "one", "?")
			first <- err
		}()
		synctest.Wait()
		if _, err := h.askAs(t.Context(), "other", "?"); protocol.CodeOf(err) != protocol.Busy {
			t.Errorf("%v, want 4008", err)
		}
		close(slow)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func TestAnswersAreBoundedTogether(t *testing.T) {
	const space = 64 * meterStep // a principal has 16
	for name, piece := range map[string]int{"in many pieces": 1 << 10, "in one": 32 * meterStep} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := inMemory(t, 64, func(question string) string {
					if strings.Contains(question, "much") {
						return stream(strings.Repeat("x", 20*meterStep), piece)
					}
					return stream(strings.Repeat("x", 4*meterStep), piece)
				})
				h.answers = newAnswerSpace(space)
				if _, err := h.askAs(t.Context(), "greedy", "much"); protocol.CodeOf(err) != protocol.Busy {
					t.Errorf("more than a share: %v, want 4008", err)
				}
				if n := h.answers.Used(); n != 0 {
					t.Errorf("%d bytes are lost", n)
				}
				if o, err := h.askAs(t.Context(), "modest", "little"); err != nil || len(o.Answer.Text()) != 4*meterStep {
					t.Errorf("%v", err)
				}
				if b := &h.catalog.Load().providers[0].breaker; b.failures != 0 {
					t.Error("the provider is blamed")
				}
			})
		})
	}
}
