package gotemplate

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"text/template"
	"time"
)

type inner struct {
	By    string
	Count int
	small string
}

type embedded struct{ Deep string }

type label string

// A data is data of templates, of all kinds of fields.
type data struct {
	embedded
	*inner
	Word    string
	Label   label
	Raw     []byte
	Names   []string
	Votes   []inner
	Next    *data
	Map     map[string]int
	Numbers map[int]string
	Any     any
	Nothing any
	Size    uint8
	Ratio   float64
	Yes, No bool
	Array   [3]int
	Took    time.Duration
	At      *time.Time
}

func sample() *data {
	at := time.Unix(0, 0).UTC()
	return &data{
		embedded: embedded{"deep"}, inner: &inner{By: "carol", Count: 7, small: "s"},
		Word: `a "word" <b> & 'more' ü ` + "\x00\n\u2028", Label: "label", Raw: []byte(`{"level":40}`),
		Names: []string{"one", "two", "three"}, Votes: []inner{{"ann", 1, ""}, {"bob", 2, ""}},
		Next: &data{Word: "next"}, Map: map[string]int{"b": 2, "a": 1}, Numbers: map[int]string{10: "ten", 9: "nine"},
		Any: []any{1, "two", nil, 3.5}, Size: 200, Ratio: 2.5, Yes: true, Array: [3]int{1, 2, 3}, Took: time.Second, At: &at,
	}
}

