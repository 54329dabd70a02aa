package telemetry

import (
	"fmt"
	"testing"
)

func TestCredentialsDoNotGoToACollectorInTheClear(t *testing.T) {
	faults := func(url string) (list []string) {
		(&Settings{OTLP: url}).Check(func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) })
		return list
	}
	for url, want := range map[string]int{"http://example.com:4318": 0, "http://u:p@example.com:4318": 1, "https://u:p@example.com": 0, "http://u:p@collector:4318": 0} {
		if got := faults(url); len(got) != want {
			t.Errorf("a collector at %s: %q", url, got)
		}
	}
	t.Setenv(otlpHeaders[0], "authorization=Bearer x")
	if got := faults("http://example.com:4318"); len(got) != 1 {
		t.Errorf("a collector that gets a header: %q", got)
	}
}
