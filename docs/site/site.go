// Package site makes web pages of the documentation: files that link to each
// other relatively, so that they work below any path and from any file server,
// with a search that needs no server.
package site

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/internal/gotemplate"
)

// Repository is the address that the links to files outside of the documentation lead to.
const Repository = "https://github.com/aibridge/aibridge"

var (
	//go:embed page.html
	pageText string
	//go:embed site.css
	style []byte
	//go:embed search.js
	script []byte

	pageTemplate = gotemplate.Must(gotemplate.ParseHTML("page", pageText))
)

// index is the page that lists the others.
const index = "README.md"

// A page is one Markdown file.
type page struct {
	name     string // of its source, below docs: decisions/README.md
	title    string
	lead     string // its first paragraph as plain text
	body     gotemplate.HTML
	sections []section
}

// file is the name of the page in the site.
func (p *page) file() string { return fileOf(p.name) }

// root leads from the page to the top of the site: "" or "../".
func (p *page) root() string { return strings.Repeat("../", strings.Count(p.name, "/")) }

// fileOf is the name of the file of a source: guide.md is guide.html, README.md
// index.html.
func fileOf(name string) string {
	if path.Base(name) == index {
		return path.Join(path.Dir(name), "index.html")
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// A section is a heading with what is below it, for the search and the contents.
type section struct {
	Anchor  string
	Heading string
	Level   int
	Text    string
	Terms   []string // that its tables explain
}

// Build makes the files of the site, by their names in it. Ref is the branch or
// the tag in links to the repository.
func Build(sources fs.FS, ref string) (map[string][]byte, error) {
	names, err := markdownFiles(sources)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for _, name := range names {
		known[name] = true
	}
	var pages []*page
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			return nil, err
		}
		p, err := parse(name, text, known, ref)
		if err != nil {
			return nil, err
		}
		pages = append(pages, p)
	}
	return assemble(sources, pages)
}

func markdownFiles(sources fs.FS) (names []string, err error) {
	err = fs.WalkDir(sources, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

func assemble(sources fs.FS, pages []*page) (map[string][]byte, error) {
	files := map[string][]byte{"site.css": style, "search.js": script}
	groups := navigation(pages)
	for _, p := range pages {
		var out bytes.Buffer
		if err := pageTemplate.Execute(&out, show(p, groups)); err != nil {
			return nil, err
		}
		files[p.file()] = out.Bytes()
	}
	found, err := json.Marshal(searchIndex(pages))
	if err != nil {
		return nil, err
	}
	files["search.json"] = found
	pictures, err := fs.Glob(sources, "pictures/*")
	if err != nil {
		return nil, err
	}
	for _, name := range pictures {
		if files[name], err = fs.ReadFile(sources, name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// A group is a heading of the index with the pages that are listed below it.
type group struct {
	name  string
	pages []*page
}

// navigation lists all pages: in the groups and the order of the index, then
// those that it does not name.
func navigation(pages []*page) []group {
	byFile := make(map[string]*page)
	var start *page
	for _, p := range pages {
		byFile[p.file()] = p
		if p.name == index {
			start = p
		}
	}
	var groups []group
	if start != nil {
		delete(byFile, start.file())
		groups = append(groups, group{pages: []*page{start}})
		groups = append(groups, listed(string(start.body), byFile)...)
	}
	var rest group
	for _, p := range pages {
		if byFile[p.file()] == p && !strings.Contains(p.name, "/") {
			rest.pages = append(rest.pages, p)
		}
	}
	if len(rest.pages) > 0 {
		rest.name = "More"
		groups = append(groups, rest)
	}
	return groups
}

// listed are the groups of the index, by its second-level headings. It takes each
// page that it finds out of byFile.
func listed(body string, byFile map[string]*page) []group {
	var groups []group
	for _, part := range strings.Split(body, "<h2 id=")[1:] {
		_, heading, _ := strings.Cut(part, ">")
		heading, _, _ = strings.Cut(heading, "</h2>")
		g := group{name: heading}
		for _, link := range strings.Split(part, `<a href="`)[1:] {
			target, _, _ := strings.Cut(link, `"`)
			if p := byFile[target]; p != nil {
				g.pages = append(g.pages, p)
				delete(byFile, target)
			}
		}
		if len(g.pages) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// A found section of the search: where it is, what it is called, what it says.
type found struct {
	File    string `json:"f"`
	Title   string `json:"t"`
	Heading string `json:"h,omitempty"`
	Text    string `json:"x"`
	Terms   string `json:"d,omitempty"` // that its tables explain, with spaces between
}

// notSearched are pages made of long tables that hide everything else.
var notSearched = []string{"mqtt-conformance.md", "a2a-conformance.md", "a2a-mqtt-conformance.md", "nats-agents-conformance.md", "protocol-conformance.md"}

func searchIndex(pages []*page) []found {
	var list []found
	for _, p := range pages {
		for i, s := range p.sections {
			if slices.Contains(notSearched, p.name) && i > 0 {
				break
			}
			f := found{File: p.file(), Title: p.title, Heading: s.Heading, Text: s.Text, Terms: strings.Join(s.Terms, " ")}
			if i > 0 {
				f.File += "#" + s.Anchor
			} else {
				f.Heading = ""
			}
			list = append(list, f)
		}
	}
	return list
}

// shown is a page as the template sees it.
type shown struct {
	Title, Lead, Root string
	Body              gotemplate.HTML
	Groups            []navGroup
}

// show returns what the template sees of a page.
func show(p *page, groups []group) shown {
	return shown{Title: p.title, Lead: p.lead, Root: p.root(), Body: p.body, Groups: p.navigation(groups)}
}

// A navGroup is a group as the template sees it.
type navGroup struct {
	Name  string
	Links []navLink
}

// A navLink leads to a page; that of the current one has its contents.
type navLink struct {
	File, Title string
	Current     bool
	Sections    []section
}

// maxContents bounds the headings that are shown of the current page.
const maxContents = 40

// navigation are the groups of pages, as the page links to them.
func (p *page) navigation(groups []group) []navGroup {
	var all []navGroup
	for _, g := range groups {
		shown := navGroup{Name: g.name}
		for _, other := range g.pages {
			link := navLink{File: other.file(), Title: other.title, Current: other == p}
			if link.Current {
				for _, heading := range other.sections {
					if heading.Level == 2 && len(link.Sections) < maxContents {
						link.Sections = append(link.Sections, heading)
					}
				}
			}
			shown.Links = append(shown.Links, link)
		}
		all = append(all, shown)
	}
	return all
}
