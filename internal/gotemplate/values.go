package gotemplate

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// none is the value of what is not there, such as a key that a map has not.
var none reflect.Value

// pipeline is the value of commands that are given each other's, and is kept in the
// variables that it declares.
func (e *execution) pipeline(dot reflect.Value, pipe *parse.PipeNode) (reflect.Value, error) {
	if pipe == nil {
		return none, nil
	}
	var before []reflect.Value // what the command before gives, if there is one
	for _, c := range pipe.Cmds {
		value, err := e.command(dot, c, before)
		if err != nil {
			return none, err
		}
		before = []reflect.Value{inside(value)}
	}
	value := before[0]
	for _, declared := range pipe.Decl {
		name := declared.Ident[0]
		if !pipe.IsAssign {
			e.variables = append(e.variables, variable{name, value})
		} else if known := e.variable(name); known != nil {
			known.value = value
		} else {
			return none, e.fault(pipe, "undefined variable: %s", name)
		}
	}
	return value, nil
}

// command is the value of a command: of a function with arguments, of which the value of
// the command before is the last, or of one operand.
func (e *execution) command(dot reflect.Value, c *parse.CommandNode, before []reflect.Value) (reflect.Value, error) {
	first := c.Args[0]
	if function, ok := first.(*parse.IdentifierNode); ok {
		return e.call(dot, function, c.Args[1:], before)
	}
	if len(c.Args) > 1 || len(before) > 0 {
		return none, e.fault(first, "can't give argument to non-function %s", first)
	}
	if first.Type() == parse.NodeNil {
		return none, e.fault(first, "nil is not a command")
	}
	return e.operand(dot, first)
}

// operand is the value of one word of a command.
func (e *execution) operand(dot reflect.Value, node parse.Node) (reflect.Value, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.NilNode:
		return none, nil
	case *parse.BoolNode:
		return reflect.ValueOf(n.True), nil
	case *parse.StringNode:
		return reflect.ValueOf(n.Text), nil
	case *parse.NumberNode:
		return e.number(n)
	case *parse.FieldNode:
		return e.fields(dot, n, n.Ident)
	case *parse.VariableNode:
		if known := e.variable(n.Ident[0]); known != nil {
			return e.fields(known.value, n, n.Ident[1:])
		}
	case *parse.ChainNode:
		value, err := e.operand(dot, n.Node)
		if err != nil {
			return none, err
		}
		return e.fields(value, n, n.Field)
	case *parse.PipeNode:
		return e.pipeline(dot, n)
	case *parse.IdentifierNode:
		return e.call(dot, n, nil, nil)
	}
	return none, e.fault(node, "can't evaluate %s", node)
}

// number is the value of a constant: its form says its type, as in Go.
func (e *execution) number(n *parse.NumberNode) (reflect.Value, error) {
	hex := strings.HasPrefix(strings.ToLower(n.Text), "0x") && !strings.ContainsAny(n.Text, "pP")
	switch {
	case n.IsComplex:
		return reflect.ValueOf(n.Complex128), nil
	case n.IsFloat && !hex && n.Text[0] != '\'' && strings.ContainsAny(n.Text, ".eEpP"):
		return reflect.ValueOf(n.Float64), nil
	case n.IsInt && int64(int(n.Int64)) == n.Int64:
		return reflect.ValueOf(int(n.Int64)), nil
	}
	return none, e.fault(n, "%s overflows int", n.Text)
}

// fields goes from field to field.
func (e *execution) fields(value reflect.Value, node parse.Node, names []string) (reflect.Value, error) {
	var err error
	for _, name := range names {
		if value, err = field(value, name); err != nil {
			return none, e.fault(node, "%w", err)
		}
	}
	return value, nil
}

// field is a field of a struct, or an element of a map. What is not there has no fields
// that are.
func field(of reflect.Value, name string) (reflect.Value, error) {
	if !of.IsValid() {
		return none, nil
	}
	typ := of.Type()
	value, isNil := behind(of)
	switch {
	case isNil:
		return none, fmt.Errorf("nil pointer evaluating %s.%s", typ, name)
	case value.Kind() == reflect.Struct:
		if f, ok := value.Type().FieldByName(name); ok && f.IsExported() {
			return value.FieldByIndexErr(f.Index)
		} else if ok {
			return none, fmt.Errorf("%s is an unexported field of struct type %s", name, typ)
		}
	case value.Kind() == reflect.Map && value.Type().Key().Kind() == reflect.String:
		return value.MapIndex(reflect.ValueOf(name).Convert(value.Type().Key())), nil
	}
	return none, fmt.Errorf("can't evaluate field %s in type %s", name, typ)
}

// behind follows pointers and interfaces to a value. It reports whether one of them is
// nil.
func behind(value reflect.Value) (reflect.Value, bool) {
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
		if value.IsNil() {
			return value, true
		}
		value = value.Elem()
	}
	return value, false
}

// inside is the value in an interface: none in one that is nil.
func inside(value reflect.Value) reflect.Value {
	if value.Kind() == reflect.Interface {
		return value.Elem()
	}
	return value
}

// truth says whether an if is taken: for values other than zero, and those that have
// elements.
func truth(value reflect.Value) bool {
	value = inside(value)
	switch value.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return value.Len() > 0
	case reflect.Struct:
		return true
	}
	return !value.IsZero()
}

// elementsOf are the elements of a value with their keys, those of a map in the order of
// these. A number has as many as it says. Variables are those of the range.
func elementsOf(of reflect.Value, variables int) (iter.Seq2[reflect.Value, reflect.Value], error) {
	value, isNil := behind(of)
	switch {
	case isNil && value.Kind() == reflect.Interface, !value.IsValid():
		return func(func(key, element reflect.Value) bool) {}, nil
	case value.Kind() == reflect.Array || value.Kind() == reflect.Slice:
		return value.Seq2(), nil
	case value.Kind() == reflect.Map:
		return func(yield func(key, element reflect.Value) bool) {
			for _, key := range slices.SortedFunc(slices.Values(value.MapKeys()), compareKeys) {
				if !yield(key, value.MapIndex(key)) {
					return
				}
			}
		}, nil
	case value.CanInt() || value.CanUint():
		if variables > 1 {
			return nil, fmt.Errorf("can't use %v to iterate over more than one variable", value)
		}
		return func(yield func(key, element reflect.Value) bool) {
			for element := range value.Seq() {
				if !yield(none, element) {
					return
				}
			}
		}, nil
	}
	return nil, fmt.Errorf("range can't iterate over %v", value)
}

// compareKeys orders the keys of a map: numbers by their size, others by their text.
func compareKeys(a, b reflect.Value) int {
	a, b = inside(a), inside(b)
	switch {
	case a.CanInt() && b.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint() && b.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat() && b.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// printable is a value as it is printed: what a pointer leads to, unless that says how it
// is printed. Functions and channels are not.
func printable(value reflect.Value) (any, bool) {
	if value.Kind() == reflect.Pointer {
		value, _ = behind(value)
	}
	if !value.IsValid() {
		return "<no value>", true
	}
	if speaks(value.Type()) {
		return value.Interface(), true
	}
	if value.CanAddr() && speaks(reflect.PointerTo(value.Type())) {
		return value.Addr().Interface(), true
	}
	return value.Interface(), value.Kind() != reflect.Chan && value.Kind() != reflect.Func
}

// speaks reports whether values of a type say themselves how they are printed.
func speaks(typ reflect.Type) bool {
	return typ.Implements(reflect.TypeFor[error]()) || typ.Implements(reflect.TypeFor[fmt.Stringer]())
}
