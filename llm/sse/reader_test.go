package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func all(r *Reader) (events []string, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e.Name+"|"+string(e.Data))
	}
}

func TestStreamsAreReadHoweverTheyArrive(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"one event":              {"data: a\n\n", []string{"|a"}},
		"names":                  {"event: x\ndata: a\n\ndata: b\n\n", []string{"x|a", "|b"}},
		"no space":               {"data:a\n\n", []string{"|a"}},
		"only one space goes":    {"data:  a\n\n", []string{"| a"}},
		"lines":                  {"data: a\ndata: b\n\n", []string{"|a\nb"}},
		"an empty line of data":  {"data\ndata\n\n", []string{"|\n"}},
		"CR LF":                  {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		"CR":                     {"data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		"comments and others":    {": hi\nid: 7\nretry: 10\ndata: a\n\n: bye\n\n", []string{"|a"}},
		"a byte order mark":      {"\ufeffdata: a\n\n", []string{"|a"}},
		"unfinished":             {"data: a\n\ndata: b\n", []string{"|a"}},
		"cut in the line":        {"data: a\n\ndata: b", []string{"|a"}},
		"a name without data":    {"event: ping\n\ndata: a\n\n", []string{"|a"}},
		"colons in the data":     {"data: {\"a\":\"b:c\"}\n\n", []string{`|{"a":"b:c"}`}},
		"characters of 4 bytes":  {"data: 😀\n\n", []string{"|😀"}},
		"nothing":                {"", nil},
		"blank lines in between": {"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", []string{"|a", "|b"}},
	} {
		for way, in := range map[string]io.Reader{
			"whole":        strings.NewReader(test.stream),
			"byte by byte": iotest.OneByteReader(strings.NewReader(test.stream)),
		} {
			got, err := all(NewReader(in, 1<<10))
			if !errors.Is(err, io.EOF) || strings.Join(got, "!") != strings.Join(test.want, "!") {
				t.Errorf("%s, %s: got %q, %v", name, way, got, err)
			}
		}
	}
}

func TestLongEventsAreRefused(t *testing.T) {
	for _, stream := range []string{
		"data: " + strings.Repeat("x", 2000) + "\n\n",
		strings.Repeat("data: xxxxxxxx\n", 200) + "\n",
		strings.Repeat("y", 2000),
	} {
		if _, err := all(NewReader(strings.NewReader(stream), 1000)); !errors.Is(err, ErrTooLong) {
			t.Errorf("got %v", err)
		}
	}
}

func TestErrorsOfTheConnectionAreTold(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("data: a\n\n"), iotest.ErrReader(broken))
	if got, err := all(NewReader(in, 1000)); len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("event: x\ndata: a\r\ndata: b\r\r: c\n\n"))
	f.Add([]byte("\ufeff\n\rdata\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, err := all(NewReader(bytes.NewReader(stream), 256))
		bit, err2 := all(NewReader(iotest.OneByteReader(bytes.NewReader(stream)), 256))
		if strings.Join(whole, "!") != strings.Join(bit, "!") || !errors.Is(err, err2) {
			t.Fatalf("whole %q %v, byte by byte %q %v", whole, err, bit, err2)
		}
		var again []byte
		for _, e := range whole {
			name, data, _ := strings.Cut(e, "|")
			if strings.ContainsAny(data, "\r") {
				return
			}
			again = Append(again, name, []byte(data))
		}
		if back, _ := all(NewReader(bytes.NewReader(again), 1024)); strings.Join(back, "!") != strings.Join(whole, "!") {
			t.Fatalf("wrote %q, read %q", whole, back)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	event := Append(nil, "", []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word"}}]}`))
	stream := bytes.Repeat(event, 1000)
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(stream), 1<<20)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/event")
}
