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
	key, doc string // the key as in the file: log.level
	was      string // the key that it had in earlier versions, "" for none
	value    reflect.Value
}

func (s setting) flag() string { return flagOf(s.key) }

func flagOf(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

func envOf(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
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
			if field.Tag.Get("setting") == "group" { // it has the name of its group
				name = path
			}
			all = append(all, setting{key: strings.Join(name, "."), doc: field.Tag.Get("doc"), was: field.Tag.Get("was"), value: v.Field(i)})
		}
	}
	walk(reflect.ValueOf(config).Elem(), nil)
	return all
}

// A Shown is a setting with its names and its value.
type Shown struct {
	Key, Flag, Env, Doc string // Key is its name in the file
	Value               any
	Changed             bool // it is not as in the defaults
}

// Show lists the settings of a configuration that flags can set, compared with
// another of the same type, in the order of the declaration.
func Show(config, defaults any) []Shown {
	var shown []Shown
	before := leaves(defaults)
	for i, s := range leaves(config) {
		shown = append(shown, Shown{
			Key: s.key, Flag: s.flag(), Env: envOf(s.key), Doc: s.doc,
			Value: s.value.Interface(), Changed: !reflect.DeepEqual(s.value.Interface(), before[i].value.Interface()),
		})
	}
	return shown
}

// keys are the names of the setting, the former one first.
func (s setting) keys() []string {
	if s.was == "" {
		return []string{s.key}
	}
	return []string{s.was, s.key}
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
		if !wanted(s.flag()) {
			continue
		}
		kind := s.value.Kind().String()
		switch kind {
		case "slice":
			kind = "list"
		case "int64":
			kind = "int"
		}
		flag := fs.VarPF(&flagValue{text: s.String(), kind: kind}, s.flag(), "", s.doc)
		if s.value.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
		if s.was != "" {
			was := fs.VarPF(flag.Value, flagOf(s.was), "", s.doc)
			was.NoOptDefVal, was.Deprecated, was.Hidden = flag.NoOptDefVal, "its name is --"+s.flag(), true
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
		for _, key := range s.keys() {
			if text, ok := os.LookupEnv(envOf(key)); ok {
				if err := s.set(text); err != nil {
					return nil, fmt.Errorf("%s: %w", envOf(key), err)
				}
			}
		}
		for _, key := range s.keys() {
			if flag := fs.Lookup(flagOf(key)); flag != nil && flag.Changed {
				if err := s.set(flag.Value.String()); err != nil {
					return nil, fmt.Errorf("--%s: %w", flagOf(key), err)
				}
			}
		}
	}
	return file, nil
}
