package app

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A setting is one leaf of [Config], found by reflection so that its flag,
// its environment variable and its place in the file cannot drift apart.
type setting struct {
	flag, env, doc string
	value          reflect.Value
}

func settings(c *Config) []setting {
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
				env:   "AIBRIDGE_" + strings.ToUpper(strings.ReplaceAll(joined, "-", "_")),
				doc:   field.Tag.Get("doc"),
				value: v.Field(i),
			})
		}
	}
	walk(reflect.ValueOf(c).Elem(), nil)
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
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		s.value.SetInt(int64(n))
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

// flagValue lets pflag hold a setting as text until [LoadConfig] applies it.
type flagValue struct{ text, kind string }

func (f *flagValue) String() string     { return f.text }
func (f *flagValue) Set(s string) error { f.text = s; return nil }
func (f *flagValue) Type() string       { return f.kind }

// AddFlags declares a flag for every setting, and --config for the file.
func AddFlags(fs *pflag.FlagSet) { addFlags(fs, func(string) bool { return true }) }

// AddStateFlags declares the flags of the settings that say where the state
// is, and --config, for tools that work on it without serving anybody.
func AddStateFlags(fs *pflag.FlagSet) {
	addFlags(fs, func(flag string) bool {
		return flag == "data" || flag == "root" || flag == "accept-loss" || flag == "vfs-store" || flag == "vfs-dir" || strings.HasPrefix(flag, "nats-") || strings.HasPrefix(flag, "log-")
	})
}

func addFlags(fs *pflag.FlagSet, wanted func(flag string) bool) {
	defaults := DefaultConfig()
	for _, s := range settings(&defaults) {
		if !wanted(s.flag) {
			continue
		}
		kind := s.value.Kind().String()
		if kind == "slice" {
			kind = "list"
		}
		flag := fs.VarPF(&flagValue{text: s.String(), kind: kind}, s.flag, "", s.doc)
		if s.value.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
	}
	fs.String("config", "", "YAML file with settings")
}

// LoadConfig reads the configuration: defaults, then the file, then AIBRIDGE_*
// variables, then flags that were given; later ones win.
func LoadConfig(fs *pflag.FlagSet) (Config, error) {
	c := DefaultConfig()
	path, err := fs.GetString("config")
	if err != nil {
		return c, err
	}
	if path == "" {
		path = os.Getenv("AIBRIDGE_CONFIG")
	}
	var text []byte
	if path != "" {
		if text, err = c.readFile(path); err != nil {
			return c, err
		}
	}
	for _, s := range settings(&c) {
		if text, ok := os.LookupEnv(s.env); ok {
			if err := s.set(text); err != nil {
				return c, fmt.Errorf("%s: %w", s.env, err)
			}
		}
		if flag := fs.Lookup(s.flag); flag != nil && flag.Changed {
			if err := s.set(flag.Value.String()); err != nil {
				return c, fmt.Errorf("--%s: %w", s.flag, err)
			}
		}
	}
	models, _ := os.ReadFile(c.LLM.File) // which may name variables, too; what is wrong with it is said elsewhere
	return c, errors.Join(checkEnvironment(os.Environ(), true, text, models), c.Check())
}
