package redact

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/chat"
)

// maxValues is the greatest number of placeholders of one request. Further values are
// replaced by [Redacted] for good.
const maxValues = 10_000

// A Mask hides the values of one request and puts them back into its answer.
// It is made by [New] and is for one goroutine at a time.
type Mask struct {
	// JSON says that the text of the answer is a JSON document, in which values
	// need escapes.
	JSON bool

	rules  []Rule
	taken  int                 // number of replacements
	byName map[string]string   // placeholder in lower case to value
	byText map[string]string   // value to placeholder
	last   map[string]int      // number of the last placeholder of a name
	said   map[string]struct{} // texts of the conversation in the form of placeholders
}

// New returns a mask with rules. A value found by several rules belongs to the first of
// them.
func New(rules []Rule) *Mask {
	return &Mask{
		rules: rules, byName: make(map[string]string), byText: make(map[string]string), last: make(map[string]int), said: make(map[string]struct{}),
	}
}

// Taken is the number of replacements.
func (m *Mask) Taken() int { return m.taken }

// placeholder is the form of a placeholder. It needs no escape in JSON.
var placeholder = regexp.MustCompile(`(?i)\[([a-z][a-z_]{0,15})-([1-9][0-9]{0,4})\]`)

// note is the instruction to a model to use placeholders like the values behind them.
const note = "Texts in brackets such as [%s] stand for values that are kept from you. Use and repeat them exactly as they are, also in calls of tools: they are replaced by the values on the way."

// Messages returns the messages of a request with its values replaced. The given
// messages are not changed. If there are placeholders, a note in the system text
// explains them.
func (m *Mask) Messages(list []chat.Message) []chat.Message {
	for i := range list {
		for j := range list[i].Segments {
			m.heed(&list[i].Segments[j])
		}
	}
	hidden := slices.Clone(list)
	first := ""
	for i := range hidden {
		hidden[i].Segments = slices.Clone(hidden[i].Segments)
		for j := range hidden[i].Segments {
			m.hide(&hidden[i].Segments[j])
		}
	}
	for name := range m.byName {
		if first == "" || name < first {
			first = name
		}
	}
	if m.taken == 0 {
		return list
	}
	if first == "" {
		return hidden
	}
	return withNote(hidden, fmt.Sprintf(note, strings.Trim(first, "[]")))
}

// withNote adds a note to the system text. It extends the system message if there is
// one, since some models accept only one, at the beginning.
func withNote(list []chat.Message, text string) []chat.Message {
	if len(list) > 0 && list[0].Role == chat.System {
		list[0].Segments = append(list[0].Segments, chat.Segment{Type: chat.Text, Text: "\n\n" + text})
		return list
	}
	return slices.Insert(list, 0, chat.TextMessage(chat.System, text))
}

// heed records texts of a segment in the form of placeholders: they must not become
// placeholders, or the answer would restore values in their place.
func (m *Mask) heed(s *chat.Segment) {
	texts := []string{s.Text, string(s.UI)}
	if s.ToolCall != nil {
		texts = append(texts, string(s.ToolCall.Args), s.ToolCall.Raw)
	}
	for _, text := range texts {
		if strings.IndexByte(text, '[') < 0 {
			continue
		}
		for _, name := range placeholder.FindAllString(text, -1) {
			m.said[strings.ToLower(name)] = struct{}{}
		}
	}
}

// hide replaces the values of a segment. Opaque data needs no replacement: the provider
// made it of a request with placeholders.
func (m *Mask) hide(s *chat.Segment) {
	s.Text = m.Text(s.Text)
	s.UI = eachString(s.UI, m.Text)
	if s.ToolCall != nil {
		call := *s.ToolCall
		call.Args, call.Raw = eachString(call.Args, m.Text), m.Text(call.Raw)
		s.ToolCall = &call
	}
}

// Text returns a text with its values replaced.
func (m *Mask) Text(text string) string { return m.replace(text, m.stand) }

// Text replaces the values found by rules for good, for texts without an answer to
// restore. It returns the number of replacements.
func Text(rules []Rule, text string) (clean string, taken int) {
	m := &Mask{rules: rules}
	clean = m.replace(text, func(r *Rule, _ string) string { return cmp.Or(r.with, Redacted) })
	return clean, m.taken
}

// A finding is the place of a value in a text, with the index of its rule.
type finding struct {
	span
	rule int
}

func (m *Mask) replace(text string, by func(r *Rule, value string) string) string {
	list := m.find(text)
	if len(list) == 0 {
		return text
	}
	var b strings.Builder
	done := 0
	for _, f := range list {
		b.WriteString(text[done:f.from])
		b.WriteString(by(&m.rules[f.rule], text[f.from:f.to]))
		done = f.to
		m.taken++
	}
	b.WriteString(text[done:])
	return b.String()
}

// find returns the values found by the rules, in the order of the text. Overlapping
// ones are merged.
func (m *Mask) find(text string) []finding {
	var list []finding
	for i := range m.rules {
		for _, s := range m.rules[i].find(text) {
			list = append(list, finding{s, i})
		}
	}
	slices.SortFunc(list, func(a, b finding) int { return cmp.Or(a.from-b.from, b.to-a.to, a.rule-b.rule) })
	merged := list[:0]
	for _, f := range list {
		if n := len(merged); n > 0 && f.from < merged[n-1].to {
			before := &merged[n-1]
			before.to, before.rule = max(before.to, f.to), min(before.rule, f.rule)
			continue
		}
		merged = append(merged, f)
	}
	return merged
}

// stand returns the replacement of a value: the same one for each occurrence.
func (m *Mask) stand(r *Rule, value string) string {
	if r.with != "" {
		return r.with
	}
	if name, ok := m.byText[value]; ok {
		return name
	}
	if len(m.byText) >= maxValues {
		return Redacted
	}
	for {
		m.last[r.name]++
		name := fmt.Sprintf("[%s-%d]", r.name, m.last[r.name])
		if _, said := m.said[name]; !said {
			m.byText[value], m.byName[name] = name, value
			return name
		}
	}
}

// Restore puts the values back into a text.
func (m *Mask) Restore(text string) string {
	if len(m.byName) == 0 || strings.IndexByte(text, '[') < 0 {
		return text
	}
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := m.byName[strings.ToLower(name)]; ok {
			return value
		}
		return name
	})
}

// Segment returns a segment of an answer with its values restored. The given segment is
// not changed; opaque data keeps its placeholders.
func (m *Mask) Segment(s chat.Segment) chat.Segment {
	if m.JSON && s.Type == chat.Text {
		s.Text = restoreJSON(m, s.Text)
	} else {
		s.Text = m.Restore(s.Text)
	}
	s.UI = eachString(s.UI, m.Restore)
	s.ToolCall = m.call(s.ToolCall)
	return s
}

func (m *Mask) call(c *chat.ToolCall) *chat.ToolCall {
	if c == nil {
		return nil
	}
	call := *c
	call.Args, call.Raw = eachString(call.Args, m.Restore), restoreJSON(m, call.Raw)
	return &call
}

// Answer returns an answer with its values restored. The given answer is not changed.
func (m *Mask) Answer(a *chat.Answer) *chat.Answer {
	restored := &chat.Answer{Finish: a.Finish, Segments: make([]chat.Segment, len(a.Segments))}
	restored.Finish.Detail = m.Restore(a.Finish.Detail)
	for i, s := range a.Segments {
		restored.Segments[i] = m.Segment(s)
	}
	return restored
}
