package drill

import (
	"strings"
	"testing"
	"time"
)

func TestADrainNeedsClients(t *testing.T) {
	for _, clients := range []int{-1, 0, 50_001} {
		o := Options{Bridge: []string{"x"}, NATS: []string{"x"}, Dir: t.TempDir()}
		if _, err := Drain(t.Context(), o, clients, time.Second); err == nil || !strings.Contains(err.Error(), "clients are 1 to 50000") {
			t.Errorf("%d clients: %v", clients, err)
		}
	}
}

// TestADrainCountsWhatItsClientsSaw counts without bridges.
func TestADrainCountsWhatItsClientsSaw(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	d := &drain{record: newRecorder(), kept: []*guest{
		{told: true, found: true, left: at(0), back: at(40), got: map[int]int{2: 1, 4: 2}},
		{told: true, left: at(900), back: at(960), got: map[int]int{1: 1}},
	}}
	d.guests = append(d.kept, &guest{left: at(1000), back: at(1050)})
	for number := 1; number <= 4; number++ {
		d.record.add(Event{Kind: Acked, Stream: "guests", Number: number})
	}
	var got DrainReport
	d.count(&got, &sender{session: &session{record: d.record}})
	if want := (DrainReport{
		Told: 2, Kept: 1, AwayHalf: 50 * time.Millisecond, AwayMost: 60 * time.Millisecond, AwayLongest: 60 * time.Millisecond, Busiest: 2,
		Acknowledged: 4, Lost: 1, Repeated: 1,
	}); got != want {
		t.Errorf("it counts %+v, want %+v", got, want)
	}
}
