package registry

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

const misspelt = `{"skill_id":"heating","name":"H","capabilities":["off",{"capability_id":"set",
	"params_schema":{"type":"object","properties":{"celsius":{"type":"number","maxmum":30}}},"result_schema":{"requierd":["celsius"]}}]}`

func TestMisspeltKeywordsAreWarnedOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := []string{
		`skill heating: params_schema of set: at properties.celsius: there is no keyword "maxmum", did you mean "maximum"? It is passed over`,
		`skill heating: result_schema of set: there is no keyword "requierd", did you mean "required"? It is passed over`,
	}
	for _, q := range []question{
		{who: alice, command: "agent.register", params: `{"agent_id":"oven","type":"end_agent","endpoints":["https://93.184.216.34/oven"],"skills":[` + misspelt + `]}`},
		{who: alice, command: "skill.register", params: `{"agent_id":"oven","skill":` + misspelt + `}`},
	} {
		r := w.ask(q)
		w.must(r, nil)
		said := strings.Join(r.Metadata.Warnings, "\n")
		for _, warning := range want {
			if !strings.Contains(said, warning) {
				t.Errorf("%s warns of %q, want %q", q.command, said, warning)
			}
		}
	}
}

func TestFormatsOfParamsCanBeAsserted(t *testing.T) {
	const schemas = `"params_schema":{"type":"object","properties":{"at":{"type":"string","format":"date-time"}}}`
	inBubble(t, func(_ *testing.T, w *world) {
		w.device("clock", `{"skill_id":"clock","name":"C","capabilities":[{"capability_id":"said",`+schemas+`},{"capability_id":"asserted","format":"assert",`+schemas+`}]}`,
			func(d *device, r *protocol.Request) { d.succeed(r, `{}`) })
		w.do(alice, "skill.invoke", `{"skill_id":"clock","capability_id":"said","params":{"at":"soon"}}`, nil)
		w.do(alice, "skill.invoke", `{"skill_id":"clock","capability_id":"asserted","params":{"at":"2026-11-22T06:00:00Z"}}`, nil)
		w.fails(alice, "skill.invoke", `{"skill_id":"clock","capability_id":"asserted","params":{"at":"soon"}}`, protocol.InvalidParameter)
		w.fails(alice, "skill.register", `{"agent_id":"clock","skill":{"skill_id":"x","name":"X","capabilities":[{"capability_id":"c","format":"asert"}]}}`, protocol.InvalidParameter)
	})
}
