package approval

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/tools"
)

// TestQuestionsLiveAsLongAsTheirRiskSays has calls of several risks asked about, with
// lives that the configuration file gives and that askers want.
func TestQuestionsLiveAsLongAsTheirRiskSays(t *testing.T) {
	settings := Settings{WaitSeconds: 1, LifeHours: 100, LifeByRisk: map[string]int{"High": 24, "medium": 48}}
	for name, test := range map[string]struct {
		risks    []string // of the tool, and of its targets
		patience time.Duration
		rule     time.Duration
		want     time.Duration
	}{
		"a risk that has a life":            {risks: []string{"high"}, want: 24 * time.Hour},
		"in other letters":                  {risks: []string{"HIGH"}, want: 24 * time.Hour},
		"a risk without one":                {risks: []string{"ask"}, want: 100 * time.Hour},
		"the shortest of several":           {risks: []string{"medium", "high", "ask"}, want: 24 * time.Hour},
		"a member's":                        {risks: []string{"ask", "medium"}, want: 48 * time.Hour},
		"a rule before the risk":            {risks: []string{"high"}, rule: 72 * time.Hour, want: 72 * time.Hour},
		"an asker that wants it sooner":     {risks: []string{"high"}, patience: time.Hour, want: time.Hour},
		"an asker that would wait longer":   {risks: []string{"high"}, patience: 99 * time.Hour, want: 24 * time.Hour},
		"no longer than any decision lives": {risks: []string{"ask"}, rule: 100 * 24 * time.Hour, want: MaxLife},
	} {
		d := newDesk(t, func(o *Options) {
			applied, err := settings.Apply(*o)
			if err != nil {
				t.Fatal(err)
			}
			*o = applied
			o.Rules = []Rule{{Life: test.rule}}
		})
		x := heat(bot)
		x.Patience, x.Risks = test.patience, test.risks[1:]
		r, err := d.draft(t.Context(), &tools.Tool{Declaration: tools.Declaration{Name: "oven.heat", Risk: test.risks[0], RiskWords: test.risks[0]}}, x, "it is hot")
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(r.Expires-r.AskedAt) * time.Millisecond; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestApprovalsAreOfUseAsLongAsTheirRiskSays has approvals given for calls of several
// risks, with the uses that the configuration file gives.
func TestApprovalsAreOfUseAsLongAsTheirRiskSays(t *testing.T) {
	settings := Settings{WaitSeconds: 1, LifeHours: 100, UseHours: 24, UseByRisk: map[string]int{"High": 4, "medium": 12}}
	for name, test := range map[string]struct {
		risks []string // of the tool, and of its targets
		rule  time.Duration
		want  time.Duration
	}{
		"a risk that has a use":   {risks: []string{"HIGH"}, want: 4 * time.Hour},
		"a risk without one":      {risks: []string{"ask"}, want: 24 * time.Hour},
		"the shortest of several": {risks: []string{"ask", "medium", "high"}, want: 4 * time.Hour},
		"a rule before the risk":  {risks: []string{"high"}, rule: time.Hour, want: time.Hour},
	} {
		now := time.UnixMilli(1_800_000_000_000)
		d := newDesk(t, func(o *Options) {
			applied, err := settings.Apply(*o)
			if err != nil {
				t.Fatal(err)
			}
			*o = applied
			o.Rules, o.Now = []Rule{{Use: test.rule}}, func() time.Time { return now }
		})
		x := heat(bot)
		x.Risks = test.risks[1:]
		r, err := d.draft(t.Context(), &tools.Tool{Declaration: tools.Declaration{Name: "oven.heat", Risk: test.risks[0], RiskWords: test.risks[0]}}, x, "it is hot")
		if err != nil {
			t.Fatal(err)
		}
		r.State, r.DecidedAt = Approved, ms(now)
		now = now.Add(test.want - time.Millisecond)
		fresh := d.stale(r)
		now = now.Add(time.Millisecond)
		if fresh || !d.stale(r) {
			t.Errorf("%s: it is not of use for %s", name, test.want)
		}
	}
}
