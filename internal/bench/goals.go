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
	Rate       Figure = "a second"
	Processor  Figure = "µs of processor time"
	Middle     Figure = "µs at the median"
	Tail       Figure = "µs at the 99th percentile"
	Memory     Figure = "MB resident"
	Starting   Figure = "seconds until it answers"
	PerClient  Figure = "KiB a client"
	Beside     Figure = "bytes of heap for each, beside topic and payload"
	Resumption Figure = "% resumed by a ticket"
	Size       Figure = "MB on the disk"
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
	case Beside:
		return float64(r.Beside)
	case Resumption:
		return r.Resumed
	case Size:
		return float64(r.Size) / 1e6
	}
	return 0
}

// A Place is a broker under a load.
type Place struct{ Scenario, Peer string }

// A Relation is how the figure of a [Goal] stands to the same figure elsewhere.
type Relation int

// The relations. Doubled is twice the other one's by this one's: what two do of the work
// of one, if each takes this long for a piece of which one alone takes that long.
const (
	Multiple Relation = iota
	Added
	Doubled
)

// A Goal is a target for a figure: for its value, or for its relation to the same figure
// elsewhere.
type Goal struct {
	Part    Part
	Of      Place
	Figure  Figure
	Beside  Place // none: the figure counts by itself
	How     Relation
	Limit   float64
	AtLeast bool // or else at most
}

// A Part is figures that are measured together.
type Part string

// The parts, in the order of their importance.
const (
	PartCalls    Part = "calls"    // of skills, over MQTT
	PartReaders  Part = "readers"  // the same with two that read connections
	PartHTTP     Part = "http"     // calls by the other doors
	PartModel    Part = "model"    // questions to a language model
	PartMessages Part = "messages" // and connections, through the broker alone
	PartTLS      Part = "tls"
	PartStart    Part = "start" // with much to load
	PartSize     Part = "size"
)

// Parts are all of them.
func Parts() []Part {
	return []Part{PartCalls, PartReaders, PartHTTP, PartModel, PartMessages, PartTLS, PartStart, PartSize}
}

// Names of peers in the reports of [MQTT] and [Invoke].
const (
	mosquittoName = "mosquitto"
	bareName      = mosquittoName + bareSuffix
	bridgeName    = "aibridge"
)

// The numbers of processors with which a bridge has one reader and two.
const (
	oneReader  = 2
	twoReaders = 4
)

// Goals are the speeds, sizes and times that the project is held to, in the order of the
// table, of the parts that are named, or of all of them.
func Goals(parts ...Part) []Goal {
	var all []Goal
	part := PartCalls
	add := func(g Goal, limit float64, atLeast bool) {
		g.Part, g.Limit, g.AtLeast = part, limit, atLeast
		all = append(all, g)
	}
	least := func(limit float64, g Goal) { add(g, limit, true) }
	most := func(limit float64, g Goal) { add(g, limit, false) }
	call := func(callers string, window int) Place {
		return Place{fmt.Sprintf(invokeName+", %s, window %d", callers, window), bridgeName}
	}
	web := func(over Over) Place { return Place{fmt.Sprintf(invokeName+", 50 callers, %s", over), bridgeName} }
	engine := func(scenario string) Place { return Place{scenario, KindBroker} }
	alone := func(scenario string) Place { return Place{scenario, bridgeName} }
	beside := func(of Place, peer string, f Figure) Goal {
		return Goal{Of: of, Figure: f, Beside: Place{of.Scenario, peer}}
	}

	least(9, beside(call("50 callers", 16), bareName, Rate))
	most(3.6, Goal{Of: call("50 callers", 16), Figure: Processor})
	least(2.5, beside(call("50 callers", 1), bareName, Rate))
	least(1.5, beside(call("one caller", 1), bareName, Rate))

	part = PartReaders
	readers := call("50 callers and 10 agents", 16)
	readers.Peer = limitedName(twoReaders)
	two := beside(readers, limitedName(oneReader), Processor)
	two.How = Doubled
	least(1.7, two)

	part = PartHTTP
	least(40_000, Goal{Of: web(OverHTTP), Figure: Rate})
	least(40_000, Goal{Of: web(OverHTTP2), Figure: Rate})
	most(1.3, Goal{Of: web(OverMCP), Figure: Processor, Beside: web(OverHTTP)})

	part = PartModel
	asked, paced := queries(50, 0)[0].Name, queries(50, 0)[1].Name
	least(pacedQueries, Goal{Of: alone(asked), Figure: Rate})
	most(100, Goal{Of: alone(paced), Figure: Middle, Beside: Place{paced, KindModel}, How: Added})
	most(120, Goal{Of: alone(paced), Figure: Memory})
	most(1, Goal{Of: alone(paced), Figure: Starting})

	part = PartMessages
	most(1, beside(engine("request-reply-paced"), mosquittoName, Processor))
	most(1, beside(engine("request-reply-paced"), mosquittoName, Tail))
	least(1.2, beside(engine("idle"), mosquittoName, Rate))

	part = PartTLS
	most(0.6, beside(engine("request-reply-tls"), mosquittoName, Processor))
	most(1, beside(engine("idle-tls"), mosquittoName, Processor))
	least(100, Goal{Of: alone(resumeName), Figure: Resumption})
	most(12, Goal{Of: engine("idle-tls"), Figure: PerClient})

	part = PartStart
	most(1, Goal{Of: alone(skillStock.name), Figure: Starting})
	most(200, Goal{Of: alone(skillStock.name), Figure: Memory})
	most(1, Goal{Of: alone(sessionStock.name), Figure: Starting})
	most(3, Goal{Of: alone(retainedStock.name), Figure: Starting})
	most(300, Goal{Of: alone(retainedStock.name), Figure: Beside})

	part = PartSize
	most(40, Goal{Of: alone(sizeName), Figure: Size})
	if len(parts) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(g Goal) bool { return !slices.Contains(parts, g.Part) })
}

