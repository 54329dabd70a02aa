package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// scrape reads /metrics with a key.
func (h *house) scrape(key string) (status int, body string) {
	h.t.Helper()
	status, text := ask(h.t, http.MethodGet, h.HTTPURL("/metrics"), "X-API-Key", key)
	return status, string(text)
}

// families are the names of what a scrape shows.
func families(scraped string) (names []string) {
	for line := range strings.Lines(scraped) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}

func TestMetricsTellTenantsNothingOfEachOther(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	key := func(kind protocol.Kind, id, role, space string) string {
		return h.key(kind, id, role, fmt.Sprintf(`,"space_id":%q`, space))
	}
	red, blue := key(protocol.KindOperator, "ann", protocol.RoleOperator, "red"), key(protocol.KindOperator, "bob", protocol.RoleOperator, "blue")
	for space, asker := range map[string]string{"red": red, "blue": blue} { // a mirror has metrics that name its space
		for _, q := range []struct{ command, params string }{
			{"agent.register", `{"agent_id":"hub","type":"end_agent"}`},
			{"skill.register", `{"agent_id":"hub","skill":{"skill_id":"heating","name":"H","capabilities":["on"]}}`},
			{"cap.declare", `{"cap_id":"climate","cap_name":"Climate","skill_id":"heating","sync_enabled":true}`},
			{"command.register", fmt.Sprintf(`{"agent_id":"hub","namespace":"of%s.*","commands":[{"name":"of%s.do","summary":"Do it.","params_schema":{}}]}`, space, space)},
		} {
			if code, body := h.run(asker, q.command, q.params); code != "" {
				t.Fatalf("%s: %s", q.command, body)
			}
		}
		h.run(asker, "of"+space+".do", `{}`)
	}
	var all string
	eventually.Holds(t, "metrics tell of both", func() bool {
		_, all = h.scrape(h.admin)
		return strings.Contains(all, `space="red"`) && strings.Contains(all, `space="blue"`) && strings.Contains(all, `command="ofred.do"`)
	}, &all)
	for name, test := range map[string]struct {
		key   string
		space string
	}{
		"an operator":       {red, "red"},
		"another":           {blue, "blue"},
		"an observer":       {key(protocol.KindOperator, "eve", protocol.RoleObserver, "blue"), "blue"},
		"one at home there": {key(protocol.KindOperator, "olga", protocol.RoleObserver, "default"), "default"},
	} {
		status, body := h.scrape(test.key)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, body)
			continue
		}
		for _, other := range []string{"red", "blue"} {
			if other != test.space && (strings.Contains(body, fmt.Sprintf("%q", other)) || strings.Contains(body, "of"+other)) {
				t.Errorf("%s is told of %s", name, other)
			}
		}
		for _, family := range families(all) { // whoever adds a label decides whether tenants may see it
			if !slices.Contains(families(body), family) && !strings.Contains(all, family+`{space="`) {
				t.Errorf("%s does not see %s", name, family)
			}
		}
	}
	for name, k := range map[string]string{
		"an end agent":      key(protocol.KindAgent, "lamp", protocol.RoleEndAgent, "red"),
		"a route agent":     key(protocol.KindAgent, "router", protocol.RoleRouteAgent, "red"),
		"a skill":           key(protocol.KindSkill, "heat", protocol.RoleSkill, "red"),
		"for other actions": h.key(protocol.KindOperator, "lim", protocol.RoleOperator, `,"scopes":["skill:*"]`),
	} {
		if status, body := h.scrape(k); status != http.StatusForbidden || strings.Contains(body, "aibridge_") {
			t.Errorf("%s: %d %.200s", name, status, body)
		}
	}
	if status, _ := h.scrape(h.key(protocol.KindOperator, "prom", protocol.RoleObserver, `,"scopes":["metrics:read"]`)); status != http.StatusOK {
		t.Errorf("one that may do nothing else: %d", status)
	}
}
