// Package archtest keeps the rule of who may import whom.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/aibridge/aibridge/"

// rooms says for every package, by longest matching prefix, which of our
// packages it may import. "*" means any; subpackages are included.
var rooms = map[string][]string{
	"protocol":                 {},
	"protocol/cloudevent":      {"protocol"},
	"protocol/grant":           {"protocol"},
	"protocol/selector":        {"protocol"},
	"commands":                 {"protocol", "commands"},
	"registry":                 {"protocol", "commands", "internal/announce", "internal/egress", "internal/schemaword", "registry"},
	"registry/doctor":          {"protocol", "commands"},
	"registry/shadow":          {"protocol", "commands", "internal/announce"},
	"registry/doctor/witness":  {"protocol", "commands", "broker", "doors/mqtt", "security", "registry/ask", "registry/doctor"},
	"registry/ask":             {"protocol", "commands", "internal/fair", "internal/egress"},
	"commands/task":            {"protocol", "commands", "internal/fair"},
	"commands/status":          {"protocol", "commands", "cluster"},
	"cap":                      {"protocol", "commands", "internal/announce", "internal/fair", "registry/ask", "cap"},
	"cap/dispatch/tasks":       {"protocol", "commands/task", "cap/dispatch"},
	"cap/rollout/tasks":        {"protocol", "commands/task", "cap/rollout"},
	"vfs/mirror/caps/channels": {"protocol", "cap", "vfs/mirror"},
	"scene":                    {"protocol", "commands", "internal/announce", "scene"},
	"security/audit/events":    {"protocol", "commands", "security", "llm/approval", "llm/model", "llm/run", "llm/tools", "cap/dispatch"},
	"security":                 {"protocol", "commands", "internal/evidence", "internal/fair", "internal/httpbody", "security"},
	"connect":                  {"connect/homeassistant"},
	"connect/homeassistant":    {"protocol", "connect/template", "connect/device", "connect/homeassistant/entities"},
	"connect/template":         {},
	"connect/device":           {"protocol", "commands", "connect/template"},
	"doors/a2a/topic":          {"protocol", "broker", "doors/a2a", "internal/records"},
	"connect/a2a":              {"protocol", "commands", "internal/egress"},
	"connect/link":             {"protocol", "commands", "broker/packet", "broker/topic"},
	"connect/site":             {"protocol", "commands", "client", "vfs"},
	"connect/binding":          {"protocol", "commands/schema", "registry/schema", "connect/template", "connect/device"},
	"llm":                      {"protocol", "commands", "internal/fair", "internal/filename", "internal/gotemplate", "internal/keylock", "llm"},
	"llm/run/tasks":            {"protocol", "commands/task", "llm/run"},
	"llm/parked/tasks":         {"protocol", "commands/task", "llm/parked"},
	"llm/agent":                {"protocol", "commands", "registry", "llm/model"},
	"vfs":                      {"protocol", "commands", "internal/announce", "internal/fair", "internal/filename", "vfs"},
	"broker":                   {"protocol", "internal/fields", "internal/gate", "broker"},
	"cluster/routes":           {"protocol", "broker/topic", "internal/fields"},
	"cluster":                  {"protocol"},
	"cluster/estate":           {"protocol", "cluster", "cluster/relay"},
	"cluster/exclusive":        {"protocol", "broker", "cluster", "internal/keylock"},
	"cluster/sessions":         {"protocol", "broker", "internal/fields"},
	"cluster/direct":           {"internal/membercert"},
	"cluster/relay":            {"protocol", "broker", "cluster/routes"},
	"client":                   {"protocol", "internal/fair", "client"},
	"client/agent":             {"protocol", "client", "internal/fair", "internal/schemaword"},
	"client/agent/folder":      {"protocol", "vfs"},
	"docs":                     {"internal/gotemplate", "internal/webfile", "docs"},
	"internal/webfile":         {},
	"doors/http":               {"protocol", "commands", "internal/fair", "internal/gotemplate", "internal/httpbody"},
	"doors/mqtt":               {"protocol", "commands", "broker", "security", "doors/mqtt"},
	"llm/run/project":          {"protocol", "commands", "llm/run/mount", "vfs"},
	"doors/a2a":                {"protocol", "commands", "internal/egress", "internal/fair", "internal/httpbody", "llm/tools", "llm/chat"},
	"doors/mcp":                {"protocol", "commands", "internal/fair", "internal/httpbody", "llm/tools", "llm/chat", "llm/wire", "doors/mcp"},
	"doors/mcp/offer":          {"protocol", "commands", "registry/schema", "vfs", "llm/tools", "llm/chat", "doors/mcp"},
	"doors/mcp/topic":          {"protocol", "broker", "doors/mcp"},
	"doors/mcp/mqtt":           {"protocol", "broker", "doors/mcp", "llm/tools/servers"},
	"doors/mqtt/check":         {"protocol", "broker", "registry/schema"},
	"doors/mqtt/delayed":       {"protocol", "commands", "broker", "internal/fair", "internal/records"},
	"doors/mqtt/queue":         {"protocol", "commands", "broker", "internal/fair", "internal/records"},
	"doors/mqtt/sparkplug":     {"protocol", "broker"},
	"doors/nats":               {"protocol", "commands", "broker/topic", "internal/fair", "internal/natsd"},
	"doors/southbound":         {"protocol", "commands"},
	"doors/console":            {"protocol", "console", "internal/webfile"},
	"console":                  {},
	"doors/files":              {"protocol", "commands", "internal/fair", "internal/filename", "internal/records", "vfs", "doors/files"},
	"internal/bench":           {"protocol", "client", "broker", "internal/gate", "internal/bench"},
	"internal/natsd":           {"internal/membercert"},
	"internal/membercert":      {},
	"internal/leaks":           {"internal/eventually"},
	"internal/store":           {"protocol", "cluster", "commands", "broker", "registry", "commands/task", "vfs"},
	"internal/backup":          {"protocol", "commands", "internal/diskspace", "internal/store", "security/audit", "security/policy", "vfs"},
	"internal/evidence":        {"protocol", "commands"},
	"internal/clusterkey":      {"security"},
	"internal/storage":         {"protocol", "cluster", "commands", "internal/backup", "internal/clusterkey", "internal/config", "internal/evidence", "internal/lifecycle", "internal/natsd", "internal/store", "security"},
	"bridge":                   {"commands", "internal/app", "internal/listen"},
	"internal/app":             {"*"},
	"internal/bridgetest":      {"*"},
	"internal/verify":          {"protocol", "cluster", "connect", "llm", "internal/app", "internal/backup", "internal/config", "internal/listen", "internal/natsd", "internal/storage", "internal/telemetry", "security"},
	"internal/announce":        {"protocol"},
	"internal/egress":          {},
	"internal/fair":            {"protocol"},
	"internal/fields":          {},
	"internal/filename":        {},
	"internal/requirements":    {},
	"internal/httpbody":        {},
	"internal/keylock":         {},
	"internal/archtest":        {},
	"internal/mcpconformance":  {"internal/freeport"},
	"internal/cleartext":       {},
	"internal/clock":           {},
	"internal/prefetch":        {},
	"internal/schemaword":      {"commands"},
	"internal/records":         {"protocol"},
	"internal/gate":            {"protocol", "internal/fair"},
	"internal/diskspace":       {"protocol"},
	"internal/eventually":      {},
	"internal/bubble":          {},
	"internal/freeport":        {},
	"internal/gobuild":         {},
	"internal/gotemplate":      {},
	"internal/lifecycle":       {"protocol"},
	"internal/authz":           {"protocol", "commands", "registry", "cap", "scene", "llm/approval", "llm/run", "llm/tools", "security", "vfs"},
	"internal/config":          {"protocol", "cluster", "commands", "connect", "connect/link", "connect/site", "doors/a2a", "doors/files", "doors/mcp", "doors/mqtt", "doors/mqtt/check", "doors/nats", "llm", "security", "vfs", "internal/backup", "internal/diskspace", "internal/gate", "internal/listen", "internal/natsd", "internal/settings", "internal/telemetry"},
	"internal/listen":          {"commands"},
	"internal/migrate":         {"protocol", "llm", "internal/migrate"},
	"internal/telemetry":       {},
	"internal/settings":        {"commands/schema"},
	"internal/smalldisk":       {},
	"cmd/aibridge-bench":       {"internal/bench"},
	"cmd":                      {"protocol", "commands", "client", "connect", "vfs", "vfs/mirror", "vfs/remote", "doors/mcp/stdio", "internal/app", "internal/backup", "internal/clusterkey", "internal/config", "internal/listen", "internal/migrate", "internal/verify", "security", "internal/storage", "security/pki", "sdk/conformance", "sdk/starter"},
	"examples":                 {"protocol", "client"},
	"internal/conformance":     {"*"},
	"sdk":                      {},
	"sdk/starter":              {"protocol", "internal/gotemplate", "sdk"},
	"sdk/conformance":          {"protocol", "broker", "client"},

	"connect/homeassistant/entities": {"protocol", "commands", "connect/device"},
}

// common are the packages that every package may import.
var common = []string{"internal/clock", "internal/cleartext", "internal/prefetch", "internal/records", "internal/telemetry/semconv"}

// only says which packages may import a library that is kept in one place.
var only = map[string][]string{
	"github.com/nats-io/": {"internal/natsd", "internal/store", "internal/bench", "doors/nats"},
	"github.com/evanw/":   {"console/build"},
	"github.com/yuin/":    {"docs/site"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for _, p := range list(t) {
		room := strings.TrimPrefix(p.ImportPath, module)
		allowed, ok := match(room)
		if !ok {
			t.Errorf("%s has no place in the house: add it to rooms", room)
			continue
		}
		for _, imp := range p.Imports {
			if inner, ours := strings.CutPrefix(imp, module); ours && !permits(allowed, inner) && !permits(common, inner) {
				t.Errorf("%s may not import %s", room, inner)
			}
			for lib, keepers := range only {
				if strings.HasPrefix(imp, lib) && !permits(keepers, room) {
					t.Errorf("%s may not import %s, only %v may", room, imp, keepers)
				}
			}
		}
	}
}

func match(room string) (allowed []string, ok bool) {
	longest := -1
	for prefix, a := range rooms {
		if within(room, prefix) && len(prefix) > longest {
			longest, allowed, ok = len(prefix), a, true
		}
	}
	return allowed, ok
}

func permits(allowed []string, room string) bool {
	for _, a := range allowed {
		if a == "*" || within(room, a) {
			return true
		}
	}
	return false
}

func within(room, prefix string) bool {
	return room == prefix || strings.HasPrefix(room, prefix+"/")
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 5 {
		t.Fatalf("found only %d packages", len(pkgs))
	}
	return pkgs
}
