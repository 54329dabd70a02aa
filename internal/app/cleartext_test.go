package app

import (
	"fmt"
	"testing"
)

func TestCredentialsDoNotGoToTheInternetInTheClear(t *testing.T) {
	faults := func(check func(func(string, ...any))) (list []string) {
		check(func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) })
		return list
	}
	for url, want := range map[string]int{"http://example.com/hook": 1, "https://example.com/hook": 0, "http://127.0.0.1/hook": 0} {
		c := Approvals{WaitSeconds: 1, Webhooks: []ApprovalWebhook{{URL: url, SecretEnv: "X"}}}
		if got := faults(c.check); len(got) != want {
			t.Errorf("a webhook at %s: %q", url, got)
		}
	}
	for url, want := range map[string]int{"http://example.com:4318": 0, "http://u:p@example.com:4318": 1, "https://u:p@example.com": 0, "http://u:p@collector:4318": 0} {
		c := Telemetry{OTLP: url}
		if got := faults(c.check); len(got) != want {
			t.Errorf("a collector at %s: %q", url, got)
		}
	}
	t.Setenv(otlpHeaders[0], "authorization=Bearer x")
	if got := faults((&Telemetry{OTLP: "http://example.com:4318"}).check); len(got) != 1 {
		t.Errorf("a collector that gets a header: %q", got)
	}
}
