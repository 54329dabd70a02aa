package archtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the last column of the rooms in docs/architecture.md")

const (
	roomsBegin = "<!-- rooms -->\n"
	roomsEnd   = "<!-- /rooms -->"
)

// TestTheMapShowsTheRooms holds the table of rooms in docs/architecture.md to
// the rules here. The page says in its own order and words what a room is for.
func TestTheMapShowsTheRooms(t *testing.T) {
	page := filepath.Join(root, "docs", "architecture.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), roomsBegin)
	table, tail, closed := strings.Cut(rest, roomsEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for the rooms", page)
	}
	want, undescribed := roomTable(table)
	for _, room := range undescribed {
		t.Errorf("the map does not say what %s is for: add it to the rooms of docs/architecture.md", room)
	}
	if !strings.Contains(head, "and "+quoted(common)+".") {
		t.Errorf("the map should say that every room may import %s", quoted(common))
	}
	if table == want {
		return
	}
	if !*update {
		t.Fatal("the rooms of docs/architecture.md are stale: go test ./internal/archtest -update")
	}
	if err := os.WriteFile(page, []byte(head+roomsBegin+want+roomsEnd+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// roomTable is the table with the rows of the rooms that there are: in the
// order and with the purposes of the one there was, new ones at the end.
func roomTable(had string) (table string, undescribed []string) {
	order, purposes := []string{}, make(map[string]string)
	for line := range strings.Lines(had) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(line, "| `") {
			continue
		}
		room := strings.Trim(cells[1], " `")
		order = append(order, room)
		purposes[room] = strings.TrimSpace(cells[2])
	}
	for _, room := range sortedRooms() {
		if !slices.Contains(order, room) {
			order = append(order, room)
		}
	}
	var b strings.Builder
	b.WriteString("| room | holds | may import |\n|---|---|---|\n")
	for _, room := range order {
		allowed, there := rooms[room]
		if !there {
			continue
		}
		if purposes[room] == "" {
			undescribed = append(undescribed, room)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", room, purposes[room], shownImports(room, allowed))
	}
	return b.String(), undescribed
}

func sortedRooms() []string {
	var names []string
	for room := range rooms {
		names = append(names, room)
	}
	slices.Sort(names)
	return names
}

// shownImports lists what a room may import besides itself.
func shownImports(room string, allowed []string) string {
	others := slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == room })
	switch {
	case slices.Contains(others, "*"):
		return "every room"
	case len(others) == 0:
		return "none"
	}
	return quoted(others)
}

func quoted(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }
