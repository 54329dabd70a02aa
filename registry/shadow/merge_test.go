package shadow

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func objectOf(t testing.TB, text string) object {
	t.Helper()
	o, err := parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

// The cases of RFC 7386, appendix A, whose documents are objects.
func TestMergePatchesAreThoseOfTheRFC(t *testing.T) {
	for _, c := range []struct{ document, patch, merged string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"e":1}`, `{"a":1}`, `{"a":1,"e":1}`},
		{`{"a":5}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{`{"a":1}`, `{"a":[null,{"b":null}]}`, `{"a":[null,{"b":null}]}`},
	} {
		if got := string(render(merge(objectOf(t, c.document), objectOf(t, c.patch)))); got != c.merged {
			t.Errorf("%s with %s is %s, want %s", c.document, c.patch, got, c.merged)
		}
	}
}

func TestTheDeltaIsWhatIsDesiredAndNotReported(t *testing.T) {
	for _, c := range []struct{ desired, reported, delta string }{
		{`{}`, `{"a":1}`, `{}`},
		{`{"a":1}`, `{}`, `{"a":1}`},
		{`{"a":21}`, `{"a":21.0,"b":2}`, `{}`},
		{`{"a":2100e-2}`, `{"a":2.1E+1}`, `{}`},
		{`{"a":1e1000000000000000000000}`, `{"a":10e999999999999999999999}`, `{}`},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, `{"a":9007199254740993}`},
		{`{"a":-0}`, `{"a":0.00e5}`, `{}`},
		{`{"a":-1}`, `{"a":1}`, `{"a":-1}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":3,"d":4}}`, `{"a":{"c":2}}`},
		{`{"a":{"b":1}}`, `{"a":7}`, `{"a":{"b":1}}`},
		{`{"a":{}}`, `{"a":{"b":1}}`, `{}`},
		{`{"a":{}}`, `{}`, `{"a":{}}`},
		{`{"a":[1,{"b":2}]}`, `{"a":[1.0,{"b":2}]}`, `{}`},
		{`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":2,"c":3}]}`, `{"a":[1,{"b":2}]}`},
		{`{"a":"1"}`, `{"a":1}`, `{"a":"1"}`},
	} {
		if got := string(render(difference(objectOf(t, c.desired), objectOf(t, c.reported)))); got != c.delta {
			t.Errorf("%s desired of %s leaves %s, want %s", c.desired, c.reported, got, c.delta)
		}
	}
}

// values draws JSON of few names, so that documents meet.
func values(depth int, null bool) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Map(rapid.SampledFrom([]string{"0", "-0", "1", "1.0", "10e-1", "21.5", "1e400", "-7"}), func(s string) any { return json.Number(s) }),
		rapid.Map(rapid.SampledFrom([]string{"", "on", "off", "<é>"}), func(s string) any { return s }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	}
	if null {
		kinds = append(kinds, rapid.Just[any](nil))
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.Map(objects(depth-1, null), func(o object) any { return o }),
			rapid.Map(rapid.SliceOfN(values(depth-1, true), 0, 3), func(l []any) any { return l }))
	}
	return rapid.OneOf(kinds...)
}

func objects(depth int, null bool) *rapid.Generator[object] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "on"}), values(depth, null), 0, 4)
}

// holds reports whether a document has everything that is desired.
func holds(document, desired object) bool {
	for name, wanted := range desired {
		found, there := document[name]
		inner, nested := wanted.(object)
		if outer, ok := found.(object); nested && ok {
			if !holds(outer, inner) {
				return false
			}
		} else if !there || !same(found, wanted) {
			return false
		}
	}
	return true
}

func TestAnAppliedDeltaIsWhatWasDesired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired, reported := objects(3, false).Draw(t, "desired"), objects(3, false).Draw(t, "reported")
		before := string(render(reported))
		delta := difference(desired, reported)
		after := merge(reported, delta)
		if !holds(after, desired) {
			t.Errorf("with %s it is %s", render(delta), render(after))
		}
		if left := difference(desired, after); len(left) > 0 {
			t.Errorf("%s is left", render(left))
		}
		for name := range reported {
			if _, wanted := desired[name]; !wanted && !same(after[name], reported[name]) {
				t.Errorf("%s was changed, which nobody desired", name)
			}
		}
		if again := merge(after, delta); !same(again, after) {
			t.Errorf("applied twice it is %s, once %s", render(again), render(after))
		}
		if string(render(reported)) != before {
			t.Error("the reported document was changed")
		}
	})
}

func TestAPatchTwiceIsAPatchOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		document, patch := objects(3, false).Draw(t, "document"), objects(3, true).Draw(t, "patch")
		once := merge(document, patch)
		if twice := merge(once, patch); !same(twice, once) {
			t.Errorf("%s, then %s", render(once), render(twice))
		}
		if nulls(once) {
			t.Errorf("%s has a null", render(once))
		}
		read, err := parse(render(once))
		if err != nil || !same(read, once) || !bytes.Equal(render(read), render(once)) {
			t.Errorf("%s is read as %s: %v", render(once), render(read), err)
		}
	})
}

// nulls reports whether a member of an object, not in an array, is nil.
func nulls(o object) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(o)), func(v any) bool {
		inner, ok := v.(object)
		return v == nil || ok && nulls(inner)
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":{"b":[1,null,"x"]}}`, `[1]`, `{"a":1e999}`, `{"a":1}x`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parse(text)
		if err != nil {
			return
		}
		if depthOf(o) > MaxDepth || len(text) > MaxBytes {
			t.Fatal("a bound is not kept")
		}
		if left := difference(o, merge(object{}, o)); len(left) > 0 && !nulls(o) {
			t.Fatalf("%s is left of %s", render(left), text)
		}
	})
}

func FuzzSameNumber(f *testing.F) {
	f.Add("21", "21.0")
	f.Add("1e5", "100000")
	f.Add("-0", "0")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) || !number(a) || !number(b) {
			return
		}
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		equal := same(json.Number(a), json.Number(b))
		if equal && errX == nil && errY == nil && x != y {
			t.Fatalf("%s and %s are not the same", a, b)
		}
		if len(a) < 15 && len(b) < 15 && errX == nil && errY == nil && !equal && x == y && x != 0 {
			t.Fatalf("%s and %s are the same", a, b)
		}
		if !same(json.Number(a), json.Number(a)) || equal != same(json.Number(b), json.Number(a)) {
			t.Fatalf("%s and %s are not compared fairly", a, b)
		}
	})
}

func number(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9')
}
