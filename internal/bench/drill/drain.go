package drill

import (
	"fmt"
	"slices"
	"time"
)

// A DrainReport is the outcome of a drain for the clients of the bridge.
type DrainReport struct {
	Clients int           `json:"clients"` // connected to the bridge, with a subscription each
	Keep    int           `json:"keep"`    // clients of these with kept sessions; other sessions end with the connection
	Window  time.Duration `json:"window"`  // configured time of the drain
	Took    time.Duration `json:"took"`    // from the command to the end of the bridge
	Back    time.Duration `json:"back"`    // until all clients were connected to another one
	Told    int           `json:"told"`    // 0x9D, and where to
	Kept    int           `json:"kept"`    // kept sessions that were found again

	// The times without a connection: of half of the clients, all but a hundredth, and all.
	AwayHalf    time.Duration `json:"away_half"`
	AwayMost    time.Duration `json:"away_most"`
	AwayLongest time.Duration `json:"away_longest"`
	Busiest     int           `json:"busiest"` // most clients that came back in one second

	Acknowledged int `json:"acknowledged"` // messages of QoS 1 to kept sessions, published at another bridge meanwhile
	Lost         int `json:"lost"`
	Repeated     int `json:"repeated"`
}

// returned computes the times of lost and of new connections.
func (r *DrainReport) returned(left, back []time.Time) {
	var away []time.Duration
	for i := range left {
		away = append(away, back[i].Sub(left[i]))
	}
	slices.Sort(away)
	if n := len(away); n > 0 {
		r.AwayHalf, r.AwayMost, r.AwayLongest = away[n/2], away[min(n*99/100, n-1)], away[n-1]
	}
	slices.SortFunc(back, time.Time.Compare)
	from := 0
	for i := range back {
		for back[i].Sub(back[from]) >= time.Second {
			from++
		}
		r.Busiest = max(r.Busiest, i-from+1)
	}
}

// String is the report as a table in Markdown.
func (r DrainReport) String() string {
	return fmt.Sprintf(`| clients | with kept sessions | window, s | the bridge has ended, s | all clients are back, s | most in one second | without a connection, ms: half | 99 %% | all | told 0x9D and where to | sessions kept | acknowledged to them meanwhile | lost | repeated |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| %d | %d | %.0f | %.1f | %.1f | %d | %d | %d | %d | %d | %d | %d | %d | %d |
`, r.Clients, r.Keep, r.Window.Seconds(), r.Took.Seconds(), r.Back.Seconds(), r.Busiest,
		r.AwayHalf.Milliseconds(), r.AwayMost.Milliseconds(), r.AwayLongest.Milliseconds(),
		r.Told, r.Kept, r.Acknowledged, r.Lost, r.Repeated)
}
