package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/security/quota"
	"github.com/aibridge/aibridge/vfs"
)

// What the bridge of the benchmark holds.
const (
	backupAgents = 10_000 // with four skills each
	backupFiles  = 1_000  // of 256 KiB that do not compress
)

// BenchmarkBackupOfALargeBridge makes backups of a bridge that serves calls of a
// skill, two hundred a second, and reports their 99th percentile without and
// during a backup. Run it with -benchtime 3x.
func BenchmarkBackupOfALargeBridge(b *testing.B) {
	n := bridgetest.Start(b, func(c *app.Config) { c.Quotas = quota.Settings{} })
	fill(b, n)
	served := n.Dial(b, client.WithAgent(client.Agent{ID: "served"}))
	if _, err := served.ServeSkill(b.Context(), client.Skill{
		ID: "served", Name: "Served", Version: "1.0.0",
		Capabilities: []client.Capability{{ID: "ask", Handler: client.Handle(func(context.Context, *client.Invocation, struct{}) (bool, error) { return true, nil })}},
	}); err != nil {
		b.Fatal(err)
	}
	quiet := callsWhile(b, n, func() { time.Sleep(10 * time.Second) })
	var busy []time.Duration
	var size int64
	b.ResetTimer()
	for range b.N {
		busy = append(busy, callsWhile(b, n, func() { size = backupSize(b, n) })...)
	}
	b.StopTimer()
	for name, all := range map[string][]time.Duration{"before": quiet, "during": busy} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50_ms_"+name)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99_ms_"+name)
	}
	b.ReportMetric(float64(size)/(1<<20), "MiB")
}

// fill registers agents and skills and stores files.
func fill(b *testing.B, n *bridgetest.Node) {
	b.Helper()
	c := n.Dial(b)
	var filling sync.WaitGroup
	const atOnce = 32
	for w := range atOnce {
		filling.Go(func() {
			for i := w; i < backupAgents; i += atOnce {
				skills := make([]map[string]any, 4)
				for k := range skills {
					skills[k] = map[string]any{"skill_id": fmt.Sprintf("skill-%d-%d", i, k), "name": "Skill", "capabilities": []string{"act"}}
				}
				if _, err := client.Call[json.RawMessage](b.Context(), c, "agent.register", map[string]any{"agent_id": fmt.Sprint("agent-", i), "type": "end_agent", "skills": skills}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
	files := filesOf(b, n)
	for i := range backupFiles {
		content := io.LimitReader(rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}), 256<<10)
		if _, err := files.Put(b.Context(), "papers", fmt.Sprint("file-", i), content, vfs.PutOptions{Size: -1}); err != nil {
			b.Fatal(err)
		}
	}
}

// callsWhile calls the skill every five milliseconds while something is done,
// and returns how long each call took.
func callsWhile(b *testing.B, n *bridgetest.Node, do func()) []time.Duration {
	b.Helper()
	c := n.Dial(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	var mu sync.Mutex
	var took []time.Duration
	var calls sync.WaitGroup
	defer func() { calls.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			calls.Wait()
			return took
		case <-tick.C:
		}
		calls.Go(func() {
			began := time.Now()
			_, err := client.Call[json.RawMessage](b.Context(), c, "skill.invoke", map[string]any{"skill_id": "served", "capability_id": "ask"})
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
}

// backupSize fetches a backup and returns its length.
func backupSize(b *testing.B, n *bridgetest.Node) int64 {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, n.HTTPURL("/backup"), http.NoBody)
	if err != nil {
		b.Error(err)
		return 0
	}
	response, err := bridgetest.HTTPClient(b).Do(r)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer response.Body.Close()
	size, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Errorf("the backup: %d, %v", response.StatusCode, err)
	}
	return size
}
