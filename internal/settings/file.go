package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/commands/schema"
)

// readFile lays a YAML file over a configuration, and returns its text. Unknown
// keys are errors.
func readFile(config any, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err = dec.Decode(config)
	if bad := new(yaml.TypeError); errors.As(err, &bad) {
		var whole yaml.Node
		_ = yaml.Unmarshal(data, &whole) // which the decoder has read
		var errs []string
		for _, text := range bad.Errors {
			known, err := setByOldName(text, &whole, config)
			if !known {
				errs = append(errs, inSettings(text, &whole, reflect.TypeOf(config)))
			} else if err != nil {
				errs = append(errs, err.Error())
			}
		}
		if len(errs) == 0 {
			return data, nil
		}
		return nil, fmt.Errorf("%s: %s", path, strings.Join(errs, "; "))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// The decoder's messages, in terms of Go.
var (
	unknownField = regexp.MustCompile(`^(line \d+): field (\S+) not found in type \S+$`)
	wrongValue   = regexp.MustCompile("^line (\\d+): cannot unmarshal (\\S+)(?: `(.*?)(\\.\\.\\.)?`)? into (\\S+)$")
)

// setByOldName sets the setting that an unknown key was the name of in an
// earlier version, unless the file has its name of today, too. It reports whether
// there is one.
func setByOldName(text string, whole *yaml.Node, config any) (known bool, err error) {
	found := unknownField.FindStringSubmatch(text)
	if found == nil {
		return false, nil
	}
	at := make(map[string]*yaml.Node)
	for key, value := range values(whole, "") {
		at[key] = value
	}
	for _, s := range leaves(config) {
		old := at[s.was]
		if s.was == "" || old == nil || fmt.Sprintf("line %d", old.Line) != found[1] || !strings.HasSuffix("."+s.was, "."+found[2]) {
			continue
		}
		if at[s.key] == nil {
			err = s.set(old.Value)
		}
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", found[1], s.was, err)
		}
		return true, err
	}
	return false, nil
}

// inSettings rewrites an error of the decoder in terms of settings.
func inSettings(text string, whole *yaml.Node, config reflect.Type) string {
	if found := unknownField.FindStringSubmatch(text); found != nil {
		said := fmt.Sprintf("%s: there is no setting %s", found[1], found[2])
		if near, ok := schema.Meant(found[2], settingNames(config)); ok {
			said += "; did you mean " + near + "?"
		}
		return said
	}
	found := wrongValue.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	line, _ := strconv.Atoi(found[1])
	for key, value := range values(whole, "") {
		if value.Line == line && value.ShortTag() == found[2] && strings.HasPrefix(value.Value, found[3]) {
			return fmt.Sprintf("line %d: %s: %s is not %s", line, key, shownValue(value, found[3]), kindInWords(found[5]))
		}
	}
	return text
}

func shownValue(value *yaml.Node, text string) string {
	switch value.Kind {
	case yaml.MappingNode:
		return "a group of settings"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(text)
}

// kindInWords is a type of Go in plain words.
func kindInWords(kind string) string {
	switch {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "string":
		return "a text"
	case strings.HasPrefix(kind, "[]"):
		return "a list"
	}
	return "a group of settings"
}

// values yields every value of a document with its key: that of a setting, or
// of an item as in issuers[0].key.
func values(node *yaml.Node, key string) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) { walkValues(node, key, yield) }
}

func walkValues(node *yaml.Node, key string, yield func(string, *yaml.Node) bool) bool {
	if key != "" && !yield(key, node) {
		return false
	}
	switch node.Kind {
	case yaml.DocumentNode:
		return walkValues(node.Content[0], key, yield)
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			if key != "" {
				name = key + "." + name
			}
			if !walkValues(node.Content[i+1], name, yield) {
				return false
			}
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			if !walkValues(item, fmt.Sprintf("%s[%d]", key, i), yield) {
				return false
			}
		}
	}
	return true
}

// settingNames yields the names of settings and of groups of them.
func settingNames(t reflect.Type) iter.Seq[string] {
	return func(yield func(string) bool) { walkNames(t, yield) }
}

func walkNames(t reflect.Type, yield func(string) bool) bool {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return true
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		if !yield(name) || !walkNames(t.Field(i).Type, yield) {
			return false
		}
	}
	return true
}
