package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// writeJSON shows a result as indented JSON.
func writeJSON(w io.Writer, result json.RawMessage) error {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "  "); err != nil {
		return err
	}
	pretty.WriteByte('\n')
	_, err := pretty.WriteTo(w)
	return err
}

// writeTable shows a result for people: simple fields as lines, and lists of
// objects as tables.
func writeTable(w io.Writer, result json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(result))
	dec.UseNumber()
	var fields map[string]any
	if err := dec.Decode(&fields); err != nil {
		return writeJSON(w, result)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var tables []string
	for _, name := range orderedKeys(fields) {
		if rows, ok := objects(fields[name]); ok {
			if len(rows) > 0 {
				tables = append(tables, name)
			} else {
				fmt.Fprintf(out, "%s\tnone\n", name)
			}
			continue
		}
		fmt.Fprintf(out, "%s\t%s\n", name, field(name, fields[name]))
	}
	for _, name := range tables {
		rows, _ := objects(fields[name])
		writeRows(out, rows)
	}
	return out.Flush()
}

func writeRows(w io.Writer, rows []map[string]any) {
	all := make(map[string]any)
	for _, row := range rows {
		maps.Copy(all, row)
	}
	columns := orderedKeys(all)
	fmt.Fprintln(w, strings.ToUpper(strings.Join(columns, "\t")))
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, column := range columns {
			if value, ok := row[column]; ok {
				cells[i] = inRow(field(column, named(value)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}

// maxCell is how wide a cell of a table may be, in characters: no identifier is
// longer, and what is would push the other columns off every screen. --json
// shows it in full.
const maxCell = 80

func inRow(text string) string {
	if runes := []rune(text); len(runes) > maxCell {
		return string(runes[:maxCell-1]) + "…"
	}
	return text
}

// named puts identifiers in place of the objects in a list that have one: a
// table has no room for more.
func named(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	names := slices.Clone(list)
	for i, item := range list {
		if row, ok := item.(map[string]any); ok {
			names[i] = identifier(row)
		}
	}
	return names
}

func identifier(row map[string]any) any {
	for _, name := range orderedKeys(row) {
		if id, ok := row[name].(string); ok && strings.HasSuffix(name, "_id") {
			return id
		}
	}
	return row
}

// orderedKeys sorts names, identifiers first: they are what one looks for.
func orderedKeys(fields map[string]any) []string {
	return slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
}

func rank(name string) int {
	if strings.HasSuffix(name, "_id") || name == "name" {
		return 0
	}
	return 1
}

func objects(value any) ([]map[string]any, bool) {
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	rows := make([]map[string]any, 0, len(list))
	for _, item := range list {
		row, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		rows = append(rows, row)
	}
	return rows, true
}

// field shows a named value in one line: Unix milliseconds of a moment as the
// local time.
func field(name string, value any) string {
	if number, ok := value.(json.Number); ok && moment(name) {
		if ms, err := number.Int64(); err == nil && ms > 0 {
			return time.UnixMilli(ms).Format(time.DateTime)
		}
	}
	return cell(value)
}

func moment(name string) bool {
	return strings.HasSuffix(name, "_at") || name == "since" || name == "modified" || name == "last_heartbeat" || name == "last_sync_time"
}

// cell shows a value in one line.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		return strings.Map(func(r rune) rune {
			if unicode.IsControl(r) { // nothing a device says may steer the terminal
				return ' '
			}
			return r
		}, v)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = cell(item)
		}
		return strings.Join(parts, ",")
	case map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	return fmt.Sprint(value)
}