// inWords are the loads whose names say too little by themselves.
var inWords = map[string]string{
	"request-reply-paced": "request and reply through the broker, 2 000 a second",
	"idle":                "connections, with one subscription each",
	"request-reply-tls":   "request and reply through the broker over TLS",
	"idle-tls":            "full TLS handshakes of clients that stay",
}

// text is what is measured, for people.
func (g Goal) text() string { return cmp.Or(inWords[g.Of.Scenario], g.Of.Scenario) }

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
	case len(values) == 1:
	case g.How == Added:
		s.Value -= values[1]
	case g.How == Doubled:
		s.Value = 2 * values[1] / values[0]
	default:
		s.Value /= values[1]
	}
	return s
}

// WriteScores writes a table of goals with their measured results.
func WriteScores(w io.Writer, all []Score) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s%s", machine(), scoreNotes)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "part\twhat\tfigure\tmeasured\tgoal\t\n")
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Part, s.text(), s.figure(), s.value(), s.goal(), s.verdict())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}

const scoreNotes = `
The most important figures first, each the median of the rounds. "To mosquitto" is the
multiple of what it takes or does under the same load, "added to" the difference. Window
is the number of calls that each caller has open. Processor time is the bridge's.

`

// figure is the name of the figure, with that of the figure that it is compared with.
func (g Goal) figure() string {
	switch {
	case g.Beside == (Place{}):
		return string(g.Figure)
	case g.How == Added:
		return fmt.Sprintf("%s, added to %s", g.Figure, g.Beside.Peer)
	case g.How == Doubled:
		return "two readers to one: calls that processor time allows at most"
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

	Only     []Part        // default all of them
	Rounds   int           // default 3
	Duration time.Duration // of each run, default 3 s
	Messages int64         // see [Options]
	Quiet    float64       // see [Options]
	Progress func(line string)
}

func (o *GoalsOptions) setDefaults() error {
	for _, p := range o.Only {
		if !slices.Contains(Parts(), p) {
			return fmt.Errorf("there is no part %q; there are %v", p, Parts())
		}
	}
	o.Rounds = cmp.Or(o.Rounds, 3)
	return nil
}

func (o GoalsOptions) progress(line string) {
	if o.Progress != nil {
		o.Progress(line)
	}
}

// A measurement is one of those that [Goals] need.
type measurement struct {
	part   Part
	places []Place // that it gives figures of
	do     func(context.Context) (Report, error)
}

// measurements are what [Goals] need, and nothing else.
func (o GoalsOptions) measurements() (all []measurement, err error) {
	load := func(part Part, run Options) {
		m := measurement{part: part, do: func(ctx context.Context) (Report, error) { return MQTT(ctx, run) }}
		for _, s := range run.Scenarios {
			for _, p := range run.Peers {
				m.places = append(m.places, Place{s.Name, p.Name})
			}
		}
		all = append(all, m)
	}
	calls := InvokeOptions{Bridge: o.Bridge, Rounds: o.Rounds, Duration: o.Duration, Messages: o.Messages, Quiet: o.Quiet, Progress: o.Progress}
	bare, readers, web, model := calls, calls, calls, calls
	bare.Bare = slices.DeleteFunc(slices.Clone(o.Peers), func(p Peer) bool { return p.Name != mosquittoName })
	readers.Agents, readers.Callers, readers.Windows = 10, []int{50}, []int{16}
	web.Web, web.Callers = true, []int{50}
	model.Model, model.Callers = &o.Model, []int{50}
	for _, v := range []struct {
		part Part
		*InvokeOptions
	}{{PartCalls, &bare}, {PartReaders, &readers}, {PartHTTP, &web}, {PartModel, &model}} {
		if err := v.setDefaults(); err != nil {
			return nil, err
		}
		run := v.options()
		if v.part == PartReaders {
			run.Peers = []Peer{v.limited(oneReader), v.limited(twoReaders)}
		}
		load(v.part, run)
	}
	brokers := Options{Peers: o.Peers, Rounds: o.Rounds, Duration: o.Duration, Messages: o.Messages, Quiet: o.Quiet, Progress: o.Progress}
	for _, v := range []struct {
		part  Part
		names []string
	}{{PartMessages, []string{"request-reply-paced", "idle"}}, {PartTLS, []string{"request-reply-tls", "idle-tls"}}} {
		if brokers.Scenarios, err = Pick(v.names...); err != nil {
			return nil, err
		}
		load(v.part, brokers)
	}
	starts := measurement{part: PartStart, do: o.measureStarts}
	for _, s := range stocks {
		starts.places = append(starts.places, Place{s.name, bridgeName})
	}
	return append(all, starts,
		measurement{PartTLS, []Place{{resumeName, bridgeName}}, o.measureResumption},
		measurement{PartSize, []Place{{sizeName, bridgeName}}, func(context.Context) (Report, error) { return o.measureSize() }},
	), nil
}

// MeasureGoals measures the figures of [Goals]. With an error it returns the results so
// far.
func MeasureGoals(ctx context.Context, o GoalsOptions) (all Report, err error) {
	if err := o.setDefaults(); err != nil {
		return all, err
	}
	measurements, err := o.measurements()
	if err != nil {
		return all, err
	}
	for _, m := range measurements {
		if len(o.Only) > 0 && !slices.Contains(o.Only, m.part) {
			continue
		}
		report, err := m.do(ctx)
		all.Machine = report.Machine
		all.Results = append(all.Results, report.Results...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
