package approval

import (
	"fmt"
	"testing"
)

func TestWebhooksAreNotToldInTheClear(t *testing.T) {
	for url, want := range map[string]int{"http://example.com/hook": 1, "https://example.com/hook": 0, "http://127.0.0.1/hook": 0} {
		var faults []string
		c := Settings{WaitSeconds: 1, Webhooks: []WebhookSettings{{URL: url, SecretEnv: "X"}}}
		c.Check(func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
		if len(faults) != want {
			t.Errorf("a webhook at %s: %q", url, faults)
		}
	}
}
