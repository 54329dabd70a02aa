package gotemplate

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"text/template/parse"
	"unicode"
	"unicode/utf8"
)

// A function of templates, with the bounds of how many arguments it takes.
type function struct {
	least, most int
	call        func(args []reflect.Value) (any, error)
}

// many is the bound of functions that take any number of arguments.
const many = int(^uint(0) >> 1)

// functions are those of text/template, by their names, without call. Both operators
// that may not need all of their arguments are in [execution.call].
var functions = map[string]function{
	"and": {1, many, nil},
	"or":  {1, many, nil},
	"not": {1, 1, func(args []reflect.Value) (any, error) { return !truth(args[0]), nil }},

	"len":   {1, 1, length},
	"index": {1, many, index},
	"slice": {1, 4, slice},

	"eq": {2, many, equal},
	"ne": {2, 2, func(args []reflect.Value) (any, error) {
		same, err := equal(args)
		return same != true, err
	}},
	"lt": {2, 2, ordered(func(order int) bool { return order < 0 })},
	"le": {2, 2, ordered(func(order int) bool { return order <= 0 })},
	"gt": {2, 2, ordered(func(order int) bool { return order > 0 })},
	"ge": {2, 2, ordered(func(order int) bool { return order >= 0 })},

	"print":   {0, many, func(args []reflect.Value) (any, error) { return fmt.Sprint(plain(args)...), nil }},
	"println": {0, many, func(args []reflect.Value) (any, error) { return fmt.Sprintln(plain(args)...), nil }},
	"printf":  {1, many, format},

	"html":     {0, many, func(args []reflect.Value) (any, error) { return escapeHTML(written(args)), nil }},
	"js":       {0, many, func(args []reflect.Value) (any, error) { return escapeJS(written(args)), nil }},
	"urlquery": {0, many, func(args []reflect.Value) (any, error) { return url.QueryEscape(written(args)), nil }},
}

// names are the functions as the parser asks for them.
var names = func() map[string]any {
	all := make(map[string]any)
	for name, f := range functions {
		all[name] = f
	}
	return all
}()

// call is what a function gives for words of a command and the value of the command
// before.
func (e *execution) call(dot reflect.Value, name *parse.IdentifierNode, words []parse.Node, before []reflect.Value) (reflect.Value, error) {
	f := functions[name.Ident]
	switch count := len(words) + len(before); {
	case count < f.least:
		return none, e.fault(name, "wrong number of args for %s: want at least %d got %d", name.Ident, f.least, count)
	case count > f.most:
		return none, e.fault(name, "wrong number of args for %s: want at most %d got %d", name.Ident, f.most, count)
	}
	var args []reflect.Value
	for _, word := range words {
		arg, err := e.operand(dot, word)
		if err != nil {
			return none, err
		}
		if f.call == nil && truth(arg) == (name.Ident == "or") {
			return arg, nil // whatever the others are
		}
		args = append(args, inside(arg))
	}
	args = append(args, before...)
	if f.call == nil {
		return args[len(args)-1], nil
	}
	result, err := f.call(args)
	if err != nil {
		return none, e.fault(name, "error calling %s: %w", name.Ident, err)
	}
	if value, ok := result.(reflect.Value); ok {
		return value, nil
	}
	return reflect.ValueOf(result), nil
}

// plain are arguments as package fmt takes them.
func plain(args []reflect.Value) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		if arg.IsValid() {
			list[i] = arg.Interface()
		}
	}
	return list
}

// format is printf.
func format(args []reflect.Value) (any, error) {
	if args[0].Kind() != reflect.String {
		return nil, errors.New("the format is no string")
	}
	return fmt.Sprintf(args[0].String(), plain(args[1:])...), nil
}

// written is the text of arguments, each as an action writes it.
func written(args []reflect.Value) string {
	list := plain(args)
	for i, arg := range args {
		if shown, ok := printable(arg); ok {
			list[i] = shown
		}
	}
	return fmt.Sprint(list...)
}

func length(args []reflect.Value) (any, error) {
	value, isNil := behind(args[0])
	switch {
	case isNil:
		return nil, errors.New("len of nil pointer")
	case !value.IsValid():
		return nil, errors.New("len of untyped nil")
	}
	switch value.Kind() {
	case reflect.Array, reflect.Chan, reflect.Map, reflect.Slice, reflect.String:
		return value.Len(), nil
	}
	return nil, fmt.Errorf("len of type %s", value.Type())
}

