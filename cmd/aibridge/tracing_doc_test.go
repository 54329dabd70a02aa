package main

import (
	"encoding/hex"
	"os/exec"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/telemetry/collectortest"
)

// TestThePageOfTracesWorksAsWritten runs its commands, whose spans reach a
// collector.
func TestThePageOfTracesWorksAsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	page, collector := readPage(t, "tracing.md"), collectortest.New(t)
	if !strings.Contains(page, "--telemetry-otlp http://127.0.0.1:4318") {
		t.Error("the page does not say where spans go")
	}
	shell := startShell(t, startBinary(t, t.TempDir(), "--dev", "--telemetry-otlp", collector.URL))
	shell.follow(t, tour(page))
	for name, within := range map[string]string{"skill.invoke": "b7ad6b7169203331", "agent request": ""} {
		eventually.Holds(t, "the span "+name, func() bool {
			return slices.ContainsFunc(collector.Spans(), func(s *tracepb.Span) bool {
				return s.Name == name && strings.Contains(page, hex.EncodeToString(s.TraceId)) && (within == "" || hex.EncodeToString(s.ParentSpanId) == within)
			})
		}, func() any { return collector.Spans() })
	}
}
