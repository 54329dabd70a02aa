package drill

import (
	"fmt"
	"time"
)

// A DrainReport is what became of the clients of a bridge that was told to end.
type DrainReport struct {
	Clients int           `json:"clients"` // connected to the bridge, with a kept session and a subscription each
	Window  time.Duration `json:"window"`  // over which it was to send them away
	Took    time.Duration `json:"took"`    // from SIGTERM until it has ended
	Back    time.Duration `json:"back"`    // until all clients were connected to another one
	Told    int           `json:"told"`    // 0x9D, and where to
	Kept    int           `json:"kept"`    // sessions that were found again

	Acknowledged int `json:"acknowledged"` // messages of QoS 1 to them, published at another bridge meanwhile
	Lost         int `json:"lost"`
	Repeated     int `json:"repeated"`
}

// String is the report as a table in Markdown.
func (r DrainReport) String() string {
	return fmt.Sprintf(`| clients | window, s | the bridge has ended, s | all clients are back, s | told 0x9D and where to | sessions kept | acknowledged to them meanwhile | lost | repeated |
|---|---|---|---|---|---|---|---|---|
| %d | %.0f | %.1f | %.1f | %d | %d | %d | %d | %d |
`, r.Clients, r.Window.Seconds(), r.Took.Seconds(), r.Back.Seconds(), r.Told, r.Kept, r.Acknowledged, r.Lost, r.Repeated)
}
