package model

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

// BenchmarkMemory holds many streams open.
func BenchmarkMemory(b *testing.B) {
	const streams = 250 // of one principal, who may have no more at a time
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\" word\"}}]}\n\n")
		w.(http.Flusher).Flush()
		<-hold
	}))
	defer s.Close()
	defer close(hold)
	c := at(&wiretest.Server{URL: s.URL})
	c.Providers[0].Concurrency = 4 * streams // a principal has a quarter of it
	service := New(Options{})
	if _, err := service.Configure(c); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var began, ended sync.WaitGroup
		before := inUse()
		for range streams {
			began.Add(1)
			var once sync.Once
			ended.Go(func() {
				defer once.Do(began.Done)
				_, _ = service.Ask(ctx, question1("hi"), func(chat.Event) error {
					once.Do(began.Done)
					return nil
				})
			})
		}
		began.Wait()
		b.ReportMetric(float64(inUse()-before)/(1<<10)/streams, "KiB/stream") // the provider's side of them too
		cancel()
		ended.Wait()
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
