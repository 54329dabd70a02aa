package llm

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

// aStream is a provider that says n words, one each pause, or as quickly as it
// can.
func aStream(b *testing.B, words int, pause time.Duration) *httptest.Server {
	piece := []byte("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n")
	end := []byte("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		var tick <-chan time.Time
		if pause > 0 {
			ticker := time.NewTicker(pause)
			defer ticker.Stop()
			tick = ticker.C
		}
		for range words {
			if tick != nil {
				<-tick
			}
			_, _ = w.Write(piece)
			w.(http.Flusher).Flush()
		}
		_, _ = w.Write(end)
	}))
	b.Cleanup(s.Close)
	return s
}

// transport keeps as many connections as there are streams.
func transport() *http.Transport {
	return &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 256}
}

// routed is a router with a service that asks a provider.
func routed(b *testing.B, url string) *commands.Router {
	transport := transport()
	s := model.New(model.Options{Transport: transport})
	if _, err := s.Configure(at(&wiretest.Server{URL: url})); err != nil {
		b.Fatal(err)
	}
	set, err := commands.NewSet(New(Options{Models: s}).Commands()...)
	if err != nil {
		b.Fatal(err)
	}
	r := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	b.Cleanup(func() {
		_ = r.Close(context.Background())
		transport.CloseIdleConnections()
	})
	return r
}

var benchIDs atomic.Int64

// query1 asks by command, with a stream, and returns how many events came.
func query1(b *testing.B, r *commands.Router) int {
	body := fmt.Appendf(nil, `{"version":"0.6.3","id":"b-%d","timestamp":0,"type":"request","command":"llm.query","params":{"query":"hi","stream":true},"metadata":{"timeout":600000}}`, benchIDs.Add(1))
	events := 0
	resp := r.Handle(context.Background(), commands.Inbound{Principal: alice, Body: body, Door: "test", Emit: func(e *protocol.Event) { events++ }})
	if resp.Err != nil {
		b.Error(resp.Err)
	}
	return events
}

// direct asks the provider with nothing in between, and reads its lines.
func direct(b *testing.B, c *http.Client, url string) int {
	resp, err := c.Post(url+"/chat/completions", "application/json", bytes.NewReader([]byte(`{"model":"real-m","messages":[{"role":"user","content":"hi"}],"stream":true}`)))
	if err != nil {
		b.Error(err)
		return 0
	}
	defer resp.Body.Close()
	lines := 0
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if bytes.HasPrefix(s.Bytes(), []byte("data: ")) {
			lines++
		}
	}
	return lines
}

// BenchmarkAddedLatency says how much longer a whole answer takes by command
// than from the provider itself, half of the time.
func BenchmarkAddedLatency(b *testing.B) {
	s := aStream(b, 1, 0)
	r, c := routed(b, s.URL), s.Client()
	var without, with []time.Duration
	measure := func(list *[]time.Duration, f func()) {
		start := time.Now()
		f()
		*list = append(*list, time.Since(start))
	}
	for b.Loop() {
		measure(&without, func() { direct(b, c, s.URL) })
		measure(&with, func() { query1(b, r) })
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2]) / float64(time.Microsecond)
	}
	b.ReportMetric(median(without), "direct-µs-p50")
	b.ReportMetric(median(with)-median(without), "added-µs-p50")
}

// BenchmarkStreams runs 200 streams at once of a provider that writes 100
// words a second for each, by command and directly.
func BenchmarkStreams(b *testing.B) {
	const streams, words = 200, 100
	s := aStream(b, words, 10*time.Millisecond)
	r := routed(b, s.URL)
	c := &http.Client{Transport: transport()}
	b.Cleanup(c.CloseIdleConnections)
	run := func(one func() int) float64 {
		var all sync.WaitGroup
		start := time.Now()
		for range streams {
			all.Go(func() {
				if one() < words {
					b.Error("words are missing")
				}
			})
		}
		all.Wait()
		return streams * words / time.Since(start).Seconds()
	}
	var without, with float64
	rounds := 0.0
	for b.Loop() {
		without += run(func() int { return direct(b, c, s.URL) })
		with += run(func() int { return query1(b, r) })
		rounds++
	}
	b.ReportMetric(without/rounds, "direct-words/s")
	b.ReportMetric(with/rounds, "words/s")
	b.ReportMetric(100*(1-with/without), "loss-%")
}

// BenchmarkEvent measures one word of a stream between the provider's
// bytes and the caller's event.
func BenchmarkEvent(b *testing.B) {
	const words = 10_000
	var text bytes.Buffer
	for range words {
		text.WriteString("data: {\"choices\":[{\"delta\":{\"content\":\" word\"}}]}\n\n")
	}
	text.WriteString("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	s := model.New(model.Options{Transport: written(text.Bytes())})
	if _, err := s.Configure(at(&wiretest.Server{URL: "http://127.0.0.1:1"})); err != nil {
		b.Fatal(err)
	}
	set, err := commands.NewSet(New(Options{Models: s}).Commands()...)
	if err != nil {
		b.Fatal(err)
	}
	r := commands.NewRouter(set, commands.RouterOptions{Authorizer: commands.AllowAll{}})
	defer func() { _ = r.Close(context.Background()) }()
	events := 0
	start := time.Now()
	for b.Loop() {
		events += query1(b, r)
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(events), "ns/event")
}

// written is a provider whose answers are there already.
type written []byte

func (w written) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(w))}, nil
}
