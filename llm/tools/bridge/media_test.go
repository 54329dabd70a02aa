package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/tools"
)

// A device that declares media in its results, by JSON Schema's own words, has them seen
// and heard instead of read.
func TestDeclaredMediaStandBesideTheResult(t *testing.T) {
	const picture = `{"type":"string","contentEncoding":"base64","contentMediaType":"image/png"}`
	for name, c := range map[string]struct{ schema, data, brief, media string }{
		"a value":           {picture, `"aGk="`, `"(image/png, 2 bytes)"`, "image image/png aGk="},
		"a property":        {`{"type":"object","properties":{"picture":` + picture + `,"at":{"type":"integer"}}}`, `{"at":9007199254740993,"picture":"aGk="}`, `{"at":9007199254740993,"picture":"(image/png, 2 bytes)"}`, "image image/png aGk="},
		"in a list":         {`{"properties":{"a":{"items":{"properties":{"p":` + picture + `}}}}}`, `{"a":[{"p":"aGk="},{"p":"aG8="}]}`, `{"a":[{"p":"(image/png, 2 bytes)"},{"p":"(image/png, 2 bytes)"}]}`, "image image/png aGk=, image image/png aG8="},
		"two, by name":      {`{"properties":{"b":` + picture + `,"a":{"contentEncoding":"base64","contentMediaType":"audio/wav; rate=8000"}}}`, `{"b":"aGk=","a":"aG8="}`, `{"a":"(audio/wav, 2 bytes)","b":"(image/png, 2 bytes)"}`, "audio audio/wav aG8=, image image/png aGk="},
		"an address":        {picture, `"http://192.0.2.1/a.png"`, "", ""},
		"nothing":           {picture, `""`, "", ""},
		"another value":     {picture, `7`, "", ""},
		"no media type":     {`{"contentEncoding":"base64"}`, `"aGk="`, "", ""},
		"no encoding":       {`{"contentMediaType":"image/png"}`, `"aGk="`, "", ""},
		"a document":        {`{"contentEncoding":"base64","contentMediaType":"application/pdf"}`, `"aGk="`, "", ""},
		"no schema":         {``, `"aGk="`, "", ""},
		"a schema of truth": {`true`, `"aGk="`, "", ""},
	} {
		out := frameOf(json.RawMessage(c.schema), 0).output(json.RawMessage(c.data))
		var media []string
		for _, s := range out.Segments {
			media = append(media, fmt.Sprint(s.Type, " ", s.MIMEType, " ", s.Data))
		}
		if string(out.Content) != c.data || string(out.Brief) != c.brief || strings.Join(media, ", ") != c.media {
			t.Errorf("%s: %s, %s, %q", name, out.Content, out.Brief, media)
		}
	}
	many := `["` + strings.Repeat(`aGk=","`, 40) + `aGk="]`
	if out := frameOf(json.RawMessage(`{"items":`+picture+`}`), 0).output(json.RawMessage(many)); len(out.Segments) != maxMedia {
		t.Errorf("%d media of one result", len(out.Segments))
	}
	if deep := frameOf(json.RawMessage(strings.Repeat(`{"items":`, 100)+picture+strings.Repeat(`}`, 100)), 0); deep != nil {
		t.Errorf("a schema is followed without end: %+v", deep)
	}
}

func TestAModelSeesThePictureOfADevice(t *testing.T) {
	w := newWorld(t)
	w.add(1, "camera", Capability{ID: "look", ResultSchema: json.RawMessage(`{"type":"object","properties":{"picture":{"type":"string","contentEncoding":"base64","contentMediaType":"image/jpeg"}}}`)})
	w.answers["skill.invoke"] = func(tools.Environment, string) (string, error) { return `{"data":{"picture":"aGk="}}`, nil }
	r := w.call(ada, "camera.look", `{}`, w.skills)
	if r.Status != tools.Success || strings.Contains(r.Text, "aGk=") || !strings.Contains(r.Text, "image/jpeg, 2 bytes") || len(r.Output.Segments) != 1 || r.Output.Segments[0].Data != "aGk=" {
		t.Errorf("%s %s %+v", r.Status, r.Text, r.Output)
	}
}