// texts are templates, of which those that begin with ! fail.
var texts = []string{
	"", "plain", "{{.Word}}", "{{ .Word -}}   x", "{{/* nothing */}}y", "{{.By}} {{.Count}} {{.Deep}}", "{{.Next.Word}}{{.Next.Next}}",
	`{{printf "%s %d %v" .Raw .Count .Votes}}`, `{{.Raw}}`, `{{.Votes}}`, `{{.Took}} {{.At}}`, `{{.Nothing}}`, `{{.Map}}`, `{{.Map.a}} {{.Map.zz}}`,
	`{{range .Names}}[{{.}}]{{end}}`, `{{range $i, $n := .Names}}{{if $i}}, {{end}}{{$n}}{{end}}`, `{{range $n := .Names}}{{$n}}{{end}}`,
	`{{range .Map}}{{.}}{{end}}{{range $k, $v := .Map}}{{$k}}={{$v}} {{end}}{{range $k, $v := .Numbers}}{{$k}}{{$v}}{{end}}`,
	`{{range .Next.Names}}x{{else}}empty {{.Word}}{{end}}`, `{{range 3}}{{.}}{{end}}`, `{{range $i := 3}}{{$i}}{{end}}`, `{{range .Size}}.{{end}}`, `{{range .Nothing}}x{{else}}y{{end}}`,
	`{{range .Names}}{{if eq . "two"}}{{continue}}{{end}}{{.}}{{end}}`, `{{range .Names}}{{if eq . "two"}}{{break}}{{end}}{{.}}{{end}}`,
	`{{range .Votes}}{{range $.Names}}{{if eq . "two"}}{{break}}{{end}}{{.}}{{end}}{{.By}}{{end}}`,
	`{{$x := 1}}{{range .Names}}{{$x = .}}{{end}}{{$x}}`, `{{$x := 1}}{{if .Yes}}{{$x := 2}}{{$x}}{{end}}{{$x}}`, `{{$i := 0}}{{$n := ""}}{{range $i, $n = .Names}}{{end}}{{$i}}{{$n}}`,
	`{{with .Next}}{{.Word}}{{else}}none{{end}}`, `{{with .Next.Next}}x{{else with .Word}}{{len .}}{{else}}z{{end}}`, `{{with $y := .Count}}{{$y}}{{.}}{{$.Word}}{{end}}`,
	`{{if .No}}a{{else if .Yes}}b{{else}}c{{end}}`, `{{if and .Yes .Count}}y{{end}}{{if or .No .Nothing}}y{{else}}n{{end}}{{not .Yes}}{{and .Yes 0}}{{or "" "x"}}{{.Yes | and 1}}`,
	`{{and .No .Names.Missing}}`, `{{or .Yes (index .Names 99)}}`,
	`{{define "part"}}<{{.}}>{{end}}{{template "part" .Count}}{{template "part"}}`, `{{block "part" .By}}<{{.}}>{{end}}`, `{{define "only"}}x{{end}}`,
	`{{len .Names}} {{len .Word}} {{len .Map}} {{index .Names 1}} {{index .Map "a"}} {{index .Map "zz"}} {{index .Numbers 9}} {{index .Any 1}} {{index .Array .Size | printf "%d"}}`,
	`{{index .Array 2}} {{index .Word 0}} {{index .Votes 1 | print}} {{(index .Votes 1).By}}`, `{{slice .Names 1}} {{slice .Names 0 2}} {{slice .Word 2 4}} {{slice .Names 0 1 2}} {{slice .Label 1 2}}`,
	`{{eq .Word "x"}} {{eq .Count 1 2 7}} {{ne .Count 7}} {{lt .Count 8}} {{le .Count 7}} {{gt .Count 7}} {{ge .Count 7}} {{lt .Size 201}} {{lt -1 .Size}} {{gt .Size -1}} {{eq .Size 200}} {{lt .Ratio 2.6}} {{lt "a" "b"}} {{eq .Label "label"}}`,
	`{{eq .Nothing nil}} {{eq .Next nil}} {{eq .Yes true}} {{eq .Array .Array}} {{eq .Any .Nothing}}`, `{{print 1 2 "x" "y" nil .Nothing}}{{println .By 1}}{{print}}`,
	`{{html .Word}}`, `{{js .Word}}`, `{{urlquery .Word}}`, `{{.Word | printf "%q" | html}}`, `{{html .Next.Word 1 2}}`, `{{urlquery .Count}}`, `{{js "ü\u2028\x80'"}}`,
	`{{1}} {{-2}} {{1.5}} {{1e3}} {{0x1F}} {{'a'}} {{1i}} {{true}} {{"s"}} {{0x1p4}} {{1_000}}`, `{{(.Next).Word}} {{(print .By).Missing}}`,
	`{{$}}`, `{{.}}`, `{{.Any}}`, `{{range .Any}}{{.}},{{end}}`, `{{.Next.Map.a}}`, `{{.Map.a.b}}`, `{{.Next.Next.Word}}`, `{{.Next.By}}`,
	`{{.Missing}}`, `{{.small}}`, `{{.Word.x}}`, `{{.Count 1}}`, `{{nil}}`, `{{1 2}}`, `{{template "gone"}}`, `{{call .Word}}`, `{{len 3}}`, `{{len .Next.Next}}`, `{{len nil}}`,
	`{{index .Names 9}}`, `{{index .Names "x"}}`, `{{index .Names nil}}`, `{{index .Count 1}}`, `{{index nil}}`, `{{index .Map 1}}`, `{{slice .Names 2 1}}`, `{{slice .Names 9}}`, `{{slice .Array 0 1}}`, `{{slice .Count}}`, `{{slice .Word 0 1 2}}`,
	`{{eq .Names .Names}}`, `{{eq .Count "x"}}`, `{{lt .Yes true}}`, `{{lt .Count "x"}}`, `{{lt 1 1.5}}`, `{{eq 1}}`, `{{not}}`, `{{range .Word}}{{end}}`, `{{range $i, $j := 3}}{{end}}`, `{{range .Next.Next}}{{end}}`,
	`{{define "again"}}{{template "again"}}{{end}}{{template "again"}}`, `{{9223372036854775808}}`, `{{"x" | .Word}}`, `{{"x" | 1}}`, `{{printf .Count}}`, `{{printf}}`, `{{slice nil}}`, `{{lt nil 1}}`,
	`{{`, `{{end}}`, `{{if}}{{end}}`, `{{nothing 1}}`, `{{$undefined}}`, `{{$undefined = 1}}`, `{{range $i, $n = .Names}}{{end}}`, `{{if .Yes}}{{$x := 1}}{{end}}{{$x}}`, `{{break}}`,
}

