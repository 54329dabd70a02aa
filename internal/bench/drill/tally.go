package drill

import "time"

// A Tally holds the counts of a round.
type Tally struct {
	Round  int    `json:"round"`
	Fault  Fault  `json:"fault"`
	Node   string `json:"node"`
	Rounds int    `json:"rounds"` // in a sum of several

	Sent         int `json:"sent"` // messages of QoS 1 and 2
	Acknowledged int `json:"acknowledged"`
	Refused      int `json:"refused"`
	Lost         int `json:"lost"` // acknowledged deliveries that did not come
	Doubled      int `json:"doubled"`
	Repeated     int `json:"repeated"` // QoS 1, as it may be after a break
	Disordered   int `json:"disordered"`
	SentQoS0     int `json:"sent_qos0"`
	LostQoS0     int `json:"lost_qos0"`

	Calls     int `json:"calls"` // and tasks
	Succeeded int `json:"succeeded"`
	Unknown   int `json:"unknown"` // 4012
	Twice     int `json:"twice"`   // executions that ought not to be

	Works        int `json:"works"`      // loops of tools, calls that wait for an approval, runs of workflows
	WorksDone    int `json:"works_done"` // that came to their end
	Elsewhere    int `json:"elsewhere"`  // agreed to at another bridge than the one that asked
	Steps        int `json:"steps"`      // calls of tools that were executed
	StepsUnknown int `json:"steps_unknown"`

	SessionsLost   int `json:"sessions_lost"`
	Moves          int `json:"moves"`
	StoredLost     int `json:"stored_lost"` // registrations and retained messages that a node did not have
	WillsDue       int `json:"wills_due"`
	WillsMissing   int `json:"wills_missing"`
	WillsUnwanted  int `json:"wills_unwanted"` // doubled, or of a client that came back in time
	FalseReadiness int `json:"false_readiness"`
	GaveUp         int `json:"gave_up"` // bridges that ended by themselves, as after fencing

	// Silence is the longest time that any publisher waited for an acknowledgement from
	// the fault on, and SilenceTypical the median of the publishers'. Recovery is the
	// time from the fault's end until all promises were kept.
	Silence        time.Duration `json:"silence"`
	SilenceTypical time.Duration `json:"silence_typical"`
	Recovery       time.Duration `json:"recovery"`
}

// add sums another round up in t; of times the longest counts.
func (t *Tally) add(o Tally) {
	t.Rounds += o.Rounds
	for _, pair := range []struct{ sum, n *int }{
		{&t.Sent, &o.Sent}, {&t.Acknowledged, &o.Acknowledged}, {&t.Refused, &o.Refused}, {&t.Lost, &o.Lost},
		{&t.Doubled, &o.Doubled}, {&t.Repeated, &o.Repeated}, {&t.Disordered, &o.Disordered},
		{&t.SentQoS0, &o.SentQoS0}, {&t.LostQoS0, &o.LostQoS0},
		{&t.Calls, &o.Calls}, {&t.Succeeded, &o.Succeeded}, {&t.Unknown, &o.Unknown}, {&t.Twice, &o.Twice},
		{&t.Works, &o.Works}, {&t.WorksDone, &o.WorksDone}, {&t.Elsewhere, &o.Elsewhere}, {&t.Steps, &o.Steps}, {&t.StepsUnknown, &o.StepsUnknown},
		{&t.SessionsLost, &o.SessionsLost}, {&t.Moves, &o.Moves}, {&t.StoredLost, &o.StoredLost},
		{&t.WillsDue, &o.WillsDue}, {&t.WillsMissing, &o.WillsMissing}, {&t.WillsUnwanted, &o.WillsUnwanted},
		{&t.FalseReadiness, &o.FalseReadiness}, {&t.GaveUp, &o.GaveUp},
	} {
		*pair.sum += *pair.n
	}
	t.Silence, t.SilenceTypical = max(t.Silence, o.Silence), max(t.SilenceTypical, o.SilenceTypical)
	t.Recovery = max(t.Recovery, o.Recovery)
}
