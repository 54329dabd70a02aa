package registry

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

func TestMillisecondsAreWrittenAsOtherNumbersAre(t *testing.T) {
	t.Parallel()
	for i := range 10_000 {
		d := time.Duration(rand.Int64N(int64(time.Hour)) >> (i % 42))
		if i%2 == 1 {
			d = -d
		}
		got, want := string(appendMilliseconds(nil, d)), strconv.FormatFloat(milliseconds(d), 'f', -1, 64)
		if got != want {
			t.Fatalf("%v is written as %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0", -time.Nanosecond: "0", time.Millisecond: "1", 5120 * time.Microsecond: "5.12", -70 * time.Microsecond: "-0.07"} {
		if got := string(appendMilliseconds(nil, d)); got != want {
			t.Errorf("%v is written as %s, want %s", d, got, want)
		}
	}
}
