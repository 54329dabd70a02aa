package run

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/aibridge/aibridge/commands/schema"
	"github.com/aibridge/aibridge/llm/run/pack"
)

// A destination is the meaning of an input to an agent. The zero value is an input for
// the model.
type destination struct {
	item   *pack.MenuItem   // the selected item
	offers []*pack.MenuItem // several candidates, among which the user must choose
	menu   bool             // a request for the menu
} // nothing: it is for the model

// route returns the destination of an input to an agent: an item by its number, by its
// trigger or by similar words, the menu, or the model.
func route(a *pack.Agent, input string) destination {
	items := menuOf(a)
	said := fold(input)
	if said == "" || said == "menu" || said == "help" || said == "?" {
		return destination{menu: true}
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(said, ".")); err == nil {
		if n >= 1 && n <= len(items) {
			return destination{item: items[n-1]}
		}
		return destination{menu: true}
	}
	for _, item := range items {
		if slices.Contains(triggersOf(item), said) {
			return destination{item: item}
		}
	}
	return closest(items, said)
}

// menuOf returns the items of an agent's menu that can be chosen here.
func menuOf(a *pack.Agent) []*pack.MenuItem {
	var items []*pack.MenuItem
	for i := range a.Menu {
		if m := &a.Menu[i]; !m.IDEOnly {
			items = append(items, m)
		}
	}
	return items
}

// fold normalises a text for comparisons.
func fold(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	return strings.Join(strings.Fields(strings.TrimLeft(text, "*/")), " ")
}

// triggersOf returns all words that choose an item, folded.
func triggersOf(m *pack.MenuItem) []string {
	var list []string
	add := func(text string) {
		if text = fold(text); text != "" {
			list = append(list, text)
		}
	}
	add(m.Trigger)
	add(m.Cmd)
	for _, t := range m.Triggers {
		for _, key := range slices.Sorted(maps.Keys(t)) {
			switch value := t[key].(type) {
			case string:
				if key == "trigger" || key == "input" || key == "cmd" {
					add(value)
				}
			default:
				add(key)
			}
		}
	}
	return list
}

// fewWords is the greatest number of words of a text that can choose an item without
// being its trigger. Longer texts are for the model.
const fewWords = 4

// closest returns the items that a few words may stand for.
func closest(items []*pack.MenuItem, said string) destination {
	words := wordsOf(said)
	if len(words) == 0 || len(words) > fewWords {
		return destination{}
	}
	byTrigger := make(map[string]*pack.MenuItem)
	var near []*pack.MenuItem
	for _, item := range items {
		for _, t := range triggersOf(item) {
			byTrigger[t] = item
		}
		if containsAll(wordsOf(item.Description+" "+strings.Join(triggersOf(item), " ")), words) {
			near = append(near, item)
		}
	}
	if len(near) == 1 {
		return destination{item: near[0]}
	}
	if len(near) > 1 {
		return destination{offers: near}
	}
	if t, ok := schema.Nearest(said, slices.Values(slices.Sorted(maps.Keys(byTrigger)))); ok {
		if oneSlip(t, said) {
			return destination{item: byTrigger[t]}
		}
		return destination{offers: []*pack.MenuItem{byTrigger[t]}}
	}
	return destination{}
}

// oneSlip reports whether two words differ by one inserted, missing or replaced letter,
// or by two swapped ones.
func oneSlip(a, b string) bool {
	x, y := []rune(a), []rune(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	if len(y)-len(x) > 1 {
		return false
	}
	i := 0
	for i < len(x) && x[i] == y[i] {
		i++
	}
	if len(x) < len(y) {
		return slices.Equal(x[i:], y[i+1:])
	}
	return i == len(x) || slices.Equal(x[i+1:], y[i+1:]) ||
		i+1 < len(x) && x[i] == y[i+1] && x[i+1] == y[i] && slices.Equal(x[i+2:], y[i+2:])
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func containsAll(all, some []string) bool {
	for _, word := range some {
		if !slices.Contains(all, word) {
			return false
		}
	}
	return true
}

// menuText is the text of items of an agent's menu, with their numbers in it.
func menuText(a *pack.Agent, only []*pack.MenuItem) string {
	var b strings.Builder
	if only == nil {
		fmt.Fprintf(&b, "%s %s, %s", a.Metadata.Icon, a.Metadata.Name, a.Metadata.Title)
	} else {
		b.WriteString("Which of these do you mean? Say its number, or tell me more.")
	}
	for i, item := range menuOf(a) {
		if only != nil && !slices.Contains(only, item) {
			continue
		}
		fmt.Fprintf(&b, "\n%d. %s", i+1, line(item.Description))
		if t := triggersOf(item); len(t) > 0 {
			fmt.Fprintf(&b, " (%s)", t[0])
		}
	}
	return strings.TrimSpace(b.String())
}

// order is the input to the model for an item of the agent's menu.
func order(a *pack.Agent, m *pack.MenuItem) string {
	var b strings.Builder
	switch {
	case strings.HasPrefix(m.Action, "#"):
		id := strings.TrimPrefix(m.Action, "#")
		i := slices.IndexFunc(a.Prompts, func(p pack.Prompt) bool { return p.ID == id })
		if i >= 0 {
			b.WriteString(a.Prompts[i].Content)
		} else {
			b.WriteString(m.Description)
		}
	case m.Action != "":
		b.WriteString(m.Action)
	case m.Exec != "":
		fmt.Fprintf(&b, "Read %s and do what it says.", inPackage(m.Exec))
	default:
		b.WriteString(m.Description)
	}
	if m.Exec != "" && m.Action != "" {
		fmt.Fprintf(&b, "\n- exec: %s", inPackage(m.Exec))
	}
	if m.Data != "" {
		fmt.Fprintf(&b, "\n\nDATA\n- file: %s", inPackage(m.Data))
	}
	return b.String()
}

// inPackage is the path of a menu item in the form for models.
func inPackage(path string) string {
	path = line(path)
	if strings.HasPrefix(path, "@") {
		return path
	}
	return "@pkg/" + pack.MenuPath(path)
}
