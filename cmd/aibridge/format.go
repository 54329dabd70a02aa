package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/protocol"
)

// A format is the form in which results are shown: as a table for people, or whole, as
// JSON, YAML or the lines of a spreadsheet. It is the value of -o; --json is short for -o
// json.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
	asCSV   format = "csv"
)

func (f *format) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.VarP(f, "output", "o", "how the result is shown: table, json, yaml or csv")
	fs.Var((*jsonFlag)(f), "json", "the same as -o json")
	fs.Lookup("json").NoOptDefVal = "true"
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml", "csv"}, cobra.ShellCompDirectiveNoFileComp))
}

var _, _ pflag.Value = (*format)(nil), (*jsonFlag)(nil)

// String implements [pflag.Value].
func (f *format) String() string {
	if *f == "" {
		return string(asTable)
	}
	return string(*f)
}

// Set implements [pflag.Value].
func (f *format) Set(text string) error {
	known := []format{asTable, asJSON, asYAML, asCSV}
	if !slices.Contains(known, format(text)) {
		return fmt.Errorf("%q is none of %v", text, known)
	}
	*f = format(text)
	return nil
}

// Type implements [pflag.Value].
func (f *format) Type() string { return "format" }

// A jsonFlag is the flag --json of a format.
type jsonFlag format

// String implements [pflag.Value].
func (f *jsonFlag) String() string { return "false" }

// Set implements [pflag.Value].
func (f *jsonFlag) Set(text string) error {
	switch text {
	case "true":
		*f = jsonFlag(asJSON)
	case "false":
	default:
		return fmt.Errorf("%q is neither true nor false", text)
	}
	return nil
}

// Type implements [pflag.Value].
func (f *jsonFlag) Type() string { return "bool" }

// whole reports whether results are shown as they are, and not for people.
func (f format) whole() bool { return f == asJSON || f == asYAML || f == asCSV }

// write shows a result, to people by table.
func (f format) write(w io.Writer, result json.RawMessage, table func(io.Writer, json.RawMessage) error) error {
	switch f {
	case asJSON:
		return writeJSON(w, result)
	case asYAML:
		return writeYAML(w, result)
	case asCSV:
		return writeCSV(w, result)
	}
	return table(w, result)
}

// writeOne shows one of many results that come one after the other: as a line
// of JSON, or as a document of YAML.
func (f format) writeOne(w io.Writer, result json.RawMessage) error {
	switch f {
	case asCSV:
		return errNoTable
	case asYAML:
		if _, err := fmt.Fprintln(w, "---"); err != nil {
			return err
		}
		return writeYAML(w, result)
	}
	_, err := fmt.Fprintln(w, jsonLine(result))
	return err
}

// writeYAML shows a result as YAML, in the order of the bridge's answer.
func writeYAML(w io.Writer, result json.RawMessage) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(yamlNode(parseOrdered(result))); err != nil {
		return err
	}
	return enc.Close()
}

// yamlNode is a value of [parseOrdered] as YAML. Characters that steer a
// terminal, or hide, are named.
func yamlNode(value any) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text} }
	switch v := value.(type) {
	case *orderedObject:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range v.names {
			node.Content = append(node.Content, yamlNode(name), yamlNode(v.values[name]))
		}
		return node
	case []any:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			node.Content = append(node.Content, yamlNode(item))
		}
		return node
	case string:
		if protocol.CheckText(v, true) != "" {
			v = legible(v)
		}
		return scalar("!!str", v)
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return scalar("!!float", v.String())
		}
		return scalar("!!int", v.String())
	case bool:
		return scalar("!!bool", fmt.Sprint(v))
	}
	return scalar("!!null", "null")
}
