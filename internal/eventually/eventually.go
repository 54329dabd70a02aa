// Package eventually waits in tests for things that happen by themselves.
package eventually

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Patience bounds every wait. Nothing comes near it unless it fails: a test does
// not depend on the pace of the machine.
const Patience = 3 * time.Minute

// pace is the time that a poll pauses.
const pace = 2 * time.Millisecond

// T is the part of [testing.TB] that a wait needs; rapid's T has it too.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Holds waits until the condition holds, and fails the test when [Patience] is at
// an end: what names the missing condition. saw are pointers to values that the
// condition saw last, or functions that return them.
func Holds(t T, what string, condition func() bool, saw ...any) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !condition(); time.Sleep(pace) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s%s", what, last(saw))
		}
	}
}

func last(saw []any) string {
	var b strings.Builder
	for _, s := range saw {
		if tell, ok := s.(func() any); ok {
			s = tell()
		}
		fmt.Fprintf(&b, "; last seen: %+v", reflect.Indirect(reflect.ValueOf(s)))
	}
	return b.String()
}