// index is x[1][2] for the arguments x, 1 and 2.
func index(args []reflect.Value) (any, error) {
	value := args[0]
	if !value.IsValid() {
		return nil, errors.New("index of untyped nil")
	}
	for _, at := range args[1:] {
		var isNil bool
		if value, isNil = behind(value); isNil {
			return nil, errors.New("index of nil pointer")
		}
		switch value.Kind() {
		case reflect.Array, reflect.Slice, reflect.String:
			i, err := position(at, value.Len()-1)
			if err != nil {
				return nil, err
			}
			value = value.Index(i)
		case reflect.Map:
			key, err := keyFor(at, value.Type().Key())
			if err != nil {
				return nil, err
			}
			element := value.MapIndex(key)
			if !element.IsValid() {
				element = reflect.Zero(value.Type().Elem())
			}
			value = element
		default:
			return nil, fmt.Errorf("can't index item of type %s", value.Type())
		}
	}
	return value, nil
}

// position is an index from 0 to most.
func position(at reflect.Value, most int) (int, error) {
	switch {
	case !at.IsValid():
		return 0, errors.New("cannot index slice/array with nil")
	case at.CanInt() && at.Int() >= 0 && at.Int() <= int64(most):
		return int(at.Int()), nil
	case at.CanUint() && most >= 0 && at.Uint() <= uint64(most):
		return int(at.Uint()), nil //nolint:gosec // it is at most an int
	case at.CanInt() || at.CanUint():
		return 0, fmt.Errorf("index out of range: %v", at)
	}
	return 0, fmt.Errorf("cannot index slice/array with type %s", at.Type())
}

// keyFor is a value as the key of a map.
func keyFor(value reflect.Value, typ reflect.Type) (reflect.Value, error) {
	numbers := value.CanInt() || value.CanUint()
	forNumbers := reflect.Zero(typ).CanInt() || reflect.Zero(typ).CanUint()
	switch {
	case !value.IsValid():
		return none, fmt.Errorf("value is nil; should be of type %s", typ)
	case value.Type().AssignableTo(typ):
		return value, nil
	case numbers && forNumbers, value.Kind() == reflect.String && typ.Kind() == reflect.String:
		return value.Convert(typ), nil
	}
	return none, fmt.Errorf("value has type %s; should be %s", value.Type(), typ)
}

// slice is x[1:2:3] for the arguments x, 1, 2 and 3, of which the last may be absent.
func slice(args []reflect.Value) (any, error) {
	if !args[0].IsValid() {
		return nil, errors.New("slice of untyped nil")
	}
	value, isNil := behind(args[0])
	most := 0
	switch {
	case isNil:
		return nil, errors.New("slice of nil pointer")
	case value.Kind() == reflect.String && len(args) == 4:
		return nil, errors.New("cannot 3-index slice a string")
	case value.Kind() == reflect.String:
		most = value.Len()
	case value.Kind() == reflect.Slice, value.Kind() == reflect.Array && value.CanAddr():
		most = value.Cap()
	default:
		return nil, fmt.Errorf("can't slice item of type %s", value.Type())
	}
	bounds := [3]int{0, value.Len(), most}
	for i, at := range args[1:] {
		bound, err := position(at, most)
		if err != nil {
			return nil, err
		}
		bounds[i] = bound
	}
	switch {
	case bounds[0] > bounds[1] || bounds[1] > bounds[2]:
		return nil, fmt.Errorf("invalid slice index: %v", bounds[:len(args)-1])
	case len(args) == 4:
		return value.Slice3(bounds[0], bounds[1], bounds[2]), nil
	}
	return value.Slice(bounds[0], bounds[1]), nil
}

// escapeHTML is a text as HTML has it between elements and within quotes.
func escapeHTML(text string) string { return htmlReplacer.Replace(text) }

var htmlReplacer = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "'", "&#39;", "&", "&amp;", "<", "&lt;", ">", "&gt;")

// escapeJS is a text as JavaScript has it within quotes.
func escapeJS(text string) string {
	var out strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case strings.ContainsRune(`\'"`, r):
			out.WriteString(`\` + string(r))
		case r < ' ', strings.ContainsRune("<>&=", r), r >= utf8.RuneSelf && !unicode.IsPrint(r):
			fmt.Fprintf(&out, `\u%04X`, r)
		default: // bytes that are no text, too
			out.WriteString(text[:size])
		}
		text = text[size:]
	}
	return out.String()
}
