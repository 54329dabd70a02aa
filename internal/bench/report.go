package bench

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Result is one run: one scenario on one broker in one round.
type Result struct {
	Peer     string `json:"peer"`
	Scenario string `json:"scenario"`
	Base     string `json:"base"` // scenario of the first broker, to which ratios refer
	Round    int    `json:"round"`

	Rate float64       `json:"rate"` // deliveries, replies or connections a second
	P50  time.Duration `json:"p50"`  // from sending to receiving, nanoseconds
	P99  time.Duration `json:"p99"`

	ProcessorPerMillion float64 `json:"processor_per_million"` // broker's seconds for a million of the units of Rate
	Transfers           float64 `json:"transfers"`             // broker's system calls that read or write, for one unit of Rate
	Cores               float64 `json:"cores"`                 // that the broker kept busy
	LoadCores           float64 `json:"load_cores"`            // that the load generator kept busy
	OtherCores          float64 `json:"other_cores"`           // that everything else on the machine kept busy
	Memory              int64   `json:"memory"`                // broker's resident bytes at the end
	PerClient           int64   `json:"per_client,omitempty"`  // resident bytes for each idle client

	Start   time.Duration `json:"start"`             // from the start of the broker's process until it answered
	Heap    int64         `json:"heap,omitempty"`    // bytes that the bridge's last collection found in use
	Beside  int64         `json:"beside,omitempty"`  // of these for each message kept, beside its topic and payload
	Size    int64         `json:"size,omitempty"`    // of the program, bytes
	Resumed float64       `json:"resumed,omitempty"` // percentage of the TLS connections that were resumed

	Sent       int64 `json:"sent"`
	Received   int64 `json:"received"` // distinct
	Lost       int64 `json:"lost"`
	Duplicates int64 `json:"duplicates"`
	Disordered int64 `json:"disordered"`
	Refused    int64 `json:"refused"`
	Garbled    int64 `json:"garbled"`

	Err string `json:"error,omitempty"` // reason of missing or incomplete results
}

// Clean reports whether everything arrived once, whole and in order.
func (r Result) Clean() bool {
	return r.Err == "" && r.Lost == 0 && r.Duplicates == 0 && r.Disordered == 0 && r.Refused == 0 && r.Garbled == 0
}

// A moment holds the figures of a run at one time.
type moment struct {
	at       time.Time
	received int64
	broker   time.Duration // processor time of the broker
	own      time.Duration // and of this process
	machine  time.Duration // and of all
	memory   int64

	transfers int64 // system calls of the broker that read or write
}

// fill works out the figures between two moments.
func (r *Result) fill(from, to moment) {
	seconds := to.at.Sub(from.at).Seconds()
	count := float64(to.received - from.received)
	if seconds <= 0 {
		return
	}
	r.Rate = count / seconds
	r.Cores = (to.broker - from.broker).Seconds() / seconds
	r.LoadCores = (to.own - from.own).Seconds() / seconds
	r.OtherCores = max((to.machine-from.machine).Seconds()/seconds-r.Cores-r.LoadCores, 0)
	r.Memory = to.memory
	if count > 0 {
		r.ProcessorPerMillion = (to.broker - from.broker).Seconds() / count * 1e6
		r.Transfers = float64(to.transfers-from.transfers) / count
	}
}

