package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A pointerNode makes a value optional.
type pointerNode struct {
	inner    node
	nullable bool // written as null when nil
}

func (n pointerNode) decode(d *decoder, v reflect.Value) {
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	n.inner.decode(d, v.Elem())
}

func (n pointerNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(dst, "null"...), nil
	}
	return n.inner.encode(dst, v.Elem())
}

func (n pointerNode) schema() *object {
	if n.nullable {
		return new(object).set("anyOf", []*object{n.inner.schema(), typed("null")})
	}
	return n.inner.schema()
}

// A listNode decodes arrays.
type listNode struct {
	typ   reflect.Type
	items node
	size  bounds
}

func (n *listNode) decode(d *decoder, v reflect.Value) {
	if !d.expect(anArray) {
		return
	}
	v.Set(reflect.MakeSlice(n.typ, 0, 0)) // present, so not nil
	count := 0
	for more := d.open(']'); more; more = d.more(']') {
		if n.size.max != unbounded && count >= n.size.max {
			d.raw() // only counted: it is too many already
		} else {
			v.Grow(1)
			v.SetLen(count + 1)
			d.pushIndex(count)
			n.items.decode(d, v.Index(count))
			d.pop()
		}
		count++
	}
	if reason := n.size.check(count, "items"); reason != "" && !d.halted {
		d.report(reason)
	}
}

func (n *listNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = n.items.encode(dst, v.Index(i)); err != nil {
			return dst, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

func (n *listNode) schema() *object {
	return n.size.describe(typed("array").set("items", n.items.schema()), "minItems", "maxItems")
}

// A mapNode decodes objects whose names are data.
type mapNode struct {
	typ    reflect.Type
	keys   *stringNode
	values node
	size   bounds
}

func (n *mapNode) decode(d *decoder, v reflect.Value) {
	if !d.expect(anObject) {
		return
	}
	v.Set(reflect.MakeMap(n.typ))
	count := 0
	for more := d.open('}'); more; more = d.more('}') {
		if count++; n.size.max != unbounded && count > n.size.max {
			d.name()
			d.raw()
			continue
		}
		n.decodeEntry(d, v)
	}
	if reason := n.size.check(count, "entries"); reason != "" && !d.halted {
		d.report(reason)
	}
}

func (n *mapNode) decodeEntry(d *decoder, v reflect.Value) {
	name := string(d.name())
	d.push(name)
	defer d.pop()
	key := reflect.New(n.typ.Key()).Elem()
	if reason := n.keys.wrong(name); reason != "" {
		d.report("its name " + reason)
	} else if n.keys.text {
		readText(d, key, name)
	} else {
		key.SetString(name)
	}
	value := reflect.New(n.typ.Elem()).Elem()
	n.values.decode(d, value)
	v.SetMapIndex(key, value)
}

func (n *mapNode) encode(dst []byte, v reflect.Value) ([]byte, error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = n.keys.encode(dst, key); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = n.values.encode(dst, v.MapIndex(key)); err != nil {
			return dst, fmt.Errorf("%s: %w", key, err)
		}
	}
	return append(dst, '}'), nil
}

func (n *mapNode) schema() *object {
	o := typed("object")
	if names := n.keys.schema(); len(names.members) > 1 {
		names.members = names.members[1:] // they are always strings
		o.set("propertyNames", names)
	}
	o.set("additionalProperties", n.values.schema())
	return n.size.describe(o, "minProperties", "maxProperties")
}
