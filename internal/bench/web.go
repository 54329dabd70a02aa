package bench

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The doors of a bridge that speak HTTP, as transports of calls. Each answer is
// waited for before the next call of a connection.
const (
	OverHTTP  Over = "http"  // request envelopes in HTTP/1.1 on connections kept alive
	OverHTTP2 Over = "http2" // the same in HTTP/2 over TLS
	OverMCP   Over = "mcp"   // tools/call in HTTP/1.1, without a session
)

// isWeb reports whether calls go by HTTP.
func (o Over) isWeb() bool { return slices.Contains([]Over{OverHTTP, OverHTTP2, OverMCP, OverLLM}, o) }

// overWeb are the invocations of one window by the doors that speak HTTP.
func overWeb(invocations []Scenario) (all []Scenario) {
	for _, over := range []Over{OverHTTP, OverHTTP2, OverMCP} {
		for _, s := range invocations {
			s.Name = strings.Replace(s.Name, ", window 1", ", "+string(over), 1)
			s.Over = over
			all = append(all, s)
		}
	}
	return all
}

// webAddress is the address at which the bridge that uses a folder serves HTTP.
func webAddress(dir string) (address netip.AddrPort, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "addresses.json"))
	if err != nil {
		return address, err
	}
	var known struct{ HTTP string }
	if err := json.Unmarshal(text, &known); err != nil {
		return address, err
	}
	return netip.ParseAddrPort(known.HTTP)
}