// A Report is all results of a comparison.
type Report struct {
	Machine string   `json:"machine"`
	Results []Result `json:"results"`
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// A Row is one broker in one scenario: the median of its rounds, with the faults of all
// of them, and its ratio to the first broker.
type Row struct {
	Result
	Ratio     float64 `json:"ratio"`           // of rates, 0 if there is none to compare with
	Processor float64 `json:"processor_ratio"` // of ProcessorPerMillion
	Slowest   float64 `json:"slowest"`         // rate of the slowest round
	Fastest   float64 `json:"fastest"`
	Rounds    int     `json:"rounds"` // that gave figures
}

// Rows returns the medians in the order of the measurements.
func (r Report) Rows() []Row {
	type key struct{ scenario, peer string }
	groups := make(map[key][]Result)
	var order []key
	first := make(map[string]key) // of each scenario
	for _, res := range r.Results {
		k := key{res.Scenario, res.Peer}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], res)
		if _, ok := first[k.scenario]; !ok {
			first[k.scenario] = k
		}
	}
	place := func(scenario string) int { return slices.Index(order, first[scenario]) }
	sorted := slices.SortedStableFunc(slices.Values(order), func(a, b key) int {
		return cmp.Compare(place(a.scenario), place(b.scenario))
	})
	rows := make([]Row, len(sorted))
	for i, k := range sorted {
		rows[i] = summarize(groups[k])
		base, ok := first[rows[i].Base]
		if !ok {
			base = first[k.scenario]
		}
		against := summarize(groups[base])
		rows[i].Ratio = ratio(rows[i].Rate, against.Rate)
		rows[i].Processor = ratio(rows[i].ProcessorPerMillion, against.ProcessorPerMillion)
	}
	return rows
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// summarize takes the median of each figure over the runs that gave any, and
// the sum of all that went wrong.
func summarize(runs []Result) Row {
	row := Row{Result: Result{Peer: runs[0].Peer, Scenario: runs[0].Scenario, Base: runs[0].Base}}
	var good []Result
	for _, r := range runs {
		row.Sent += r.Sent
		row.Received += r.Received
		row.Lost += r.Lost
		row.Duplicates += r.Duplicates
		row.Disordered += r.Disordered
		row.Refused += r.Refused
		row.Garbled += r.Garbled
		if r.Err != "" {
			row.Err = r.Err
		} else {
			good = append(good, r)
		}
	}
	if row.Rounds = len(good); row.Rounds == 0 {
		return row
	}
	row.Rate = median(good, func(r Result) float64 { return r.Rate })
	row.P50 = time.Duration(median(good, func(r Result) float64 { return float64(r.P50) }))
	row.P99 = time.Duration(median(good, func(r Result) float64 { return float64(r.P99) }))
	row.ProcessorPerMillion = median(good, func(r Result) float64 { return r.ProcessorPerMillion })
	row.Cores = median(good, func(r Result) float64 { return r.Cores })
	row.LoadCores = median(good, func(r Result) float64 { return r.LoadCores })
	row.OtherCores = median(good, func(r Result) float64 { return r.OtherCores })
	row.Memory = int64(median(good, func(r Result) float64 { return float64(r.Memory) }))
	row.Start = time.Duration(median(good, func(r Result) float64 { return float64(r.Start) }))
	row.PerClient = int64(median(good, func(r Result) float64 { return float64(r.PerClient) }))
	row.Beside = int64(median(good, func(r Result) float64 { return float64(r.Beside) }))
	row.Size = good[0].Size
	row.Resumed = median(good, func(r Result) float64 { return r.Resumed })
	byRate := func(a, b Result) int { return cmp.Compare(a.Rate, b.Rate) }
	row.Slowest, row.Fastest = slices.MinFunc(good, byRate).Rate, slices.MaxFunc(good, byRate).Rate
	return row
}

func median(runs []Result, figure func(Result) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = figure(r)
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2
	}
	return values[middle]
}

// WriteTable writes the medians as text, one table for each scenario.
func (r Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	scenario := ""
	for _, row := range r.Rows() {
		if row.Scenario != scenario {
			scenario = row.Scenario
			title := strings.ToUpper(scenario)
			if row.Base != scenario {
				title += " (ratios to " + row.Base + ")"
			}
			fmt.Fprintf(&text, "\n%s\n\trate\tratio\tslowest–fastest\tp50\tp99\tCPU s/M\tratio\tcores\tload\tothers\tMB\n", title)
		}
		fmt.Fprintf(&text, "%s\t%s\t%.2f\t%s–%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%s\n",
			row.Peer, count(row.Rate), row.Ratio, count(row.Slowest), count(row.Fastest), short(row.P50), short(row.P99),
			row.ProcessorPerMillion, row.Processor, row.Cores, row.LoadCores, row.OtherCores, megabytes(row.Memory), row.remarks())
	}
	if _, err := io.WriteString(w, r.Machine+tableNotes); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	return table.Flush()
}

const tableNotes = `
Medians of the rounds. Rates are a second; ratios are to the first line unless said
otherwise; CPU s/M is the broker's processor seconds for a million; cores are what the
broker, the load generator and everything else on the machine kept busy.
`

// remarks returns notes about a row.
func (r Row) remarks() string {
	if r.PerClient == 0 {
		return r.faults()
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f KiB a client, %s", float64(r.PerClient)/1024, r.faults()), ", ")
}

// faults describes the failures, "" for none.
func (r Result) faults() string {
	var said []string
	for _, wrong := range []struct {
		n    int64
		what string
	}{{r.Lost, "lost"}, {r.Duplicates, "doubled"}, {r.Disordered, "out of order"}, {r.Refused, "refused"}, {r.Garbled, "garbled"}} {
		if wrong.n != 0 {
			said = append(said, fmt.Sprintf("%d %s", wrong.n, wrong.what))
		}
	}
	if r.Err != "" {
		said = append(said, r.Err)
	}
	return strings.Join(said, ", ")
}

func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n >= 1e3:
		return fmt.Sprintf("%.1fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}

func short(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.2fms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

func megabytes(n int64) string { return fmt.Sprintf("%.0f", float64(n)/(1<<20)) }
