package run

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
)

// BenchmarkTurn measures a turn besides the model, which answers at once:
// one that reads a small file, one that writes workflow.md, and a whole run of
// a single turn without a call.
func BenchmarkTurn(b *testing.B) {
	for _, kind := range []struct {
		name   string
		answer func() *chat.Answer
	}{
		{"start to rest", func() *chat.Answer { return calls() }},
		{"with a read", func() *chat.Answer { return calls("fs.read", `{"path":"@pkg/assets/comfort.md"}`) }},
		{"with a step", func() *chat.Answer { return step("measure", "measure") }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			const turns = 20
			w := imported(b, func(context.Context, model.Question) (*chat.Answer, error) { return kind.answer(), nil })
			if kind.name == "start to rest" {
				w.Service.opts.Asker = scripted(func(context.Context, model.Question) (*chat.Answer, error) { return says("hello"), nil })
			}
			b.ResetTimer()
			for n := 0; n < b.N; {
				id := w.start(StartParams{Package: "climate-check", Project: "p", MaxTurns: turns})
				got := w.rest(id)
				n += got.Turns
			}
		})
	}
}

// BenchmarkWaiting measures a thousand runs in memory that wait for their
// models in the middle of a conversation.
func BenchmarkWaiting(b *testing.B) {
	const runs = 1000
	for b.Loop() {
		var reached sync.WaitGroup
		reached.Add(runs)
		w := imported(b, func(ctx context.Context, q model.Question) (*chat.Answer, error) {
			if len(q.Request.Messages) < 12 {
				return calls("fs.read", `{"path":"@pkg/steps/measure.md"}`), nil
			}
			reached.Done()
			<-ctx.Done()
			return nil, ctx.Err()
		})
		before := inUse()
		for range runs {
			w.start(StartParams{Package: "climate-check", Project: "p"})
		}
		reached.Wait()
		b.ReportMetric(float64(inUse()-before)/(1<<20), "MB/1000runs")
		w.stop()
	}
}

// inUse is the memory that is in use.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
