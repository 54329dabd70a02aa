package queue

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// figures are the metrics of the lines.
type figures struct{ k *Keeper }

var (
	messagesDesc = prometheus.NewDesc("aibridge_queue_messages", "Messages in a queue, of all spaces: those that wait, and those that workers have not acknowledged.", []string{"queue"}, nil)
	bytesDesc    = prometheus.NewDesc("aibridge_queue_bytes", "Bytes of the messages in a queue, of all spaces.", []string{"queue"}, nil)
	filledDesc   = prometheus.NewDesc("aibridge_queue_filled_ratio", "Part of its room that a queue has used up, in the space where that is most, from 0 to 1.", []string{"queue"}, nil)
	oldestDesc   = prometheus.NewDesc("aibridge_queue_oldest_seconds", "Age of the message of a queue that has waited longest for a worker, of all spaces; 0 if none waits.", []string{"queue"}, nil)
	workersDesc  = prometheus.NewDesc("aibridge_queue_workers", "Clients connected to this bridge that work for a queue, of all spaces that have messages in it.", []string{"queue"}, nil)
)

// Describe implements [prometheus.Collector].
func (f figures) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{messagesDesc, bytesDesc, filledDesc, oldestDesc, workersDesc} {
		out <- d
	}
}

// A sum is a queue of all spaces.
type sum struct {
	in      load
	filled  float64
	oldest  int64 // the time at which it came, in nanoseconds of Unix time, 0 for none
	workers int
}

// Collect implements [prometheus.Collector].
func (f figures) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	for name, s := range f.sums() {
		age := 0.0
		if s.oldest != 0 {
			age = max(0, now.Sub(time.Unix(0, s.oldest)).Seconds())
		}
		for desc, value := range map[*prometheus.Desc]float64{
			messagesDesc: float64(s.in.messages), bytesDesc: float64(s.in.bytes), filledDesc: s.filled,
			oldestDesc: age, workersDesc: float64(s.workers),
		} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name)
		}
	}
}

// sums are the queues, by name. Those that are not configured any more are among them
// while they have messages.
func (f figures) sums() map[string]*sum {
	sums := make(map[string]*sum)
	for _, key := range f.add(sums) {
		sums[key.queue].workers += f.k.workers(key)
	}
	return sums
}

// add adds what the lines have, and returns their keys: the broker is asked without the
// lock of the keeper.
func (f figures) add(sums map[string]*sum) (lines []lineKey) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	for name := range f.k.queues {
		sums[name] = new(sum)
	}
	for key, l := range f.k.lines {
		lines = append(lines, key)
		s := sums[key.queue]
		if s == nil {
			s = new(sum)
			sums[key.queue] = s
		}
		s.in = s.in.plus(l.in)
		s.filled = max(s.filled, l.filled())
		if at := l.first(); at != 0 && (s.oldest == 0 || at < s.oldest) {
			s.oldest = at
		}
	}
	return lines
}

// filled is the part of its room that a line has used up.
func (l *line) filled() float64 {
	if l.queue.Messages == 0 || l.queue.Bytes == 0 { // it is not configured any more
		return 0
	}
	return max(float64(l.in.messages)/float64(l.queue.Messages), float64(l.in.bytes)/float64(l.queue.Bytes))
}

// workers is the number of clients connected to this bridge that work for a queue of a
// space. The lock of the keeper is not held then.
func (k *Keeper) workers(key lineKey) int {
	q := k.queues[key.queue]
	if q == nil || k.server == nil {
		return 0
	}
	return k.server.Subscribers(key.space, q.filters())
}
