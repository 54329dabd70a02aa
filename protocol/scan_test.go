package protocol_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

func TestCheckJSONAcceptsEveryKindOfValue(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`null`, `true`, `false`, `0`, `-0`, `-1.5e-7`, `1E+2`, `""`, `"é界😀"`, `"\u0000"`, `[]`, `{}`, ` [ 1 , { "a" : [ ] } ] `,
		`{"":1}`, `"` + "\u007f\u2028\ufffd" + `"`, `"\ud83d\ude00"`, `{"a":{"a":{"a":1}}}`, strings.Repeat("[", 64) + strings.Repeat("]", 64),
	} {
		if err := protocol.CheckJSON([]byte(data), protocol.Limits{}); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestCheckJSONRefusesWhatIsNot(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		``, ` `, `nul`, `nulll`, `True`, `undefined`, `-`, `01`, `1.`, `.1`, `1e`, `1e+`, `--1`, `1 2`, `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`,
		`"\ud800"`, `"\ud800x"`, `"\ud800\u0041"`, `"\udc00"`, `"\ud800\ud800"`, "\"\x00\"", "\"\x1f\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82",
		`[`, `[1`, `[1,`, `[1,]`, `[,]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{"a" 1}`, `{1:1}`, `]`, `}`, "\x00", "\xff",
	} {
		err := protocol.CheckJSON([]byte(data), protocol.Limits{})
		if e := failure(t, err, protocol.MalformedEnvelope); detail(e, "reason") == "" {
			t.Errorf("%q: no reason", data)
		}
	}
}

func TestDuplicateKeysAreFoundInObjectsOfAnySize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 15, 16, 17, 18, 47, 48, 49, 1000} {
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf(`"k%d":{"k0":%d}`, i, i))
		}
		good := "{" + strings.Join(keys, ",") + "}"
		if err := protocol.CheckJSON([]byte(good), protocol.Limits{}); err != nil {
			t.Errorf("%d keys: %v", n, err)
		}
		for _, again := range []int{0, n / 2, n - 1} {
			for _, key := range []string{fmt.Sprintf("k%d", again), fmt.Sprintf(`\u006b%d`, again)} {
				bad := good[:len(good)-1] + `,"` + key + `":0}`
				e := failure(t, protocol.CheckJSON([]byte(bad), protocol.Limits{}), protocol.MalformedEnvelope)
				if detail(e, "param_name") != fmt.Sprintf("k%d", again) || detail(e, "reason") != "is a duplicate key" {
					t.Errorf("%d keys, %d again: %v", n, again, e)
				}
			}
		}
	}
}

func TestDuplicateKeysAreFoundInManyOpenObjects(t *testing.T) {
	t.Parallel()
	// Ten keys at each of twenty levels are more than are kept for comparing.
	object := "1"
	for range 20 {
		var keys []string
		for i := range 9 {
			keys = append(keys, fmt.Sprintf(`"k%d":%d`, i, i))
		}
		object = "{" + strings.Join(keys, ",") + `,"in":` + object + "}"
	}
	if err := protocol.CheckJSON([]byte(object), protocol.Limits{}); err != nil {
		t.Error(err)
	}
	bad := strings.Replace(object, `"in":1`, `"in":1,"k3":0`, 1)
	if e := failure(t, protocol.CheckJSON([]byte(bad), protocol.Limits{}), protocol.MalformedEnvelope); detail(e, "param_name") != strings.Repeat("in.", 19)+"k3" {
		t.Errorf("param_name %v", e.Details["param_name"])
	}
}

func TestManyKeysCostLinearTime(t *testing.T) {
	t.Parallel()
	var data strings.Builder
	data.WriteString(`{"k":0`)
	for i := 0; data.Len() < protocol.DefaultMaxBytes-20; i++ {
		fmt.Fprintf(&data, `,"%x":0`, i)
	}
	data.WriteString("}")
	start := time.Now()
	if err := protocol.CheckJSON([]byte(data.String()), protocol.Limits{}); err != nil {
		t.Fatal(err)
	}
	// 100 000 keys: milliseconds with a map, most of a minute without.
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestPathsInErrorsAreBounded(t *testing.T) {
	t.Parallel()
	long := `{"` + strings.Repeat("界", 1000) + `":`
	data := strings.Repeat(long, 60) + "!" + strings.Repeat("}", 60)
	e := failure(t, protocol.CheckJSON([]byte(data), protocol.Limits{}), protocol.MalformedEnvelope)
	if n := len(detail(e, "param_name")); n == 0 || n > 400 {
		t.Errorf("path of %d bytes", n)
	}
}

func TestLimitsAreConfigurable(t *testing.T) {
	t.Parallel()
	if err := protocol.CheckJSON([]byte(`[[1]]`), protocol.Limits{MaxDepth: 2}); err != nil {
		t.Error(err)
	}
	failure(t, protocol.CheckJSON([]byte(`[[[1]]]`), protocol.Limits{MaxDepth: 2}), protocol.MalformedEnvelope)
	if err := protocol.CheckJSON([]byte(`[123]`), protocol.Limits{MaxBytes: 5}); err != nil {
		t.Error(err)
	}
	failure(t, protocol.CheckJSON([]byte(`[1234]`), protocol.Limits{MaxBytes: 5}), protocol.PayloadTooLarge)
}

func TestPlainEndsWhereAStringDoes(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		plain := strings.Repeat("a界", n)[:n]
		if got := protocol.Plain([]byte(plain)); got != n {
			t.Errorf("%q: %d", plain, got)
		}
		for _, c := range []byte("\"\\\n\x00\x1f") {
			for _, behind := range []string{"", "x", "\x80\x80\x80\x80\x80\x80\x80\x80", "\"\"\"\"\"\"\"\"\"\"\""} {
				if got := protocol.Plain([]byte(plain + string(rune(c)) + behind)); got != n {
					t.Errorf("%q %q %q: %d", plain, c, behind, got)
				}
			}
		}
	}
}

// TestEveryByteIsSeenAtEveryPlace has strings of many lengths with one byte of note in them,
// wherever a step of the readers and the writer of strings may begin or end.
func TestEveryByteIsSeenAtEveryPlace(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 100; size++ {
		text := bytes.Repeat([]byte("~"), size)
		for at := range text {
			for _, c := range []byte{0, 0x1f, ' ', '!', '"', '#', '[', '\\', ']', 0x7f, 0x80, 0xa0, 0xa1, 0xff} {
				text[at] = c
				want := size
				if c < ' ' || c == '"' || c == '\\' {
					want = at
				}
				if got := protocol.Plain(text); got != want {
					t.Fatalf("plain of %q: %d, want %d", text, got, want)
				}
				quoted := `"` + string(text) + `"`
				if err, good := protocol.CheckJSON([]byte(quoted), protocol.Limits{}), json.Valid([]byte(quoted)) && c < utf8.RuneSelf; (err == nil) != good {
					t.Fatalf("%q: %v", quoted, err)
				}
				if got, want := protocol.AppendString(nil, string(text)), written(text); !bytes.Equal(got, want) {
					t.Fatalf("written %s, want %s", got, want)
				}
			}
			text[at] = '~'
		}
	}
}

// written is what AppendString makes of a text, as the standard library has it.
func written(text []byte) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(string(text))
	return bytes.TrimSpace(out.Bytes())
}

func TestAppendStringMakesNothingOfItsText(t *testing.T) {
	text, room := strings.Repeat("text ", 20), make([]byte, 0, 200)
	if n := testing.AllocsPerRun(100, func() { protocol.AppendString(room, text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
