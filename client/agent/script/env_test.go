package script

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func names(vars []variable) string {
	b := make([]string, 0, len(vars))
	for _, v := range vars {
		b = append(b, v.name+"="+v.value)
	}
	return strings.Join(b, " ")
}

func TestVariablesNeverCollide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		params   string
		declared []string
		want     string
	}{
		"undeclared":                {`{"b":1,"a":"x"}`, nil, "A=x B=1"},
		"two of a name get neither": {`{"a-b":1,"a_b":2,"c":3}`, nil, "C=3"},
		"the declared one wins":     {`{"a-b":1,"a_b":2}`, []string{"a_b"}, "A_B=2"},
		"its place is kept for it":  {`{"a-b":1}`, []string{"a_b"}, ""},
		"the first declared wins":   {`{"a-b":1,"a_b":2}`, []string{"a-b", "a_b"}, "A_B=1"},
		"an object is no scalar":    {`{"a":{"b":1},"c":[],"d":null,"e":false}`, nil, "E=false"},
		"other letters":             {`{"größe":1,"温度":2,"":3,"a.b c":4}`, nil, "A_B_C=4 GR__E=1"},
		"no NUL":                    {`{"a":"x\u0000y"}`, nil, ""},
		"no long names":             {`{"` + strings.Repeat("a", 65) + `":1}`, nil, ""},
		"no long values":            {`{"a":"` + strings.Repeat("a", maxVariable) + `","b":1}`, nil, "B=1"},
		"not an object":             {`[1]`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := names(variables(json.RawMessage(c.params), c.declared)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestVariablesAreBounded(t *testing.T) {
	t.Parallel()
	many := map[string]int{}
	big := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("n%d", i)] = i
		big[fmt.Sprintf("n%d", i)] = strings.Repeat("x", maxVariable-2)
	}
	text, _ := json.Marshal(many)
	if n := len(variables(text, nil)); n != maxVariables {
		t.Errorf("%d variables", n)
	}
	text, _ = json.Marshal(big)
	size := 0
	for _, v := range variables(text, nil) {
		size += len(v.name) + len(v.value)
	}
	if size > maxVarsSize {
		t.Errorf("%d bytes", size)
	}
}

func TestPathAndLanguageHaveFallbacks(t *testing.T) {
	t.Parallel()
	nothing := func(string) (string, bool) { return "", false }
	if got, want := baseEnv(nothing, []string{"X"}), []string{"PATH=" + fallbackPath, "LANG=C.UTF-8"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestDiagnosticsSplitProgressFromTheRest(t *testing.T) {
	t.Parallel()
	var seen []string
	clock := time.Unix(0, 0)
	d := &diagnostics{
		progress: func(percent float64, message string) { seen = append(seen, fmt.Sprint(percent, " ", message)) },
		now:      func() time.Time { clock = clock.Add(minInterval); return clock },
	}
	text := "start\n::progress 5\n::progress 12.5% half \x1b[1mway\n ::progress 1\n::progress 101 no\n::progress -1\n::progress NaN\n::progressing\n::progress 100 " +
		strings.Repeat("x", 2*maxLine) + "\nend"
	for _, b := range []byte(text) { // in the smallest of pieces
		if n, err := d.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	tail := d.close()
	if want := []string{"5 ", "12.5 half [1mway"}; !slices.Equal(seen, want) {
		t.Errorf("progress %q", seen)
	}
	if !strings.HasSuffix(tail, "xxx\nend") || len(tail) > maxTail {
		t.Errorf("tail %q", tail)
	}
}

func TestProgressIsThinnedOut(t *testing.T) {
	t.Parallel()
	count := 0
	clock := time.Unix(0, 0)
	d := &diagnostics{
		progress: func(float64, string) { count++ },
		now:      func() time.Time { clock = clock.Add(minInterval / 4); return clock },
	}
	for i := range 100 {
		fmt.Fprintf(d, "::progress %d\n", i)
	}
	if count != 25 {
		t.Errorf("%d were passed on", count)
	}
	if tail := d.close(); tail != "" {
		t.Errorf("tail %q", tail)
	}
}

func TestTheTailIsOfBoundedSize(t *testing.T) {
	t.Parallel()
	d := &diagnostics{now: time.Now}
	for range 1000 {
		d.Write([]byte(strings.Repeat("ä", 600)))
		if len(d.tail) > 8*maxTail || len(d.line) > 4*maxLine {
			t.Fatalf("tail %d, line %d", len(d.tail), len(d.line))
		}
	}
	if tail := d.close(); len(tail) > maxTail || len(tail) < maxTail-10 {
		t.Errorf("%d bytes", len(tail))
	}
}
