package model

import (
	"slices"
	"sync"
	"time"
)

// Latency is the distribution of the times of the last hour's answers.
type Latency struct {
	Answers  int     `json:"answers" doc:"number of these answers, the latest 256 at most"`
	FirstP50 float64 `json:"first_p50_ms" doc:"median of the milliseconds until the first event"`
	FirstP99 float64 `json:"first_p99_ms" doc:"the same, of 99 in 100"`
	WholeP50 float64 `json:"whole_p50_ms" doc:"median of the milliseconds until the end"`
	WholeP99 float64 `json:"whole_p99_ms" doc:"the same, of 99 in 100"`
}

const (
	recentAnswers = 256
	recentTime    = time.Hour
)

// recent holds the times of the latest answers of a provider.
type recent struct {
	mu   sync.Mutex
	ring []answered
	next int
}

type answered struct {
	at           time.Time
	first, whole time.Duration
}

func (r *recent) add(at time.Time, first, whole time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < recentAnswers {
		r.ring = append(r.ring, answered{at, first, whole})
		return
	}
	r.ring[r.next] = answered{at, first, whole}
	r.next = (r.next + 1) % recentAnswers
}

// latency is the distribution within the last hour, nil without answers.
func (r *recent) latency(now time.Time) *Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first, whole []time.Duration
	for _, a := range r.ring {
		if now.Sub(a.at) < recentTime {
			first, whole = append(first, a.first), append(whole, a.whole)
		}
	}
	if len(whole) == 0 {
		return nil
	}
	slices.Sort(first)
	slices.Sort(whole)
	return &Latency{
		Answers:  len(whole),
		FirstP50: quantile(first, 50), FirstP99: quantile(first, 99),
		WholeP50: quantile(whole, 50), WholeP99: quantile(whole, 99),
	}
}

// quantile is a percentile of sorted times, in milliseconds.
func quantile(sorted []time.Duration, percent int) float64 {
	at := (len(sorted)*percent + 99) / 100
	return float64(sorted[max(at, 1)-1].Microseconds()) / 1000
}
