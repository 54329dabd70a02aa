package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// BenchmarkAdoption has a bridge with sessions that wait, and a message for each
// of them, be declared dead. It measures how long after the verdict a message of
// QoS 1 to all of them is acknowledged that is published right behind it, and how
// much of that it took to open the journal and load what is in it.
func BenchmarkAdoption(b *testing.B) {
	for _, sessions := range []int{100, 10_000} {
		b.Run(fmt.Sprint(sessions, " sessions"), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				url, n := three(b)
				sleepers(b, n[2], sessions)
				speaker := n[0].Connect(b, "speaker")
				publishes(b, speaker, &paho.Publish{Topic: "news", Payload: make([]byte, 256), QoS: 1})
				b.StartTimer()
				began := time.Now()
				verdict(b, url, "c")
				for adoptions(b, n[:2]) == 0 {
					publishes(b, speaker, &paho.Publish{Topic: "news", Payload: make([]byte, 256), QoS: 1})
				}
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/acknowledged")
				b.ReportMetric(adoptions(b, n[:2])*1000, "ms/loaded")
				b.StopTimer()
				_ = n[2].Ended(b)
				b.StartTimer()
			}
		})
	}
}

// adoptions is for how many seconds bridges took journals of others over.
func adoptions(b *testing.B, all []*bridgetest.Node) (seconds float64) {
	b.Helper()
	for _, n := range all {
		answer, err := http.Get(n.HTTPURL("/metrics"))
		if err != nil {
			b.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			b.Fatal(err)
		}
		_ = answer.Body.Close()
		for line := range strings.Lines(string(text)) {
			if sum, ok := strings.CutPrefix(line, "aibridge_cluster_adoption_seconds_sum "); ok {
				took, _ := strconv.ParseFloat(strings.TrimSpace(sum), 64)
				seconds += took
			}
		}
	}
	return seconds
}

// sleepers leaves kept sessions at a bridge that listen to news.
func sleepers(b *testing.B, at *bridgetest.Node, count int) {
	b.Helper()
	var connecting sync.WaitGroup
	for worker := range 16 {
		connecting.Go(func() {
			for i := worker; i < count; i += 16 {
				c, err := at.TryConnect(b, fmt.Sprint("sleeper-", i), kept)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := c.Subscribe(context.Background(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "news", QoS: 1}}}); err != nil {
					b.Error(err)
					return
				}
				c.Drop()
			}
		})
	}
	connecting.Wait()
}
