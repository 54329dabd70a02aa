package template

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A filter is a function of values, the first of which is the filtered one.
type filter struct {
	apply     func(args []any) (any, error)
	fewest    int // arguments, the first included
	most      int
	undefined bool // takes undefined values
}

// filters are the supported filters. Their results are those of Home Assistant,
// whose round without digits makes a whole number.
var filters map[string]filter

func init() {
	filters = map[string]filter{
		"round":      {round, 1, 3, false},
		"int":        {toInt, 1, 2, true},
		"float":      {toFloat, 1, 2, true},
		"default":    {orDefault, 1, 3, true},
		"d":          {orDefault, 1, 3, true},
		"iif":        {iif, 1, 3, true},
		"bool":       {toBool, 1, 2, true},
		"abs":        {func(a []any) (any, error) { return math1(a[0], math.Abs) }, 1, 1, false},
		"min":        {func(a []any) (any, error) { return extreme(a, "<") }, 1, 16, false},
		"max":        {func(a []any) (any, error) { return extreme(a, ">") }, 1, 16, false},
		"multiply":   {func(a []any) (any, error) { return calculate("*", a[0], a[1]) }, 2, 2, false},
		"add":        {func(a []any) (any, error) { return calculate("+", a[0], a[1]) }, 2, 2, false},
		"lower":      {texts(strings.ToLower), 1, 1, false},
		"upper":      {texts(strings.ToUpper), 1, 1, false},
		"trim":       {texts(strings.TrimSpace), 1, 1, false},
		"string":     {func(a []any) (any, error) { return show(a[0]) }, 1, 1, false},
		"length":     {length, 1, 1, false},
		"count":      {length, 1, 1, false},
		"first":      {func(a []any) (any, error) { return within(a[0], int64(0)) }, 1, 1, false},
		"last":       {func(a []any) (any, error) { return within(a[0], int64(-1)) }, 1, 1, false},
		"replace":    {replace, 3, 3, false},
		"split":      {split, 1, 2, false},
		"startswith": {func(a []any) (any, error) { return texts2(a, strings.HasPrefix) }, 2, 2, false},
		"endswith":   {func(a []any) (any, error) { return texts2(a, strings.HasSuffix) }, 2, 2, false},
		"get":        {get, 2, 3, true},
		"tojson":     {func(a []any) (any, error) { return writeJSON(a[0], MaxOutput) }, 1, 1, false},
		"to_json":    {func(a []any) (any, error) { return writeJSON(a[0], MaxOutput) }, 1, 1, false},
		"from_json":  {fromJSON, 1, 1, false},
		"is_number":  {func(a []any) (any, error) { _, ok := asFloat(a[0]); return ok, nil }, 1, 1, true},
	}
}

// methods are the filters that values have as methods.
var methods = map[string]string{
	"lower": "lower", "upper": "upper", "strip": "trim", "split": "split", "replace": "replace", "get": "get",
	"startswith": "startswith", "endswith": "endswith",
}

// functions are the filters that may be called as functions, with the filtered value in
// brackets.
var functions = map[string]bool{
	"int": true, "float": true, "bool": true, "min": true, "max": true, "abs": true, "iif": true, "is_number": true,
}

// An application is a filter with its arguments.
type application struct {
	filter
	name string
	args []expr
}

func call(name string, args []expr) (expr, error) {
	f := filters[name]
	if len(args) < f.fewest || len(args) > f.most {
		return nil, fmt.Errorf("%s does not take %d arguments", name, len(args))
	}
	return application{f, name, args}, nil
}

func (a application) eval(e *env) (any, error) {
	values := make([]any, len(a.args))
	for i, arg := range a.args {
		v, err := e.value(arg)
		if err != nil {
			return nil, err
		}
		if v == undefined && !a.undefined {
			return nil, fmt.Errorf("%s: the value %w", a.name, ErrUndefined)
		}
		values[i] = v
	}
	v, err := a.apply(values)
	if err != nil {
		if spent := e.budget.take(MaxOutput / bytesPerStep); spent != nil { // it may have got far
			return nil, spent
		}
		return nil, fmt.Errorf("%s: %w", a.name, err)
	}
	if s, ok := v.(string); ok && len(s) > MaxOutput {
		return nil, tooLong()
	}
	return v, nil
}

func round(a []any) (any, error) {
	f, ok := asFloat(a[0])
	if !ok {
		return nil, notNumber(a[0])
	}
	digits := int64(0)
	if len(a) > 1 {
		if digits, ok = a[1].(int64); !ok || digits < 0 || digits > 15 {
			return nil, fmt.Errorf("digits must be between 0 and 15")
		}
	}
	how := math.RoundToEven
	if len(a) > 2 {
		switch a[2] {
		case "floor":
			how = math.Floor
		case "ceil":
			how = math.Ceil
		case "common":
		default:
			return nil, fmt.Errorf("%v is not understood", a[2])
		}
	}
	power := math.Pow10(int(digits))
	f = how(f*power) / power
	if digits == 0 && math.Abs(f) < 1<<53 {
		return int64(f), nil
	}
	return finite(f)
}

