package drill

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAReportSumsRoundsAndNamesBrokenPromises(t *testing.T) {
	r := Report{
		Mode: Standby, Seed: 7, Bridges: 3, Servers: 3, Took: time.Minute,
		Rounds: []Tally{
			{Round: 1, Fault: Kill, Rounds: 1, Sent: 10, Lost: 1, Silence: 3 * time.Second},
			{Round: 2, Fault: Pause, Rounds: 1, Sent: 20},
			{Round: 3, Fault: Kill, Rounds: 1, Sent: 30, Lost: 2, Silence: 2 * time.Second},
		},
		Breaches: []Breach{{Acknowledged, 1, Kill, "a | b"}, {Acknowledged, 3, Kill, "c"}, {WillsOfClean, 2, Pause, "d"}},
		Allowed:  []Promise{WillsOfClean},
	}
	if got := r.Failures(); !slices.Equal(got, []Promise{Acknowledged}) {
		t.Errorf("failures are %v", got)
	}
	var b strings.Builder
	if err := r.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| kill | 2 | 40 | 0 | 0 | 3 |", "| 3.0 s | – | – |",
		"| acknowledged | **no**, 2 times | round 1, kill: acknowledged: a / b |",
		"| wills-of-clean-sessions | no, 1 times; allowed |", "| order | yes |  |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}
