package gotemplate

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
)

var (
	errBadComparison = errors.New("invalid type for comparison")
	errIncompatible  = errors.New("incompatible types for comparison")
)

// equal reports whether the first of its arguments equals one of the others.
func equal(args []reflect.Value) (any, error) {
	for _, other := range args[1:] {
		same, err := equals(args[0], other)
		if same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func equals(a, b reflect.Value) (bool, error) {
	if order, err := compare(a, b); err == nil {
		return order == 0, nil
	}
	switch {
	case a.Kind() == reflect.Bool && b.Kind() == reflect.Bool:
		return a.Bool() == b.Bool(), nil
	case a.CanComplex() && b.CanComplex():
		return a.Complex() == b.Complex(), nil
	case isNil(a) || isNil(b):
		return isNil(a) && isNil(b), nil
	case isBasic(a) || isBasic(b) || a.Kind() != b.Kind():
		return false, fmt.Errorf("%w: %s and %s", errIncompatible, a.Type(), b.Type())
	case !a.Comparable() || !b.Comparable():
		return false, fmt.Errorf("non-comparable types %s and %s", a.Type(), b.Type())
	}
	return a.Equal(b), nil
}

// isNil reports whether a value is not there or nil.
func isNil(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Chan, reflect.Func, reflect.Map, reflect.Pointer, reflect.Slice:
		return value.IsNil()
	}
	return false
}

// isBasic reports whether a value is a boolean, a number or a string.
func isBasic(value reflect.Value) bool {
	return value.Kind() == reflect.Bool || value.Kind() == reflect.String || value.CanInt() || value.CanUint() || value.CanFloat() || value.CanComplex()
}

// ordered is a function that compares two arguments.
func ordered(holds func(order int) bool) func(args []reflect.Value) (any, error) {
	return func(args []reflect.Value) (any, error) {
		order, err := compare(args[0], args[1])
		return err == nil && holds(order), err
	}
}

// compare orders two strings or two numbers of a kind: with or without a sign, or with
// a fraction.
func compare(a, b reflect.Value) (int, error) {
	switch {
	case a.CanInt() && b.CanInt():
		return cmp.Compare(a.Int(), b.Int()), nil
	case a.CanUint() && b.CanUint():
		return cmp.Compare(a.Uint(), b.Uint()), nil
	case a.CanInt() && b.CanUint():
		return compareSigned(a, b), nil
	case a.CanUint() && b.CanInt():
		return -compareSigned(b, a), nil
	case a.CanFloat() && b.CanFloat():
		return cmp.Compare(a.Float(), b.Float()), nil
	case a.Kind() == reflect.String && b.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String()), nil
	case isBasic(a) && isBasic(b) && a.Kind() != b.Kind():
		return 0, errIncompatible
	}
	return 0, errBadComparison
}

// compareSigned orders a number with a sign and one without.
func compareSigned(signed, unsigned reflect.Value) int {
	if signed.Int() < 0 {
		return -1
	}
	return cmp.Compare(uint64(signed.Int()), unsigned.Uint()) //nolint:gosec // it is not negative
}
