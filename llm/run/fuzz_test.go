package run

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/run/pack"
)

// plain is a sealer that takes anything, so that the fuzzer gets behind it.
type plain struct{}

func (plain) Seal(text []byte, _ string) ([]byte, error)   { return text, nil }
func (plain) Open(sealed []byte, _ string) ([]byte, error) { return sealed, nil }

// FuzzDiary reads whatever a disk may hold. What is read must be told without
// harm, and what is added behind it must be found again.
func FuzzDiary(f *testing.F) {
	record := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(append(record(`{"turn":{"n":1,"assistant":{"role":"assistant","segments":[{"type":"tool_call","toolCall":{"id":"1","name":"f","raw":"{"}}]}}}`), record(`{"tools":{"n":1,"after":"Running"}}`)...))
	f.Add(append(record(`{"word":{"intent":"start","input":"x"}}`), record(`{"rest":{"phase":"WaitingUser"}}`)[:9]...))
	f.Add(record(`{"turn":{"request":{"system":[{"role":"system"}],"anew":true},"same_tools":true}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "diary")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var s story
		e := newEffects("r")
		read := func(entry *entry) {
			s.read(entry)
			e.read(entry)
		}
		d, err := openDiary(t.Context(), &folderBook{path: path}, "r", plain{}, read)
		if err != nil {
			return
		}
		for _, turn := range s.turns {
			shown := turn.turn()
			_ = shown.size()
		}
		for _, m := range s.conversation() {
			_ = asOpenAI(&m)
		}
		_ = s.unheard(ModeRun, "x")
		before := d.n
		if err := d.asked(&turnEntry{N: 1, Assistant: &chat.Message{Role: chat.Assistant}}); err != nil {
			t.Fatal(err)
		}
		again, err := openDiary(t.Context(), &folderBook{path: path}, "r", plain{}, func(*entry) {})
		if err != nil || again.n != before+1 {
			t.Fatalf("%d entries and one more are %d, %v", before, again.n, err)
		}
	})
}

// FuzzRoute says anything to an agent.
func FuzzRoute(f *testing.F) {
	a := &pack.Agent{Menu: []pack.MenuItem{{Trigger: "check", Description: "Check it"}, {Cmd: "*exit", Description: "Leave"}}}
	for _, said := range []string{"1", "chekc", "*exit", "check it", "ÿ", "99999999999999999999", ""} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		to := route(a, said)
		if to.item != nil && to.offers != nil {
			t.Error("it is an item and a question at once")
		}
		_ = menuText(a, to.offers)
	})
}
