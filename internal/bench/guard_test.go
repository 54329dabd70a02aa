package bench

import (
	"strings"
	"testing"
)

func pairs(ratios ...float64) Comparison {
	c := Comparison{Scenario: "x"}
	for _, r := range ratios {
		c.add(Result{ProcessorPerMillion: 10}, Result{ProcessorPerMillion: 10 * r})
	}
	return c
}

func TestComparisonsAreJudged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pairs Comparison
		want  Judgement
	}{
		{pairs(1, 1, 1, 1), Same},
		{pairs(0.5, 0.6, 0.7, 1.05), Same},
		{pairs(1.2, 1.2, 1.3, 1.15), Slower},
		{pairs(1.2, 1.2, 1.3, 1.2, 0.9, 1.2, 1.2), Slower}, // one disturbed pair does not hide it
		{pairs(1, 1, 1, 1, 1, 1, 2.5), Same},               // nor makes it
		{pairs(0.8, 1.3, 0.9, 1.4), Unclear},
		{pairs(), Unclear},
	} {
		if got := c.pairs.Judge(1.10); got != c.want {
			t.Errorf("%v: %s, want %s", c.pairs.After, got, c.want)
		}
	}
	busier := pairs(1, 1, 1, 1)
	busier.TransfersBefore, busier.TransfersAfter = []float64{4, 4, 4, 4}, []float64{5, 5, 5, 4.1}
	if got := busier.Judge(1.10); got != Busier {
		t.Errorf("a fourth more system calls: %s", got)
	}
	broken := pairs(1, 1, 1, 1)
	broken.add(Result{ProcessorPerMillion: 1}, Result{Peer: "after", ProcessorPerMillion: 1, Lost: 3})
	if broken.Judge(1.10) != Failed || !strings.Contains(broken.Broken, "3 lost") {
		t.Errorf("%+v", broken)
	}
	var table strings.Builder
	if err := WriteComparisons(&table, []Comparison{pairs(1.2, 1.2, 1.3, 1.15), broken}, 1.10); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1.200", "slower", "failed after: 3 lost"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
}

func TestGuardOptions(t *testing.T) {
	t.Parallel()
	two := []string{"x"}
	for name, o := range map[string]GuardOptions{
		"one bridge":    {After: two},
		"few pairs":     {Before: two, After: two, Pairs: 1},
		"a limit below": {Before: two, After: two, Limit: 0.9},
	} {
		if _, err := Guard(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	o := GuardOptions{Before: two, After: two, Bare: true, Web: true}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	measures, err := o.measures()
	if err != nil || len(measures) != 7 || !measures[0].isInvoke() || measures[4].isInvoke() || measures[5].Over != OverHTTP || measures[6].Over != OverMCP {
		t.Errorf("%+v %v", measures, err)
	}
}
