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
	d := &drain{record: newRecorder(), guests: []*guest{
		{told: true, kept: true, got: map[int]int{2: 1, 4: 2}},
		{told: true, got: map[int]int{1: 1}},
	}}
	for number := 1; number <= 4; number++ {
		d.record.add(Event{Kind: Acked, Stream: "guests", Number: number})
	}
	var got DrainReport
	d.count(&got, &sender{session: &session{record: d.record}})
	if want := (DrainReport{Told: 2, Kept: 1, Acknowledged: 4, Lost: 1, Repeated: 1}); got != want {
		t.Errorf("it counts %+v, want %+v", got, want)
	}
}
