package approval

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aibridge/aibridge/protocol"
)

// tell publishes a step of an approval: to approvers on their topic, webhooks, people
// by e-mail, and the audit trail.
func (s *Service) tell(r *Record, step Step, by *protocol.Principal) {
	view, name := s.view(r), step.Event
	if name == "approval."+string(view.State) || name == "approval.requested" {
		s.metrics.ended(view.State)
	}
	s.opts.Record(Event{Name: name, Approval: view, By: by})
	event := s.event(r, &step)
	s.opts.Publish(protocol.Everybody(view.Space), event)
	stored := slices.IndexFunc(r.Steps, func(have Step) bool { return have.Seq == step.Seq && have.At == step.At && have.Node == step.Node })
	s.tellHooks(r, stored, event)
	s.tellPeople(r, stored, event)
}

type metrics struct {
	rulings *prometheus.CounterVec
	states  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, s *Service) *metrics {
	m := &metrics{
		rulings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_approval_rulings_total", Help: "Calls of tools by models, by ruling: run, ask, deny.",
		}, []string{"ruling"}),
		states: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aibridge_approvals_total", Help: "Approvals, by the states they came to.",
		}, []string{"state"}),
	}
	if r != nil {
		r.MustRegister(m.rulings, m.states, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_approvals_waiting", Help: "Calls that wait for an approval.",
		}, func() float64 { return float64(s.tally.total()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aibridge_approvals_untold", Help: "Approvals of which webhooks or people are still to be told something.",
		}, func() float64 { return float64(s.debt.size()) }))
	}
	return m
}

func (m *metrics) ruled(r Ruling) { m.rulings.WithLabelValues(r.String()).Inc() }
func (m *metrics) ended(s State)  { m.states.WithLabelValues(string(s)).Inc() }
