package template

import (
	"fmt"
	"math"
	"strings"
)

// undefined is the value of a missing variable or member.
var undefined any = missing{}

type missing struct{}

// An env has the variables of one evaluation.
type env struct {
	vars   Vars
	set    map[string]any               // by the template itself
	encode func(string) (string, error) // encodes the values that are put into the text
	budget *Budget
}

func newEnv(vars Vars, b *Budget) *env {
	return &env{vars: vars, set: map[string]any{}, encode: asItIs, budget: b}
}

func asItIs(s string) (string, error) { return s, nil }

// value evaluates an expression, for its steps.
func (e *env) value(x expr) (any, error) {
	v, err := x.eval(e)
	if err != nil {
		return nil, err
	}
	return v, e.budget.spend(v)
}

// An expr is an expression.
type expr interface {
	eval(e *env) (any, error)
}

type literal struct{ value any }

func (l literal) eval(*env) (any, error) { return l.value, nil }

type variable string

func (v variable) eval(e *env) (any, error) {
	if value, ok := e.set[string(v)]; ok {
		return value, nil
	}
	if value, ok := e.vars[string(v)]; ok {
		return value, nil
	}
	return undefined, nil
}

type listOf []expr

func (l listOf) eval(e *env) (any, error) {
	list := make([]any, len(l))
	for i, item := range l {
		v, err := e.value(item)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

// A dictionary is made of keys and values. Its keys are texts; None is the text
// "None", as the keys of JSON are texts too.
type dictionary [][2]expr

func (d dictionary) eval(e *env) (any, error) {
	m := make(map[string]any, len(d))
	for _, pair := range d {
		key, err := e.value(pair[0])
		if err != nil {
			return nil, err
		}
		value, err := e.value(pair[1])
		if err != nil {
			return nil, err
		}
		name, err := show(key)
		if err != nil {
			return nil, err
		}
		m[name] = value
	}
	return m, nil
}

// A member is value.name or value[key].
type member struct{ of, key expr }

func (m member) eval(e *env) (any, error) {
	of, err := e.value(m.of)
	if err != nil {
		return nil, err
	}
	key, err := e.value(m.key)
	if err != nil {
		return nil, err
	}
	return within(of, key)
}

func within(of, key any) (any, error) {
	switch of := of.(type) {
	case map[string]any:
		if key == undefined {
			return undefined, nil
		}
		name, err := show(key)
		if err != nil {
			return nil, err
		}
		if v, ok := of[name]; ok {
			return v, nil
		}
	case []any:
		if i, ok := index(key, len(of)); ok {
			return of[i], nil
		}
	case string:
		runes := []rune(of)
		if i, ok := index(key, len(runes)); ok {
			return string(runes[i]), nil
		}
	}
	return undefined, nil
}

// index is the place in a list; negative ones count from its end.
func index(key any, n int) (int, bool) {
	i, ok := key.(int64)
	if ok && i < 0 {
		i += int64(n)
	}
	return int(i), ok && i >= 0 && i < int64(n)
}

type either struct{ when, then, otherwise expr }

func (c either) eval(e *env) (any, error) {
	v, err := e.value(c.when)
	switch {
	case err != nil:
		return nil, err
	case truth(v):
		return e.value(c.then)
	}
	return e.value(c.otherwise)
}

type negation struct{ of expr }

func (n negation) eval(e *env) (any, error) {
	v, err := e.value(n.of)
	return !truth(v), err
}

// A test is value is name.
type test struct {
	of   expr
	name string
	not  bool
}

var tests = map[string]func(any) bool{
	"defined":   func(v any) bool { return v != undefined },
	"undefined": func(v any) bool { return v == undefined },
	"none":      func(v any) bool { return v == nil },
	"number":    func(v any) bool { _, ok := float(v); return ok },
	"string":    func(v any) bool { _, ok := v.(string); return ok },
	"boolean":   func(v any) bool { _, ok := v.(bool); return ok },
	"true":      func(v any) bool { return v == true },
	"false":     func(v any) bool { return v == false },
}

func knownTest(name string) bool { return tests[name] != nil }

func (t test) eval(e *env) (any, error) {
	v, err := e.value(t.of)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(map[string]any); ok && t.name != "defined" && t.name != "undefined" {
		return t.not, nil
	}
	if _, ok := v.([]any); ok && t.name != "defined" && t.name != "undefined" {
		return t.not, nil
	}
	return tests[t.name](v) != t.not, nil
}

// An operation has two sides.
type operation struct {
	operator    string
	left, right expr
}

func (o operation) eval(e *env) (any, error) {
	left, err := e.value(o.left)
	if err != nil {
		return nil, err
	}
	switch o.operator { // which need not look at the right side
	case "and":
		if !truth(left) {
			return left, nil
		}
		return e.value(o.right)
	case "or":
		if truth(left) {
			return left, nil
		}
		return e.value(o.right)
	}
	right, err := e.value(o.right)
	if err != nil {
		return nil, err
	}
	switch o.operator {
	case "==":
		return equal(left, right), nil
	case "!=":
		return !equal(left, right), nil
	case "in":
		return contains(right, left)
	case "not in":
		in, err := contains(right, left)
		return !in, err
	case "~":
		return concatenate(left, right)
	case "<", "<=", ">", ">=":
		return ordered(o.operator, left, right)
	}
	if a, ok := left.(string); ok && o.operator == "+" {
		if b, ok := right.(string); ok {
			return concatenate(a, b)
		}
	}
	return calculate(o.operator, left, right)
}

func concatenate(left, right any) (any, error) {
	a, err := show(left)
	if err != nil {
		return nil, err
	}
	b, err := show(right)
	if err != nil {
		return nil, err
	}
	if len(a)+len(b) > MaxOutput {
		return nil, tooLong()
	}
	return a + b, nil
}

// float is a number as such.
func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func equal(a, b any) bool {
	if x, ok := float(a); ok {
		y, ok := float(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case []any, map[string]any:
		return false // no template needs it, and it may be deep
	default:
		switch b.(type) {
		case []any, map[string]any:
			return false
		}
		return a == b
	}
}

func contains(where, what any) (bool, error) {
	switch where := where.(type) {
	case string:
		s, ok := what.(string)
		return ok && strings.Contains(where, s), nil
	case []any:
		for _, item := range where {
			if equal(item, what) {
				return true, nil
			}
		}
		return false, nil
	case map[string]any:
		s, ok := what.(string)
		_, there := where[s]
		return ok && there, nil
	}
	return false, fmt.Errorf("nothing can be in %s", kindOf(where))
}

func ordered(operator string, left, right any) (any, error) {
	order := 0
	if a, ok := left.(string); ok {
		b, ok := right.(string)
		if !ok {
			return nil, mismatch(operator, left, right)
		}
		order = strings.Compare(a, b)
	} else {
		a, ok1 := float(left)
		b, ok2 := float(right)
		if !ok1 || !ok2 {
			return nil, mismatch(operator, left, right)
		}
		switch {
		case a < b:
			order = -1
		case a > b:
			order = 1
		}
	}
	return map[string]bool{"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator], nil
}

func mismatch(operator string, left, right any) error {
	if left == undefined || right == undefined {
		return fmt.Errorf("%s: a side %w", operator, ErrUndefined)
	}
	return fmt.Errorf("%s does not go with %s and %s", operator, kindOf(left), kindOf(right))
}

func calculate(operator string, left, right any) (any, error) {
	a, ok1 := float(left)
	b, ok2 := float(right)
	if !ok1 || !ok2 {
		return nil, mismatch(operator, left, right)
	}
	i, whole1 := left.(int64)
	j, whole2 := right.(int64)
	if b == 0 && (operator == "/" || operator == "//" || operator == "%") {
		return nil, fmt.Errorf("division by zero")
	}
	var result float64
	switch operator {
	case "+":
		result = a + b
	case "-":
		result = a - b
	case "*":
		result = a * b
	case "/":
		return finite(a / b)
	case "//":
		result = math.Floor(a / b)
	case "%":
		result = a - b*math.Floor(a/b)
	}
	if whole1 && whole2 && math.Abs(result) < 1<<53 {
		return exact(operator, i, j, result), nil
	}
	return finite(result)
}

// exact is the result of whole numbers that are small enough for it.
func exact(operator string, i, j int64, result float64) int64 {
	switch operator {
	case "+":
		return i + j
	case "-":
		return i - j
	case "*":
		return i * j
	}
	return int64(result)
}

func finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number is too large")
	}
	return f, nil
}

// True reports whether a value counts as true where a condition is asked for.
func True(v any) bool { return truth(v) }

// truth is a value as a condition.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, missing:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}