// compareWithLibrary holds a template to what text/template makes of it: the same text,
// or an error of both.
func compareWithLibrary(t *testing.T, text string, data any) {
	t.Helper()
	theirs, theirError := template.New("letter").Parse(text)
	ours, ourError := Parse("letter", text)
	if theirError != nil || ourError != nil {
		if (theirError == nil) != (ourError == nil) && !lacking(ourError) {
			t.Errorf("%q: parsed with %v, by text/template with %v", text, ourError, theirError)
		}
		return
	}
	var got, want strings.Builder
	theirError = theirs.Execute(&want, data)
	ourError = ours.Execute(&got, data)
	if (theirError == nil) != (ourError == nil) && !lacking(ourError) {
		t.Errorf("%q: executed with %v, by text/template with %v", text, ourError, theirError)
	} else if theirError == nil && ourError == nil && got.String() != want.String() {
		t.Errorf("%q is %q, and %q by text/template", text, got.String(), want.String())
	}
}

// lacking reports whether an error is about what the package does without: functions in
// data, arguments of fields, of which text/template minds only those of fields that are
// there, and methods, which the sample has in times alone.
func lacking(err error) bool {
	return err != nil && regexp.MustCompile(`"call" not defined|can't give argument to non-function|in type time\.`).MatchString(err.Error())
}

func TestTemplatesAreThoseOfTheLibrary(t *testing.T) {
	for _, text := range texts {
		compareWithLibrary(t, text, sample())
		compareWithLibrary(t, text, *sample())
		compareWithLibrary(t, text, map[string]any{"Word": "w", "Names": []string{"x"}, "Count": 7, "Map": map[string]int{"a": 1}})
	}
	for _, text := range []string{"{{.Word}}", "{{.Next.Word}}", "{{range .}}x{{else}}y{{end}}", "{{.}}"} {
		compareWithLibrary(t, text, nil)
	}
}

func FuzzTemplatesAreThoseOfTheLibrary(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 || strings.Contains(text, "000") || strings.Count(text, "range") > 2 || strings.Count(text, "template") > 2 {
			t.Skip("it may take long")
		}
		compareWithLibrary(t, text, sample())
	})
}

// TestMethodsAreNotCalled is what makes the package worth having.
func TestMethodsAreNotCalled(t *testing.T) {
	parsed := Must(Parse("letter", "{{.Took.Seconds}}"))
	err := parsed.Execute(io.Discard, sample())
	if want := `template: letter:1:7: executing "letter" at <.Took.Seconds>: can't evaluate field Seconds in type time.Duration`; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	for _, text := range []string{"plain", "{{1}}"} {
		if err := Must(Parse("letter", text)).Execute(broken{}, nil); err == nil {
			t.Errorf("%q is written into a broken writer without an error", text)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, fmt.Errorf("broken") }

func TestValuesInHTMLAreEscaped(t *testing.T) {
	page := Must(ParseHTML("page", `<a title="{{.Word}}">{{.Word}}</a>{{.Body}}{{range .List}}{{.}}{{end}}`))
	var out strings.Builder
	err := page.Execute(&out, map[string]any{"Word": `"<b>'&`, "Body": HTML("<p>"), "List": []any{1, "<", HTML("<br>")}})
	if want := `<a title="&#34;&lt;b&gt;&#39;&amp;">&#34;&lt;b&gt;&#39;&amp;</a><p>1&lt;<br>`; err != nil || out.String() != want {
		t.Errorf("the page is %s, %v, want %s", out.String(), err, want)
	}
}

func TestMustPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a template that cannot be parsed is taken")
		}
	}()
	Must(ParseHTML("page", "{{"))
}
