package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// errNoTable is the answer to -o csv where results come one after the other.
var errNoTable = errors.New("-o csv: what comes one after the other is no table; take -o json")

// writeCSV shows the list of a result for a spreadsheet (RFC 4180), a line for each
// object with the names of its members above; of a result without a list the result
// itself. Values stay as they are: times in Unix milliseconds, and inner objects and
// arrays as JSON.
func writeCSV(w io.Writer, result json.RawMessage) error {
	rows, err := csvRows(result)
	if err != nil {
		return err
	}
	var names []string
	for _, row := range rows {
		for _, name := range row.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	head := make([]string, len(names))
	for i, name := range names {
		head[i] = csvCell(name) // an agent may have named it
	}
	out := csv.NewWriter(w)
	lines := [][]string{head}
	for _, row := range rows {
		line := make([]string, len(names))
		for i, name := range names {
			line[i] = csvCell(row.values[name])
		}
		lines = append(lines, line)
	}
	if len(names) == 0 {
		return nil
	}
	return out.WriteAll(lines)
}

// csvRows are the objects that a result lists.
func csvRows(result json.RawMessage) ([]*orderedObject, error) {
	fields, ok := parseOrdered(result).(*orderedObject)
	if !ok {
		return nil, errors.New("-o csv: the result is no object; take -o json")
	}
	var lists []string
	rows := []*orderedObject{fields}
	for _, name := range fields.names {
		if found, ok := objects(fields.values[name]); ok {
			lists, rows = append(lists, name), found
		}
	}
	if len(lists) > 1 {
		return nil, fmt.Errorf("-o csv: the result has several lists, %s; take -o json", strings.Join(lists, ", "))
	}
	return rows, nil
}

// csvCell is a value as a cell. A text that a spreadsheet would take for a formula
// gets an apostrophe: devices and callers choose texts.
func csvCell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		text := legible(v)
		if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
			return "'" + text
		}
		return text
	case *orderedObject:
		return jsonLine(v.raw)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = cell(item)
		}
		return csvCell(strings.Join(parts, ","))
	}
	return fmt.Sprint(value)
}
