package app_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bridgetest"
)

// BenchmarkMCP compares a call of a device by MCP with the same call as a bare
// skill.invoke, both over HTTP with one connection kept alive.
func BenchmarkMCP(b *testing.B) {
	n := bridgetest.Start(b)
	heater(b, n)
	transport := &http.Transport{}
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	post := func(b *testing.B, path, body string, headers ...string) (http.Header, string) {
		b.Helper()
		request, err := http.NewRequest(http.MethodPost, n.HTTPURL(path), strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		if path != "/mcp" {
			request.Header.Set("Accept", "application/json")
		}
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := client.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode >= 300 {
			b.Fatalf("%s %s %v", response.Status, text, err)
		}
		return response.Header, string(text)
	}
	call := func(b *testing.B, path, body string, headers ...string) {
		b.Helper()
		if _, text := post(b, path, body, headers...); !strings.Contains(text, `"target":21.5`) {
			b.Fatal(text)
		}
	}
	b.Run("skill.invoke", func(b *testing.B) {
		for b.Loop() {
			call(b, "/api/v1/commands/skill.invoke", `{"skill_id":"heater","capability_id":"set","params":{"celsius":21.5}}`)
		}
	})
	b.Run("tools-call-2025-11-25", func(b *testing.B) {
		h, _ := post(b, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		session := []string{"Mcp-Session-Id", h.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
		post(b, "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
		for b.Loop() {
			call(b, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"heater.set","arguments":{"celsius":21.5}}}`, session...)
		}
	})
	b.Run("tools-call-2026-07-28", func(b *testing.B) {
		headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "heater.set"}
		for b.Loop() {
			call(b, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"heater.set","arguments":{"celsius":21.5},`+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, headers...)
		}
	})
	// Each call of one kind is followed by one of the other, so that whatever
	// else the machine does slows both. What the median call adds is reported.
	b.Run("side-by-side", func(b *testing.B) {
		headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "heater.set"}
		var bare, mcp []time.Duration
		for b.Loop() {
			begun := time.Now()
			call(b, "/api/v1/commands/skill.invoke", `{"skill_id":"heater","capability_id":"set","params":{"celsius":21.5}}`)
			bare = append(bare, time.Since(begun))
			begun = time.Now()
			call(b, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"heater.set","arguments":{"celsius":21.5},`+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, headers...)
			mcp = append(mcp, time.Since(begun))
		}
		slices.Sort(bare)
		slices.Sort(mcp)
		one, other := bare[len(bare)/2], mcp[len(mcp)/2]
		b.ReportMetric(float64(one.Microseconds()), "µs-bare")
		b.ReportMetric(float64(other.Microseconds()), "µs-mcp")
		b.ReportMetric(100*(float64(other)/float64(one)-1), "%-added")
	})
}
