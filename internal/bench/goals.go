package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Figure is the name of one figure of a [Row].
type Figure string

// The figures that goals are about.
const (
	Rate      Figure = "a second"
	Processor Figure = "µs of processor time"
	Middle    Figure = "µs at the median"
	Tail      Figure = "µs at the 99th percentile"
	Memory    Figure = "MB"
	Starting  Figure = "seconds until it answers"
	PerClient Figure = "KiB a client"
)

// of is the figure of a row.
func (f Figure) of(r Row) float64 {
	switch f {
	case Rate:
		return r.Rate
	case Processor:
		return r.ProcessorPerMillion
	case Middle:
		return float64(r.P50) / float64(time.Microsecond)
	case Memory:
		return float64(r.Memory) / 1e6
	case Starting:
		return r.Start.Seconds()
	case Tail:
		return float64(r.P99) / float64(time.Microsecond)
	case PerClient:
		return float64(r.PerClient) / 1024
	}
	return 0
}

// A Place is a broker under a load.
type Place struct{ Scenario, Peer string }

// A Goal is a target for a figure: for its value, for its multiple of the same figure
// elsewhere, or for its difference from that.
type Goal struct {
	Of      Place
	Figure  Figure
	Beside  Place // none: the figure counts by itself
	Added   bool  // to the figure of Beside, instead of the multiple of that
	Limit   float64
	AtLeast bool // or else at most
}

// Names of peers in the reports of [MQTT] and [Invoke].
const (
	mosquittoName = "mosquitto"
	bareName      = mosquittoName + bareSuffix
	bridgeName    = "aibridge"
)

// Goals are the speeds that the project is held to under load, in the order of the
// table.
func Goals() (all []Goal) {
	call := func(callers string, window int) Place {
		return Place{fmt.Sprintf(invokeName+", %s, window %d", callers, window), bridgeName}
	}
	web := func(over Over) Place { return Place{fmt.Sprintf(invokeName+", 50 callers, %s", over), bridgeName} }
	engine := func(scenario string) Place { return Place{scenario, KindBroker} }
	beside := func(of Place, peer string, f Figure) Goal {
		return Goal{Of: of, Figure: f, Beside: Place{of.Scenario, peer}}
	}
	least := func(limit float64, g Goal) { g.Limit, g.AtLeast = limit, true; all = append(all, g) }
	most := func(limit float64, g Goal) { g.Limit = limit; all = append(all, g) }

	least(9, beside(call("50 callers", 16), bareName, Rate))
	most(3.6, Goal{Of: call("50 callers", 16), Figure: Processor})
	least(2.5, beside(call("50 callers", 1), bareName, Rate))
	least(1.5, beside(call("one caller", 1), bareName, Rate))
	least(40_000, Goal{Of: web(OverHTTP), Figure: Rate})
	least(40_000, Goal{Of: web(OverHTTP2), Figure: Rate})
	most(1.3, Goal{Of: web(OverMCP), Figure: Processor, Beside: web(OverHTTP)})
	asked, paced := queries(50, 0)[0].Name, queries(50, 0)[1].Name
	least(pacedQueries, Goal{Of: Place{asked, bridgeName}, Figure: Rate})
	most(100, Goal{Of: Place{paced, bridgeName}, Figure: Middle, Beside: Place{paced, KindModel}, Added: true})
	most(120, Goal{Of: Place{paced, bridgeName}, Figure: Memory})
	most(1, Goal{Of: Place{paced, bridgeName}, Figure: Starting})
	least(1.2, beside(engine("idle"), mosquittoName, Rate))
	most(1, beside(engine("request-reply-paced"), mosquittoName, Processor))
	most(1, beside(engine("request-reply-paced"), mosquittoName, Tail))
	most(0.6, beside(engine("request-reply-tls"), mosquittoName, Processor))
	most(1, beside(engine("idle-tls"), mosquittoName, Processor))
	most(12, Goal{Of: engine("idle-tls"), Figure: PerClient})
	return all
}

// A Score is the measured result for a goal.
type Score struct {
	Goal
	Value    float64 // of the figure, or its multiple of that elsewhere; 0 if it is not measured
	Measured bool
	Problem  string // reason why it is not measured, or other faults of the run
}

// Reached reports whether the figure meets the limit.
func (s Score) Reached() bool {
	if s.AtLeast {
		return s.Measured && s.Value >= s.Limit
	}
	return s.Measured && s.Value <= s.Limit
}

// Judge holds the results of runs against goals.
func (r Report) Judge(goals []Goal) []Score {
	rows := make(map[Place]Row)
	for _, row := range r.Rows() {
		rows[Place{row.Scenario, row.Peer}] = row
	}
	scores := make([]Score, len(goals))
	for i, g := range goals {
		scores[i] = judge(g, rows)
	}
	return scores
}

