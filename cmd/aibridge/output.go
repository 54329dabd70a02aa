package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aibridge/aibridge/protocol"
)

// writeJSON shows a result as indented JSON.
func writeJSON(w io.Writer, result json.RawMessage) error {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, result, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n", jsonLine(pretty.Bytes()))
	return err
}

// writeTable shows a result for people, in the order of the bridge's answer: simple
// fields as lines, then lists of objects as tables.
func writeTable(w io.Writer, result json.RawMessage) error {
	fields, ok := parseOrdered(result).(*orderedObject)
	if !ok {
		return writeJSON(w, result)
	}
	var page bytes.Buffer
	out, ink := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0), inkOf(w)
	tables := writeFields(out, "", fields, ink)
	_ = out.Flush() // to memory
	for _, t := range tables {
		if page.Len() > 0 {
			page.WriteByte('\n')
		}
		if len(tables) > 1 {
			fmt.Fprintf(&page, "%s:\n", t.name)
		}
		begins := page.Len()
		writeRows(out, t.rows, ink)
		_ = out.Flush()
		ink.headline(&page, begins)
	}
	_, err := page.WriteTo(w)
	return err
}

// A table is a list of objects that is shown below the simple fields.
type table struct {
	name string
	rows []*orderedObject
}

// maxObject is the length of an object at most, in bytes of JSON, to be shown as one
// field; a longer one is shown field by field.
const maxObject = 80

// writeFields shows the simple fields of an object, and returns the tables in
// it.
func writeFields(w io.Writer, prefix string, object *orderedObject, ink ink) (tables []table) {
	for _, name := range object.names {
		value, full := object.values[name], prefix+name
		if rows, ok := objects(value); ok && len(rows) > 0 {
			tables = append(tables, table{full, rows})
			continue
		}
		if inner, ok := value.(*orderedObject); ok && len(inner.raw) > maxObject {
			tables = append(tables, writeFields(w, full+".", inner, ink)...)
			continue
		}
		text := field(name, value)
		if list, ok := value.([]any); ok && len(list) == 0 {
			text = "none"
		}
		fmt.Fprintf(w, "%s\t%s\n", full, ink.state(name, text))
	}
	return tables
}

// wideColumn is the width above which a column that is no identifier stands
// right of all others: a description must not push a status off the screen.
const wideColumn = 28

// A column of a table.
type column struct {
	name  string
	cells []string
	width int
}

func (c *column) wide() bool { return c.width > wideColumn && !strings.HasSuffix(c.name, "_id") }

func writeRows(w io.Writer, rows []*orderedObject, ink ink) {
	rows = unfolded(rows)
	var columns []*column
	for i, row := range rows {
		for _, name := range row.names {
			at := slices.IndexFunc(columns, func(c *column) bool { return c.name == name })
			if at < 0 {
				at = len(columns)
				columns = append(columns, &column{name: name, cells: make([]string, len(rows))})
			}
			c := columns[at]
			c.cells[i] = inRow(field(name, named(row.values[name])))
			c.width = max(c.width, utf8.RuneCountInString(c.cells[i]))
		}
	}
	columns = slices.DeleteFunc(columns, func(c *column) bool { return c.width == 0 })
	slices.SortStableFunc(columns, func(a, b *column) int {
		switch {
		case a.wide() == b.wide():
			return 0
		case b.wide():
			return -1
		}
		return 1
	})
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = ink.state(c.name, strings.ToUpper(c.name))
	}
	fmt.Fprintln(w, strings.Join(line, "\t"))
	for row := range rows {
		for i, c := range columns {
			line[i] = ink.state(c.name, c.cells[row])
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
}

// maxCell is the width of a cell of a table at most, in characters: no identifier is
// longer, and a longer text would push the other columns off every screen. --json shows
// it in full.
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
		if row, ok := item.(*orderedObject); ok {
			names[i] = identifier(row)
		}
	}
	return names
}

// unfolded has a row for each object in the list of a row that is a name and a list,
// such as the versions of a secret, where these have no identifier that could stand
// for them in a cell.
func unfolded(rows []*orderedObject) (flat []*orderedObject) {
	for _, row := range rows {
		at := slices.IndexFunc(row.names, func(name string) bool {
			list, ok := objects(row.values[name])
			return ok && len(list) > 0 && identifier(list[0]) == any(list[0])
		})
		if at < 0 || len(row.names) != 2 {
			flat = append(flat, row)
			continue
		}
		list, _ := objects(row.values[row.names[at]])
		for _, inner := range list {
			flat = append(flat, row.with(at, inner))
		}
	}
	return flat
}

// identifier is the first identifier of an object, or the object.
func identifier(row *orderedObject) any {
	for _, name := range row.names {
		if id, ok := row.values[name].(string); ok && strings.HasSuffix(name, "_id") {
			return id
		}
	}
	return row
}

func objects(value any) ([]*orderedObject, bool) {
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	rows := make([]*orderedObject, 0, len(list))
	for _, item := range list {
		row, ok := item.(*orderedObject)
		if !ok {
			return nil, false
		}
		rows = append(rows, row)
	}
	return rows, true
}

// field shows a named value in one line: a moment, in Unix milliseconds or as
// RFC 3339 has it, as the local time.
func field(name string, value any) string {
	if !moment(name) {
		return cell(value)
	}
	switch v := value.(type) {
	case json.Number:
		if ms, err := v.Int64(); err == nil && ms > 0 {
			return time.UnixMilli(ms).Format(time.DateTime)
		}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return at.Local().Format(time.DateTime)
		}
	}
	return cell(value)
}

func moment(name string) bool {
	switch name {
	case "at", "since", "late_since", "modified", "deadline", "last_heartbeat", "last_sync_time":
		return true
	}
	return strings.HasSuffix(name, "_at")
}

// cell shows a value in one line.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		return printable(v)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = cell(item)
		}
		return strings.Join(parts, ",")
	case *orderedObject:
		return printable(string(v.raw))
	}
	return fmt.Sprint(value)
}

// printable is a text in one line without what steers a terminal, or makes it
// show something else: no text of a device may. Hidden characters are named.
func printable(text string) string { return shown(text, false) }

// legible is [printable] for several lines.
func legible(text string) string { return shown(text, true) }

func shown(text string, lines bool) string {
	if protocol.CheckText(text, lines) == "" {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case unicode.IsControl(r):
			b.WriteByte(' ')
		case protocol.Misleading(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// jsonLine is JSON with such characters escaped. It means the same.
func jsonLine(raw []byte) string {
	if protocol.CheckText(string(raw), true) == "" {
		return string(raw)
	}
	var b strings.Builder
	for _, r := range string(raw) {
		if r < 0x7f || !unicode.IsControl(r) && !protocol.Misleading(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}
