package bench

import (
	"os"
	"path/filepath"
	"slices"
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
		"what is added":                {Goal{Of: ours, Figure: Middle, Beside: other, How: Added, Limit: 100}, 60, true, "µs at the median, added to other 60 ≤ 100 reached"},
		"what two do at most":          {Goal{Of: ours, Figure: Processor, Beside: Place{"lossy", "ours"}, How: Doubled, Limit: 1.7, AtLeast: true}, 2.0 / 3, false, "at most 0.667 ≥ 1.7 missed; ours: 3 lost"},
		"memory in all":                {Goal{Of: ours, Figure: Memory, Limit: 120}, 121, false, "MB resident 121 ≤ 120 missed"},
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

// Every goal is about something that is measured for its part, none is there twice, and
// nothing is measured for no goal but the stock that others are compared with.
func TestGoalsAreMeasured(t *testing.T) {
	t.Parallel()
	o := GoalsOptions{Bridge: []string{"x"}, Peers: []Peer{{Name: mosquittoName}, {Name: KindBroker}}, Model: Hosted(KindModel, "y")}
	measurements, err := o.measurements()
	if err != nil {
		t.Fatal(err)
	}
	measured := make(map[Part][]Place)
	for _, m := range measurements {
		measured[m.part] = append(measured[m.part], m.places...)
	}
	if len(measured) != len(Parts()) {
		t.Errorf("parts that are measured: %v", measured)
	}
	seen := make(map[Goal]bool)
	scenarios := map[string]bool{emptyStock.name: true}
	for _, g := range Goals() {
		scenarios[g.Of.Scenario] = true
		for _, place := range []Place{g.Of, g.Beside} {
			if place != (Place{}) && !slices.Contains(measured[g.Part], place) {
				t.Errorf("%+v is not measured for %+v", place, g)
			}
		}
		if seen[g] || g.Limit <= 0 {
			t.Errorf("%+v is there twice, or asks for nothing", g)
		}
		seen[g] = true
	}
	for part, places := range measured {
		for _, place := range places {
			if !scenarios[place.Scenario] && !strings.HasSuffix(place.Scenario, "window 16") {
				t.Errorf("%s: %+v is measured for no goal", part, place)
			}
		}
	}
}

func TestPartsOfTheGoals(t *testing.T) {
	t.Parallel()
	goals := Goals(PartSize, PartReaders)
	if len(goals) != 2 || goals[0].Part != PartReaders || goals[1].Part != PartSize {
		t.Errorf("%+v", goals)
	}
	if _, err := MeasureGoals(t.Context(), GoalsOptions{Only: []Part{"speed"}}); err == nil || !strings.Contains(err.Error(), string(PartCalls)) {
		t.Errorf("a part that there is not: %v", err)
	}
}

// The size of something that is not built as releases are is no size of one.
func TestTheSizeOfWhatIsNotAsReleased(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "aibridge")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	report, err := GoalsOptions{Bridge: []string{program, "serve"}}.measureSize()
	if err != nil || len(report.Results) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if r := report.Results[0]; r.Size != 0 || r.Err == "" {
		t.Errorf("%+v", r)
	}
}