func judge(g Goal, rows map[Place]Row) Score {
	s := Score{Goal: g}
	places := []Place{g.Of}
	if g.Beside != (Place{}) {
		places = append(places, g.Beside)
	}
	var values []float64
	for _, place := range places {
		row, ok := rows[place]
		switch value := g.Figure.of(row); {
		case !ok:
			s.Problem = place.Peer + " was not there"
			return s
		case row.Rounds == 0 || value <= 0:
			s.Problem = place.Peer + ": " + cmp.Or(row.faults(), "no figure")
			return s
		default:
			values = append(values, value)
			if !row.Clean() {
				s.Problem = place.Peer + ": " + row.faults()
			}
		}
	}
	s.Value, s.Measured = values[0], true
	switch {
	case g.Added:
		s.Value -= values[1]
	case len(values) > 1:
		s.Value /= values[1]
	}
	return s
}

// WriteScores writes a table of goals with their measured results.
func WriteScores(w io.Writer, all []Score) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nMedians of the rounds. Where something follows a figure, it is the multiple of that one's, or what is added to it.\n\n", machine())
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "load\tfigure\tmeasured\tgoal\t\n")
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", s.Of.Scenario, s.figure(), s.value(), s.goal(), s.verdict())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// figure is the name of the figure, with that of the figure that it is compared with.
func (g Goal) figure() string {
	switch {
	case g.Beside == (Place{}):
		return string(g.Figure)
	case g.Added:
		return fmt.Sprintf("%s, added to %s", g.Figure, g.Beside.Peer)
	case g.Beside.Peer == g.Of.Peer:
		return fmt.Sprintf("%s, to %s", g.Figure, g.Beside.Scenario)
	}
	return fmt.Sprintf("%s, to %s", g.Figure, g.Beside.Peer)
}

func (s Score) value() string {
	if !s.Measured {
		return "–"
	}
	return s.number(s.Value)
}

func (g Goal) goal() string {
	if g.AtLeast {
		return "≥ " + g.number(g.Limit)
	}
	return "≤ " + g.number(g.Limit)
}

// number is a value of the goal's figure as text.
func (g Goal) number(value float64) string {
	if g.Beside == (Place{}) && g.Figure == Rate {
		return count(value)
	}
	return fmt.Sprintf("%.3g", value)
}

func (s Score) verdict() string {
	verdict := "missed"
	switch {
	case !s.Measured:
		verdict = "not measured"
	case s.Reached():
		verdict = "reached"
	}
	if s.Problem != "" {
		verdict += "; " + s.Problem
	}
	return verdict
}

// GoalsOptions configure [MeasureGoals].
type GoalsOptions struct {
	Bridge []string // command, as [InvokeOptions].Bridge
	Peers  []Peer   // mosquitto, where it is installed, and the engine of the bridge
	Model  Peer     // of [KindModel]

	Rounds   int           // default 3
	Duration time.Duration // of each run, default 3 s
	Messages int64         // see [Options]
	Quiet    float64       // see [Options]
	Progress func(line string)
}

// runs are the measurements of [Goals], and nothing else: calls over MQTT, calls over
// HTTP, questions to a model, and brokers.
func (o GoalsOptions) runs() (invoke, web, llm InvokeOptions, brokers Options, err error) {
	bare := slices.DeleteFunc(slices.Clone(o.Peers), func(p Peer) bool { return p.Name != mosquittoName })
	invoke = InvokeOptions{Bridge: o.Bridge, Bare: bare, Rounds: o.Rounds, Duration: o.Duration, Messages: o.Messages, Quiet: o.Quiet, Progress: o.Progress}
	web = invoke
	web.Web, web.Bare, web.Callers = true, nil, []int{50}
	llm = web
	llm.Web, llm.Model = false, &o.Model
	brokers = Options{Peers: o.Peers, Rounds: o.Rounds, Duration: o.Duration, Messages: o.Messages, Quiet: o.Quiet, Progress: o.Progress}
	brokers.Scenarios, err = Pick("idle", "request-reply-paced", "request-reply-tls", "idle-tls")
	return invoke, web, llm, brokers, err
}

// MeasureGoals measures the figures of [Goals]. With an error it returns the results so
// far.
func MeasureGoals(ctx context.Context, o GoalsOptions) (all Report, err error) {
	invoke, web, llm, brokers, err := o.runs()
	if err != nil {
		return all, err
	}
	for _, run := range []func() (Report, error){
		func() (Report, error) { return Invoke(ctx, invoke) },
		func() (Report, error) { return Invoke(ctx, web) },
		func() (Report, error) { return Invoke(ctx, llm) },
		func() (Report, error) { return MQTT(ctx, brokers) },
	} {
		report, err := run()
		all.Machine = report.Machine
		all.Results = append(all.Results, report.Results...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
