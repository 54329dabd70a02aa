package schemaword

import (
	"fmt"
	"strings"
	"testing"
)

func TestMisspeltKeywordsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"number","maxmum":30}`:                                           `[: maxmum is maximum]`,
		`{"type":"object","properties":{"celsius":{"type":"number","minium":5}}}`: `[properties.celsius: minium is minimum]`,
		`{"propertys":{"a":{}}}`:                                                  `[: propertys is properties]`,
		`{"maxlength":3}`:                                                         `[: maxlength is maxLength]`,
		`{"anyOf":[{},{"requierd":["a"]}]}`:                                       `[anyOf.1: requierd is required]`,
		`{"items":{"patern":"x"},"$defs":{"d":{"formt":"date"}}}`:                 `[$defs.d: formt is format items: patern is pattern]`,
		`{"items":[{"additionalProperty":false}]}`:                                `[items.0: additionalProperty is additionalProperties]`,
		// Names, values and what is an author's own are no keywords.
		`{"properties":{"maxmum":{},"typ":{}},"default":{"maxmum":1},"enum":[{"minium":1}],"x-maxmum":1}`: `[]`,
		`{"unit":"°C","precision":2,"widget":"slider","order":1,"i18n":{},"nullable":true}`:               `[]`,
		`true`: `[]`, `3`: `[]`, `{`: `[]`, `{"properties":3,"allOf":{}}`: `[]`,
	} {
		var got []string
		for _, m := range Check([]byte(text)) {
			got = append(got, fmt.Sprintf("%s: %s is %s", strings.Join(m.At, "."), m.Keyword, m.Meant))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func TestASearchIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"properties":{`)
	for i := range 100 {
		fmt.Fprintf(&b, `"p%d":{"maxmum":1},`, i)
	}
	b.WriteString(`"z":` + strings.Repeat(`{"not":`, 1000) + `{"maxmum":1}` + strings.Repeat(`}`, 1000) + `}}`)
	if n := len(Check([]byte(b.String()))); n != maxFound {
		t.Errorf("%d were found", n)
	}
	if got := Check([]byte(strings.Repeat(`{"not":`, 1000) + `{"maxmum":1}` + strings.Repeat(`}`, 1000))); len(got) != 0 {
		t.Errorf("at a depth of a thousand: %v", got)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"items":[{"maxmum":1}]}`))
	f.Fuzz(func(_ *testing.T, text []byte) { Check(text) })
}
