package wire

import "testing"

func TestArgumentsAreKeptToTheByte(t *testing.T) {
	for written, want := range map[string]struct{ args, raw string }{
		``:                   {`{}`, ``},
		` `:                  {`{}`, ``},
		`{"a": 1}`:           {`{"a": 1}`, ``},
		"{\"a\": 1,\"a\":2}": {`{"a": 1,"a":2}`, ``},
		"\n{\"a\": 1} ":      {`{"a": 1}`, "\n{\"a\": 1} "},
		`{"a": 1,}`:          {``, `{"a": 1,}`},
		`[1]`:                {``, `[1]`},
		`a`:                  {``, `a`},
	} {
		if c := NewCall("1", "f", written); string(c.Args) != want.args || c.Raw != want.raw {
			t.Errorf("%q is kept as %s and %q", written, c.Args, c.Raw)
		}
	}
}
