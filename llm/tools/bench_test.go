package tools

import (
	"fmt"
	"testing"
)

func BenchmarkParseTenParameters(b *testing.B) {
	tool := all(b)
	raw := []byte(`{"text":"living room","flag":"true","count":"42","share":21.5,"object":{"a":1,"b":"c"},"array":[1,2,3],` +
		`"when":"2026-01-02T03:04:05Z","where":"https://example.com/x","mode":"heat","texts":"one"}`)
	b.ReportAllocs()
	for b.Loop() {
		if p := Parse(tool, raw); len(p.Faults) > 0 {
			b.Fatal(p.Error())
		}
	}
}

// houseTools are tools of a house with many rooms.
func houseTools(n int) []*Tool {
	rooms := []string{"kitchen", "bathroom", "living room", "bedroom", "attic", "cellar", "garage", "garden", "hall", "office"}
	things := []string{"lamp", "thermostat", "shutter", "camera", "lock", "speaker", "valve", "socket", "fan", "sensor"}
	verbs := []string{"set", "read", "toggle", "schedule", "reset", "calibrate", "identify", "update", "pair", "describe"}
	list := make([]*Tool, n)
	for i := range list {
		room, thing, verb := rooms[i/100%10], things[i/10%10], verbs[i%10]
		list[i] = &Tool{Declaration: Declaration{
			Name:        fmt.Sprintf("%s-%s-%d.%s", room, thing, i/1000, verb),
			Description: fmt.Sprintf("Lets one %s the %s of the %s", verb, thing, room),
			Parameters:  []Parameter{{Name: "value", Kind: Number, Required: true, Description: "what to " + verb}},
		}}
	}
	return list
}

func BenchmarkRelevantOfAThousand(b *testing.B) {
	box := toolbox(b, houseTools(1000)...)
	box.Relevant("warm up", 1)
	b.ReportAllocs()
	for b.Loop() {
		if got := box.Relevant("Set the thermostat in the living room to 21 degrees", 20); len(got) != 20 {
			b.Fatal(len(got))
		}
	}
}

func BenchmarkSelectAgainOfAThousand(b *testing.B) {
	c := New(list(houseTools(1000)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Select(b.Context(), Environment{}, []string{"*"}); err != nil {
			b.Fatal(err)
		}
	}
}
