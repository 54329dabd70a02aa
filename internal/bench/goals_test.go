package bench

import (
	"strings"
	"testing"
	"time"
)

func TestGoalsAreJudged(t *testing.T) {
	t.Parallel()
	row := func(scenario, peer string, change func(*Result)) Result {
		r := Result{Scenario: scenario, Base: scenario, Peer: peer, Rate: 1, ProcessorPerMillion: 1, P99: time.Microsecond, PerClient: 1024}
		change(&r)
		return r
	}
	report := Report{Results: []Result{
		row("calls", "other", func(r *Result) { r.Rate, r.P50 = 1000, 40*time.Microsecond }),
		row("calls", "ours", func(r *Result) {
			r.Rate, r.ProcessorPerMillion, r.P99, r.PerClient = 2500, 3, 4*time.Microsecond, 5*1024
			r.P50, r.Memory, r.Start = 100*time.Microsecond, 121e6, time.Second/2
		}),
		row("lossy", "ours", func(r *Result) { r.Rate, r.Lost = 50_000, 3 }),
		row("broken", "ours", func(r *Result) { r.Err = "stalled" }),
	}}
	ours := Place{"calls", "ours"}
	other := Place{"calls", "other"}
	for name, test := range map[string]struct {
		goal    Goal
		value   float64
		reached bool
		line    string
	}{
		"a multiple that is reached":   {Goal{Of: ours, Figure: Rate, Beside: other, Limit: 2.5, AtLeast: true}, 2.5, true, "a second, to other 2.5 ≥ 2.5 reached"},
		"a multiple that is missed":    {Goal{Of: ours, Figure: Rate, Beside: other, Limit: 2.6, AtLeast: true}, 2.5, false, "2.5 ≥ 2.6 missed"},
		"processor time, at most":      {Goal{Of: ours, Figure: Processor, Limit: 3}, 3, true, "µs of processor time 3 ≤ 3 reached"},
		"a tail that is too long":      {Goal{Of: ours, Figure: Tail, Beside: other, Limit: 1}, 4, false, "4 ≤ 1 missed"},
		"memory":                       {Goal{Of: ours, Figure: PerClient, Limit: 12}, 5, true, "KiB a client 5 ≤ 12 reached"},
		"what is added":                {Goal{Of: ours, Figure: Middle, Beside: other, Added: true, Limit: 100}, 60, true, "µs at the median, added to other 60 ≤ 100 reached"},
		"memory in all":                {Goal{Of: ours, Figure: Memory, Limit: 120}, 121, false, "MB 121 ≤ 120 missed"},
		"a start":                      {Goal{Of: ours, Figure: Starting, Limit: 1}, 0.5, true, "seconds until it answers 0.5 ≤ 1 reached"},
		"a load beside another":        {Goal{Of: Place{"lossy", "ours"}, Figure: Rate, Beside: ours, Limit: 1, AtLeast: true}, 20, true, "a second, to calls 20 ≥ 1 reached; ours: 3 lost"},
		"a rate by itself":             {Goal{Of: Place{"lossy", "ours"}, Figure: Rate, Limit: 40_000, AtLeast: true}, 50_000, true, "50k ≥ 40k reached; ours: 3 lost"},
		"a load that nobody has run":   {Goal{Of: Place{"nothing", "ours"}, Figure: Rate, Limit: 0}, 0, false, "– ≤ 0 not measured; ours was not there"},
		"a broker that is not there":   {Goal{Of: ours, Figure: Rate, Beside: Place{"calls", "nobody"}, Limit: 9}, 0, false, "not measured; nobody was not there"},
		"runs of which none was whole": {Goal{Of: Place{"broken", "ours"}, Figure: Rate, Limit: 9}, 0, false, "not measured; ours: stalled"},
	} {
		scores := report.Judge([]Goal{test.goal})
		if len(scores) != 1 || scores[0].Value != test.value || scores[0].Reached() != test.reached {
			t.Errorf("%s: %+v", name, scores)
		}
		var table strings.Builder
		if err := WriteScores(&table, scores); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(table.String()), " "); !strings.Contains(got, test.line) {
			t.Errorf("%s: no %q in\n%s", name, test.line, table.String())
		}
	}
}

// Every goal is about loads that are run for it, and none is there twice.
func TestGoalsAreMeasured(t *testing.T) {
	t.Parallel()
	run := make(map[Place]bool)
	note := func(scenarios []Scenario, peers []Peer) {
		for _, s := range scenarios {
			for _, p := range peers {
				run[Place{s.Name, p.Name}] = true
			}
		}
	}
	peers := []Peer{{Name: mosquittoName}, {Name: KindBroker}}
	bridge, web, llm, brokers, err := GoalsOptions{Bridge: []string{"x"}, Peers: peers, Model: Hosted(KindModel, "y")}.runs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []InvokeOptions{bridge, web, llm} {
		if err := o.setDefaults(); err != nil {
			t.Fatal(err)
		}
		note(o.options().Scenarios, o.peers())
	}
	note(brokers.Scenarios, brokers.Peers)
	seen := make(map[Goal]bool)
	for _, g := range Goals() {
		if !run[g.Of] || g.Beside != (Place{}) && !run[g.Beside] {
			t.Errorf("%+v is not run", g)
		}
		if seen[g] || g.Limit <= 0 {
			t.Errorf("%+v is there twice, or asks for nothing", g)
		}
		seen[g] = true
	}
}
