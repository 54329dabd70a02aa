package site

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/aibridge/aibridge/internal/gotemplate"
)

// markdown reads what the pages are written in: CommonMark with GitHub's tables.
// HTML in a page is left out, and no style is written into the markup, which the
// policy of the pages forbids.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// parse reads one page.
func parse(name string, source []byte, known map[string]bool, ref string) (*page, error) {
	context := parser.NewContext(parser.WithIDs(&anchors{seen: make(map[string]int)}))
	root := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))
	p := &page{name: name}
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(target(name, string(n.Destination), known, ref))
		case *ast.Image:
			n.Destination = []byte(target(name, string(n.Destination), known, ref))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	p.read(root, source)
	if p.title == "" {
		return nil, fmt.Errorf("docs/%s does not begin with a title", name)
	}
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, root); err != nil {
		return nil, err
	}
	p.body = gotemplate.HTML(out.String()) // of our own pages, without their HTML
	return p, nil
}

// read takes the title, the first paragraph and the sections out of a page.
func (p *page) read(root ast.Node, source []byte) {
	var all []string
	end := func() {
		if n := len(p.sections); n > 0 {
			p.sections[n-1].Text = strings.Join(strings.Fields(strings.Join(all, " ")), " ")
		}
		all = nil
	}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		heading, ok := n.(*ast.Heading)
		if !ok {
			said := plain(n, source)
			if _, ok := n.(*ast.Paragraph); ok && p.lead == "" && len(p.sections) == 1 {
				p.lead = said
			}
			all = append(all, said)
			if last := len(p.sections) - 1; last >= 0 {
				p.sections[last].Terms = append(p.sections[last].Terms, termsOf(n, source)...)
			}
			continue
		}
		end()
		title := plain(n, source)
		if p.title == "" && heading.Level == 1 {
			p.title = title
		}
		anchor, _ := heading.AttributeString("id")
		id, _ := anchor.([]byte)
		p.sections = append(p.sections, section{Anchor: string(id), Heading: title, Level: heading.Level})
	}
	end()
}

// termsOf are the first words of a table's rows: the terms that it explains.
func termsOf(n ast.Node, source []byte) (terms []string) {
	if _, ok := n.(*east.Table); !ok {
		return nil
	}
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		if _, ok := row.(*east.TableRow); !ok || row.FirstChild() == nil {
			continue
		}
		if term := plain(row.FirstChild(), source); term != "" && !strings.ContainsRune(term, ' ') {
			terms = append(terms, term)
		}
	}
	return terms
}

// plain is the text of a part of a page.
func plain(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				out.Write(n.Value)
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				for i := range n.Lines().Len() {
					line := n.Lines().At(i)
					out.Write(line.Value(source))
				}
			}
			out.WriteByte(' ')
		case *ast.Paragraph, *ast.TextBlock, *ast.ListItem, *east.TableCell:
			out.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(out.String())
}

// target is the place that a link of a page leads to in the site: to another page, to a
// picture, or into the repository.
func target(from, to string, known map[string]bool, ref string) string {
	if to == "" || strings.HasPrefix(to, "#") || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	file, anchor, _ := strings.Cut(to, "#")
	if anchor != "" {
		anchor = "#" + anchor
	}
	inside, below := strings.CutPrefix(path.Join("docs", path.Dir(from), file), "docs/")
	up := strings.Repeat("../", strings.Count(from, "/"))
	switch {
	case below && known[inside]:
		return up + fileOf(inside) + anchor
	case below && known[path.Join(inside, index)]:
		return up + path.Join(inside, "index.html") + anchor
	case below && strings.HasPrefix(inside, "pictures/"):
		return up + inside
	}
	kind := "/blob/"
	if path.Ext(file) == "" {
		kind = "/tree/"
	}
	return Repository + kind + ref + "/" + path.Join("docs", path.Dir(from), file) + anchor
}

// anchors gives headings the names that GitHub gives them.
type anchors struct{ seen map[string]int }

// Generate implements parser.IDs.
func (a *anchors) Generate(heading []byte, _ ast.NodeKind) []byte {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(heading)))
	n := a.seen[anchor]
	a.seen[anchor]++
	if n > 0 {
		anchor += "-" + strconv.Itoa(n)
	}
	return []byte(anchor)
}

// Put implements parser.IDs.
func (a *anchors) Put([]byte) {}
