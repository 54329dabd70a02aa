package drill

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// byFault sums the rounds of each fault up.
func (r Report) byFault() []Tally {
	var list []Tally
	for _, fault := range Faults() {
		sum := Tally{Fault: fault}
		for _, t := range r.Rounds {
			if t.Fault == fault {
				sum.add(t)
			}
		}
		if sum.Rounds > 0 {
			list = append(list, sum)
		}
	}
	return list
}

// WriteMarkdown writes the report as tables.
func (r Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	servers := fmt.Sprintf("%d NATS servers", r.Servers)
	if r.Formed {
		servers = "which form their cluster"
	}
	fmt.Fprintf(&b, "Mode %s, %d bridges, %s, seed %d, %d rounds in %v.", r.Mode, r.Bridges, servers, r.Seed, len(r.Rounds), r.Took)
	if r.Upgraded {
		b.WriteString(" Each rolling round puts another version in place: the newer, the earlier, and so on.")
	}
	b.WriteString("\n\n")
	r.writeMessages(&b)
	r.writeOthers(&b)
	r.writeWorks(&b)
	r.writePromises(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeMessages(b *strings.Builder) {
	fmt.Fprintln(b, "| fault | rounds | sent | acknowledged | refused | lost | doubled | repeated | out of order | QoS 0 sent | lost | silence: longest | typical | recovery |")
	fmt.Fprintln(b, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range r.byFault() {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %s | %s | %s |\n", t.Fault, t.Rounds,
			t.Sent, t.Acknowledged, t.Refused, t.Lost, t.Doubled, t.Repeated, t.Disordered, t.SentQoS0, t.LostQoS0,
			seconds(t.Silence), seconds(t.SilenceTypical), seconds(t.Recovery))
	}
	fmt.Fprintln(b)
}

func (r Report) writeOthers(b *strings.Builder) {
	fmt.Fprintln(b, "| fault | calls | succeeded | outcome unknown | run twice | sessions lost | moves | stored and lost | wills due | missing | unwanted | false readiness | bridges gave up |")
	fmt.Fprintln(b, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range r.byFault() {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", t.Fault,
			t.Calls, t.Succeeded, t.Unknown, t.Twice, t.SessionsLost, t.Moves, t.StoredLost, t.WillsDue, t.WillsMissing, t.WillsUnwanted, t.FalseReadiness, t.GaveUp)
	}
	fmt.Fprintln(b)
}

func (r Report) writeWorks(b *strings.Builder) {
	fmt.Fprintln(b, "| fault | works of models | ended | agreed to elsewhere | steps run | outcome unknown |")
	fmt.Fprintln(b, "|---|---|---|---|---|---|")
	for _, t := range r.byFault() {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d |\n", t.Fault, t.Works, t.WorksDone, t.Elsewhere, t.Steps, t.StepsUnknown)
	}
	fmt.Fprintln(b)
}

func (r Report) writePromises(b *strings.Builder) {
	fmt.Fprintln(b, "| promise | kept | by the first breach |")
	fmt.Fprintln(b, "|---|---|---|")
	for _, p := range Promises() {
		n, first := 0, ""
		for _, breach := range r.Breaches {
			if breach.Promise != p {
				continue
			}
			if n++; n == 1 {
				first = strings.ReplaceAll(breach.String(), "|", "/")
			}
		}
		kept := "yes"
		switch {
		case n > 0 && slices.Contains(r.Allowed, p):
			kept = fmt.Sprintf("no, %d times; allowed", n)
		case n > 0:
			kept = fmt.Sprintf("**no**, %d times", n)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", p, kept, first)
	}
}

// seconds formats a time in seconds, and 0 as a dash.
func seconds(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
