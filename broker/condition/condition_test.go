package condition

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aibridge/aibridge/broker/packet"
)

func properties(pairs ...string) (users []packet.UserProperty) {
	for i := 0; i < len(pairs); i += 2 {
		users = append(users, packet.UserProperty{Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	return users
}

func of(users []packet.UserProperty) *Properties {
	p := new(Properties)
	p.Of(users)
	return p
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, plain, text string
		ok                  bool
	}{
		{"a/b", "a/b", "", false},
		{"a/+?x=1", "a/+", "x=1", true},
		{"a?x=a/b?c", "a", "x=a/b?c", true},
		{"?x=1", "", "x=1", true},
		{"a?", "a", "", true},
		{"$share/g/a?x=1", "$share/g/a", "x=1", true},
		{"$share/what?/a", "$share/what?/a", "", false},
		{"$share/what?/a?x=1", "$share/what?/a", "x=1", true},
		{"$share/g?x", "$share/g", "x", true}, // malformed with and without it
	} {
		if plain, text, ok := Split(c.filter); plain != c.plain || text != c.text || ok != c.ok {
			t.Errorf("%q: %q %q %v", c.filter, plain, text, ok)
		}
	}
}

func TestConditionsAreHeldAgainstUserProperties(t *testing.T) {
	t.Parallel()
	users := properties("location", "hall", "value", "25.5", "tag", "a", "tag", "b", "empty", "", "at", "1764307200000000001", "note", "50% & more", "odd=key", "x")
	for text, want := range map[string]bool{
		"location=hall":                     true,
		"location=Hall":                     false,
		" location = hall ":                 true,
		"location=hall&value>25":            true,
		"location=hall&value>26":            false,
		"missing=1":                         false,
		"missing!=1":                        true,
		"missing<1":                         false,
		"location!=hall":                    false,
		"location!=yard":                    true,
		"tag=a":                             true,
		"tag=b":                             true,
		"tag!=b":                            false, // one of them is b
		"value>=25.5":                       true,
		"value<=25.5":                       true,
		"value<25.5":                        false,
		"value>2.5e1":                       true,
		"value>-1":                          true,
		"location>1":                        false, // is no number
		"empty<1":                           false,
		"at>1764307200000000000":            true, // floats could not tell
		"at<=1764307200000000000":           false,
		"note=50%25 %26 more":               true,
		"odd%3Dkey=x":                       true,
		"value=25.50":                       false, // equality is of text
		"location=hall?":                    false,
		"tag=a&tag=b":                       true,
		"location=h%61ll&location!=%3Dhall": true,
	} {
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := c.Holds(of(users)); got != want {
			t.Errorf("%q holds: %v", text, got)
		}
	}
}

func TestBadConditionsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  `"" in the condition has none of the operators`,
		"a":                                 `"a" in the condition has none of the operators`,
		"a=1&":                              `"" in the condition has none`,
		"=1":                                `"=1" in the condition names no user property`,
		"a=":                                `"a=" in the condition has no value`,
		"a!1":                               `"a!1" in the condition has a ! without =`,
		"a==1":                              `"a==1" in the condition has two operators`,
		"a=>1":                              `"a=>1" in the condition has two operators`,
		"a>hot":                             `"a>hot" in the condition compares with "hot", which is no number`,
		"a>0x10":                            `no number`,
		"a<inf":                             `no number`,
		"a<1e999":                           `no number`,
		"a=5%":                              `a % is followed by two hexadecimal digits`,
		"a=%zz":                             `a % is followed by two hexadecimal digits`,
		"a=%+1":                             `a % is followed by two hexadecimal digits`,
		strings.Repeat("a=1&", 16) + "a=1":  `17 comparisons, more than 16`,
		"a=" + strings.Repeat("x", Longest): `1026 bytes, more than 1024`,
		"a=1&location>" + strings.Repeat("9", 65): `no number`,
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestOnlyTheFirstPropertiesAreLookedAt(t *testing.T) {
	t.Parallel()
	c, err := Parse("last=1")
	if err != nil {
		t.Fatal(err)
	}
	users := make([]packet.UserProperty, MostProperties-1)
	if users = append(users, properties("last", "1")...); !c.Holds(of(users)) {
		t.Error("the 64th does not count")
	}
	if users = append(users[:MostProperties-1:MostProperties-1], properties("first", "", "last", "1")...); c.Holds(of(users)) {
		t.Error("the 65th counts")
	}
}

// A value is read as a number once, whatever the number of conditions.
func TestAValueIsReadOnce(t *testing.T) {
	t.Parallel()
	users := properties("v", "1", "v", "none", "v", " 2.5 ")
	p := of(users)
	for text, want := range map[string]bool{"v>2": true, "v>3": false, "v<=1": true, "v>2&v<2": true, "v<1": false} {
		c, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if c.Holds(p) != want {
				t.Errorf("%s: %v", text, !want)
			}
		}
	}
	for _, u := range users { // were they read again, no condition would hold
		copy(u.Value, "xxxxx")
	}
	if c, err := Parse("v>2"); err != nil || !c.Holds(p) {
		t.Errorf("it is read again: %v", err)
	}
	if p.Of(properties("v", "1")); p.values[0].read {
		t.Error("the values of the message before count")
	}
}

// BenchmarkHoldsTheWorst has as much work as one condition and one message can make.
func BenchmarkHoldsTheWorst(b *testing.B) {
	c, err := Parse(strings.Repeat("v>0&", MostComparisons-1) + "v<-9e99")
	if err != nil {
		b.Fatal(err)
	}
	var pairs []string
	for range MostProperties - 1 {
		pairs = append(pairs, "v", "-1.2345678901234567890123456789012345678901234567890123456e-10")
	}
	p := of(properties(append(pairs, "v", "1")...))
	for b.Loop() {
		if c.Holds(p) {
			b.Fatal("holds")
		}
	}
}

func BenchmarkHolds(b *testing.B) {
	c, err := Parse("location=hall&value>25")
	if err != nil {
		b.Fatal(err)
	}
	users := properties("unit", "celsius", "location", "hall", "value", "25.5")
	p := new(Properties)
	b.ReportAllocs()
	for b.Loop() {
		if p.Of(users); !c.Holds(p) {
			b.Fatal("does not hold")
		}
	}
}

// Whatever stands in a property can be asked for, and nothing makes a condition fail.
func FuzzCondition(f *testing.F) {
	for _, seed := range []string{"a=1", "a!=1&b<2", "a>=1e3", "a=%26", "a=>", "&&", "%=%", "a<=-0.5&b>.5"} {
		f.Add(seed, "a", "1")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		users := properties(key, value)
		if c, err := Parse(text); err == nil {
			c.Holds(of(users))
			if n := len(c.all); n == 0 || n > MostComparisons {
				t.Errorf("%q has %d comparisons", text, n)
			}
		} else if utf8.ValidString(text) && !utf8.ValidString(err.Error()) {
			t.Errorf("%q is refused with %q", text, err)
		}
		if key == "" || value == "" || len(key)+len(value) > Longest/3-1 {
			return
		}
		escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
		for by, want := range map[string]bool{"=": true, "!=": false} {
			c, err := Parse(fmt.Sprint(escape(key), by, escape(value)))
			if err != nil {
				t.Fatalf("%q %q: %v", key, value, err)
			}
			if c.Holds(of(users)) != want {
				t.Errorf("%q %s %q: %v", key, by, value, !want)
			}
		}
	})
}
