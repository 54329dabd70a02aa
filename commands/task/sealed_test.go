package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
)

// reversing seals by writing backwards after the purpose.
type reversing struct{ lost bool }

func backwards(text []byte) []byte {
	text = bytes.Clone(text)
	for i, j := 0, len(text)-1; i < j; i, j = i+1, j-1 {
		text[i], text[j] = text[j], text[i]
	}
	return text
}

func (r *reversing) Seal(plain []byte, purpose string) ([]byte, error) {
	return append([]byte(purpose+"|"), backwards(plain)...), nil
}

func (r *reversing) Open(sealed []byte, purpose string) ([]byte, error) {
	box, ok := bytes.CutPrefix(sealed, []byte(purpose+"|"))
	if r.lost || !ok {
		return nil, errors.New("sealed with another key")
	}
	return backwards(box), nil
}

func TestWhatModelsWriteIsKeptSealed(t *testing.T) {
	for command, want := range map[string]bool{"llm.query": true, "batch.execute": false} {
		kept, sealer := recordstest.New[Task](), new(reversing)
		table := Sealed(kept, sealer)
		var told []string
		table.OnChange(func(_ string, _, now *Task) {
			if now != nil {
				told = append(told, string(now.Result))
			}
		})
		written := func(text string) *Task {
			return &Task{ID: "t", Command: command, Result: json.RawMessage(`"` + text + `"`), Progress: &Progress{Data: json.RawMessage(`"half"`)}}
		}
		first, err := table.Create(t.Context(), "t", written("one"))
		if err != nil {
			t.Fatal(err)
		}
		second, err := table.Update(t.Context(), "t", written("two"), first)
		if err != nil {
			t.Fatal(err)
		}
		check := func(result string) {
			t.Helper()
			stored, _, _ := kept.Get("t")
			var text bytes.Buffer
			if err := records.Encode(&text, stored); err != nil {
				t.Fatal(err)
			}
			if sealed := !strings.Contains(text.String(), "half") && !strings.Contains(text.String(), result); sealed != want {
				t.Errorf("%s: kept as %s", command, &text)
			}
			for id, found := range table.All() {
				if id != "t" || string(found.Result) != `"`+result+`"` || string(found.Progress.Data) != `"half"` {
					t.Errorf("%s: %s came out as %s, %s", command, id, found.Result, found.Progress.Data)
				}
			}
		}
		check("two")
		if _, err := table.Put(t.Context(), "t", written("three")); err != nil {
			t.Fatal(err)
		}
		check("three")
		if _, revision, _ := table.Get("t"); revision <= second {
			t.Errorf("%s: revision %d after %d", command, revision, second)
		}
		if got := strings.Join(told, ","); got != `"one","two","three"` {
			t.Errorf("%s: told of %s", command, got)
		}
		sealer.lost = true
		if found, _, _ := table.Get("t"); (string(found.Result) == "null") != want {
			t.Errorf("%s: without the key it is %s", command, found.Result)
		}
		if err := table.Delete(t.Context(), "t", 0); err != nil {
			t.Error(err)
		}
		if _, _, there := table.Get("t"); there {
			t.Errorf("%s: it is not removed", command)
		}
	}
}
