package main

import "testing"

func TestFlagsSayHowACallIsSealed(t *testing.T) {
	for _, c := range []struct {
		flags  seal
		sealed bool
		wrong  bool
	}{
		{flags: seal{}},
		{flags: seal{on: true}, sealed: true},
		{flags: seal{key: "AAAA"}, sealed: true},
		{flags: seal{key: "???"}, wrong: true},
		{flags: seal{key: "AAAA", roots: "x"}, wrong: true},
		{flags: seal{roots: "seal_test.go"}, wrong: true},
		{flags: seal{roots: "not there"}, wrong: true},
	} {
		options, err := c.flags.options()
		if (err != nil) != c.wrong || (len(options) > 0) != c.sealed {
			t.Errorf("%+v: %d options, %v", c.flags, len(options), err)
		}
	}
}