// asFloat is a number, or a text that is one.
func asFloat(v any) (float64, bool) {
	if s, ok := v.(string); ok {
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	if b, ok := v.(bool); ok {
		if b {
			return 1, true
		}
		return 0, true
	}
	return float(v)
}

func notNumber(v any) error {
	if v == undefined {
		return fmt.Errorf("the value %w", ErrUndefined)
	}
	return fmt.Errorf("%s is not a number", kindOf(v))
}

func toInt(a []any) (any, error) {
	if i, ok := a[0].(int64); ok {
		return i, nil
	}
	f, ok := asFloat(a[0])
	switch {
	case ok && math.Abs(f) < 1<<62:
		return int64(math.Trunc(f)), nil
	case len(a) > 1:
		return a[1], nil
	}
	return nil, notNumber(a[0])
}

func toFloat(a []any) (any, error) {
	f, ok := asFloat(a[0])
	switch {
	case ok:
		return f, nil
	case len(a) > 1:
		return a[1], nil
	}
	return nil, notNumber(a[0])
}

func toBool(a []any) (any, error) {
	s, _ := a[0].(string)
	switch s = strings.ToLower(s); {
	case a[0] == true || s == "true" || s == "yes" || s == "on" || s == "enable" || s == "1" || a[0] == int64(1):
		return true, nil
	case a[0] == false || s == "false" || s == "no" || s == "off" || s == "disable" || s == "0" || a[0] == int64(0):
		return false, nil
	case len(a) > 1:
		return a[1], nil
	}
	return nil, fmt.Errorf("%s is neither true nor false", kindOf(a[0]))
}

func orDefault(a []any) (any, error) {
	falsy := len(a) > 2 && truth(a[2])
	switch {
	case a[0] != undefined && (!falsy || truth(a[0])):
		return a[0], nil
	case len(a) > 1:
		return a[1], nil
	}
	return "", nil
}

func iif(a []any) (any, error) {
	switch {
	case truth(a[0]) && len(a) > 1:
		return a[1], nil
	case truth(a[0]):
		return true, nil
	case len(a) > 2:
		return a[2], nil
	}
	return false, nil
}

func math1(v any, f func(float64) float64) (any, error) {
	n, ok := float(v)
	if !ok {
		return nil, notNumber(v)
	}
	if i, whole := v.(int64); whole && math.Abs(n) < 1<<53 {
		return int64(f(float64(i))), nil
	}
	return finite(f(n))
}

func extreme(a []any, operator string) (any, error) {
	if list, ok := a[0].([]any); ok && len(a) == 1 {
		a = list
	}
	if len(a) == 0 {
		return undefined, nil
	}
	best := a[0]
	for _, v := range a[1:] {
		better, err := ordered(operator, v, best)
		if err != nil {
			return nil, err
		}
		if better == true {
			best = v
		}
	}
	return best, nil
}

func texts(f func(string) string) func([]any) (any, error) {
	return func(a []any) (any, error) {
		s, err := show(a[0])
		return f(s), err
	}
}

func texts2(a []any, f func(s, t string) bool) (any, error) {
	s, ok1 := a[0].(string)
	t, ok2 := a[1].(string)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("needs texts")
	}
	return f(s, t), nil
}

func length(a []any) (any, error) {
	switch v := a[0].(type) {
	case string:
		return int64(len([]rune(v))), nil
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	}
	return nil, fmt.Errorf("%s has no length", kindOf(a[0]))
}

func replace(a []any) (any, error) {
	var s [3]string
	for i := range s {
		var err error
		if s[i], err = show(a[i]); err != nil {
			return nil, err
		}
	}
	if len(s[0])+strings.Count(s[0], s[1])*len(s[2]) > MaxOutput {
		return nil, tooLong()
	}
	return strings.ReplaceAll(s[0], s[1], s[2]), nil
}

func split(a []any) (any, error) {
	s, ok := a[0].(string)
	if !ok {
		return nil, fmt.Errorf("%s cannot be split", kindOf(a[0]))
	}
	parts := strings.Fields(s)
	if len(a) > 1 {
		separator, ok := a[1].(string)
		if !ok || separator == "" {
			return nil, fmt.Errorf("needs a text to split at")
		}
		parts = strings.Split(s, separator)
	}
	list := make([]any, len(parts))
	for i, p := range parts {
		list[i] = p
	}
	return list, nil
}

func get(a []any) (any, error) {
	v, err := within(a[0], a[1])
	if err == nil && v == undefined {
		v = nil
		if len(a) > 2 {
			v = a[2]
		}
	}
	return v, err
}

func fromJSON(a []any) (any, error) {
	s, ok := a[0].(string)
	if !ok {
		return nil, fmt.Errorf("%s is not a text", kindOf(a[0]))
	}
	return FromJSON([]byte(s))
}
