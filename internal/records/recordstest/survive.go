package recordstest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/internal/records"
)

// Survives checks that an update of the record at key loses none of its fields.
// It gives every field that is empty a value, as a field would have that is added
// to the type tomorrow, has update change the record, and compares. changes are
// the names of the fields that update is to change; fields named with a leading
// "-" are left empty before, where a value would make another record of it.
func Survives[T any](t testing.TB, table records.Table[T], key string, update func(), changes ...string) {
	t.Helper()
	stored, _, ok := table.Get(key)
	if !ok {
		t.Fatalf("there is no %s", key)
	}
	full := *stored
	for _, f := range fields(&full) {
		if !slices.Contains(changes, f.name) && !slices.Contains(changes, "-"+f.name) && f.value.IsZero() {
			fill(f.value, 1)
		}
	}
	if _, err := table.Put(t.Context(), key, &full); err != nil {
		t.Fatal(err)
	}
	before, held, _ := table.Get(key)
	update()
	after, revision, ok := table.Get(key)
	if !ok || revision == held {
		t.Fatalf("the update did not change %s", key)
	}
	is := fields(after)
	for i, was := range fields(before) {
		if !slices.Contains(changes, was.name) && !reflect.DeepEqual(was.value.Interface(), is[i].value.Interface()) {
			t.Errorf("%T.%s was %+v and is %+v after an update", *after, was.name, was.value, is[i].value)
		}
	}
}

type field struct {
	name  string
	value reflect.Value
}

// fields lists the exported fields of a struct, those of embedded ones among
// them.
func fields(of any) []field {
	var all []field
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			all = append(all, fields(v.Field(i).Addr().Interface())...)
		case f.IsExported() && f.Tag.Get("json") != "-":
			all = append(all, field{f.Name, v.Field(i)})
		}
	}
	return all
}

// fill gives a value that is not the zero value of its type.
func fill(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.String:
		v.SetString(fmt.Sprint("filled", n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		fillSlice(v, n)
	case reflect.Array:
		fill(v.Index(0), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	}
}

func fillSlice(v reflect.Value, n int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte(fmt.Sprint(n))) // JSON, where it has to be
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	fill(v.Index(0), n)
}
