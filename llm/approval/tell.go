package approval

import (
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// tell tells everybody who should know what happened to an approval: approvers
// on their topic, webhooks, the audit trail.
func (s *Service) tell(name string, r *Record, by *protocol.Principal) {
	view := s.view(r)
	if name == "approval."+string(view.State) || name == "approval.requested" {
		s.metrics.ended(view.State)
	}
	s.opts.Record(Event{Name: name, Approval: view, By: by})
	data, err := json.Marshal(view)
	if err != nil { // it came from JSON
		s.opts.Log.Error("an event of an approval is not rendered", "event", name, "error", err)
		return
	}
	s.mu.Lock()
	s.seqs[view.Space]++
	seq := s.seqs[view.Space]
	s.mu.Unlock()
	event := &protocol.Event{
		Version: protocol.Version, ID: view.ID, Timestamp: ms(s.opts.Now()), Name: name, Seq: seq, Data: data,
		Metadata: protocol.Metadata{SenderID: s.opts.BridgeID, TraceID: view.TraceID},
	}
	s.opts.Publish(protocol.Everybody(view.Space), event)
	s.hooks.send(view.Space, event)
	s.mail.send(r, view, name, deliveryID(event))
}

type metrics struct {
	rulings *prometheus.CounterVec
	states  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, s *Service) *metrics {
	m := &metrics{
		rulings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_approval_rulings_total", Help: "Calls of tools by models, by what was decided about them: run, ask, deny.",
		}, []string{"ruling"}),
		states: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_approvals_total", Help: "Approvals, by the states they came to.",
		}, []string{"state"}),
	}
	if r != nil {
		r.MustRegister(m.rulings, m.states, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_approvals_waiting", Help: "Calls that wait for an approval.",
		}, func() float64 { return float64(s.tally.total()) }))
	}
	return m
}

func (m *metrics) ruled(r Ruling) { m.rulings.WithLabelValues(r.String()).Inc() }
func (m *metrics) ended(s State)  { m.states.WithLabelValues(string(s)).Inc() }
