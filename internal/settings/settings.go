package settings

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A setting is one leaf of a configuration, found by reflection so that its
// flag, its environment variable and its place in the file cannot drift apart.
type setting struct {
	flag, env, doc string
	value          reflect.Value
}

// leaves are the settings of a configuration.
func leaves(config any) []setting {
	var all []setting
	var walk func(v reflect.Value, path []string)
	walk = func(v reflect.Value, path []string) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name := append(path[:len(path):len(path)], field.Tag.Get("yaml"))
			if field.Type.Kind() == reflect.Struct {
				walk(v.Field(i), name)
				continue
			}
			if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct {
				continue // too much for a flag: in the file only
			}
			joined := strings.ReplaceAll(strings.Join(name, "-"), "_", "-")
			all = append(all, setting{
				flag:  joined,
				env:   envPrefix + strings.ToUpper(strings.ReplaceAll(joined, "-", "_")),
				doc:   field.Tag.Get("doc"),
				value: v.Field(i),
			})
		}
	}
	walk(reflect.ValueOf(config).Elem(), nil)
	return all
}

func (s setting) set(text string) error {
	switch s.value.Kind() {
	case reflect.String:
		s.value.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		s.value.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, s.value.Type().Bits())
		switch {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("%q is out of range", text)
		case err != nil:
			return fmt.Errorf("%q is not a whole number", text)
		}
		s.value.SetInt(n)
	case reflect.Slice:
		var list []string
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		s.value.Set(reflect.ValueOf(list))
	default:
		return fmt.Errorf("a %s cannot be set from text", s.value.Kind())
	}
	return nil
}

func (s setting) String() string {
	if s.value.Kind() == reflect.Slice {
		return strings.Join(s.value.Interface().([]string), ",")
	}
	return fmt.Sprint(s.value.Interface())
}

// flagValue lets pflag hold a setting as text until [Load] applies it.
type flagValue struct{ text, kind string }

func (f *flagValue) String() string     { return f.text }
func (f *flagValue) Set(s string) error { f.text = s; return nil }
func (f *flagValue) Type() string       { return f.kind }

// AddFlags declares a flag for every wanted setting, which has the value in the
// configuration by default, and --config for the file.
func AddFlags(fs *pflag.FlagSet, config any, wanted func(flag string) bool) {
	for _, s := range leaves(config) {
		if !wanted(s.flag) {
			continue
		}
		kind := s.value.Kind().String()
		switch kind {
		case "slice":
			kind = "list"
		case "int64":
			kind = "int"
		}
		flag := fs.VarPF(&flagValue{text: s.String(), kind: kind}, s.flag, "", s.doc)
		if s.value.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
	}
	fs.String("config", "", "YAML file with settings")
}

// Load lays over a configuration the file, then AIBRIDGE_* variables, then flags
// that were given; later ones win. It returns the text of the file, if there is
// one.
func Load(fs *pflag.FlagSet, config any) (file []byte, err error) {
	path, err := fs.GetString("config")
	if err != nil {
		return nil, err
	}
	if path == "" {
		path = os.Getenv(envPrefix + "CONFIG")
	}
	if path != "" {
		if file, err = readFile(config, path); err != nil {
			return nil, err
		}
	}
	for _, s := range leaves(config) {
		if text, ok := os.LookupEnv(s.env); ok {
			if err := s.set(text); err != nil {
				return nil, fmt.Errorf("%s: %w", s.env, err)
			}
		}
		if flag := fs.Lookup(s.flag); flag != nil && flag.Changed {
			if err := s.set(flag.Value.String()); err != nil {
				return nil, fmt.Errorf("--%s: %w", s.flag, err)
			}
		}
	}
	return file, nil
}
