package a2a

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// FuzzCard: whatever a card says, it is refused, or it makes a registration that the
// registry can take, and has the same digest when it is read again.
func FuzzCard(f *testing.F) {
	f.Add([]byte(bareCard))
	f.Add([]byte(`{"name":"x","url":"http://a","protocolVersion":"0.3.0"}`))
	f.Add([]byte(`{"name":"x","NAME":"y","supportedInterfaces":[{"url":"http://a/","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}],"skills":[{"id":"a/b"},{"id":"a b"},{"id":"$x"},{"id":"message"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, canonical, err := readCard(text)
		if err != nil {
			return
		}
		_, again, err := readCard(canonical)
		if err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("read again it is %s, %v", again, err)
		}
		a := &Agent{ID: "x", Space: "s", URL: "http://a/", Card: canonical, Risk: "ask"}
		params, err := a.registration(c)
		if err != nil || !json.Valid(params) || !utf8.Valid(params) {
			t.Fatalf("registration %s, %v", params, err)
		}
		var made struct {
			Skills []struct {
				Name         string
				Capabilities []struct {
					ID                protocol.CapabilityID `json:"capability_id"`
					Name, Description string
				}
			}
		}
		if err := json.Unmarshal(params, &made); err != nil || len(made.Skills) != 1 || len(made.Skills[0].Capabilities) > 100 {
			t.Fatalf("registration %s, %v", params, err)
		}
		for _, one := range made.Skills[0].Capabilities {
			if why := one.ID.Rule().Check(string(one.ID)); why != "" || len(one.Name) > 128 || len(one.Description) > 512 || strings.ContainsAny(one.Description, "\n\r\x1b") {
				t.Fatalf("capability %+v: %s", one, why)
			}
		}
	})
}

// FuzzAnswer: whatever an agent says, the part that is passed on is bounded and can
// be told.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{begunTask, warming, lump, more, ended, `{"task":` + doneTask + `}`, `{"message":{"parts":[{"raw":"AQI="},{"text":null},{}]}}`, `{"task":{"id":"t","status":{"state":8}}}`} {
		f.Add([]byte("data: " + seed + "\n\ndata: " + seed + "\r\n\r\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		stream := newEvents(bytes.NewReader(text))
		k := &talk{tell: func(said string) {
			if len(said) > maxSaid || strings.ContainsAny(said, "\n\x1b") {
				t.Fatalf("told %q", said)
			}
		}}
		for stream.next() {
			if !k.take(stream.data) {
				break
			}
			_, _ = unwrap(stream.data, &http.Response{StatusCode: http.StatusOK})
		}
		r, err := k.result()
		if err != nil {
			if len(err.Message) > 2*maxSaid+100 {
				t.Fatalf("the error has %d bytes", len(err.Message))
			}
			return
		}
		told, failed := json.Marshal(r)
		if failed != nil || len(told) > 8*(maxText+maxData) {
			t.Fatalf("%d bytes, %v", len(told), failed)
		}
	})
}
