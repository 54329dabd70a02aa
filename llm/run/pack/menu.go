package pack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// MenuPath converts the path of a menu item to a path in the package: authors write it
// relative to the root of the project that the package was made of.
func MenuPath(path string) string {
	path = strings.TrimPrefix(strings.TrimSpace(path), "{project-root}/")
	return strings.TrimLeft(strings.TrimPrefix(path, "@pkg/"), "./")
}

// WorkflowOf finds the workflow that a menu item starts: by its id, by its path, or by
// a longer path that ends in it, as of an installed package. It is nil if the item
// starts none, or one that the package does not have.
func (p *Package) WorkflowOf(m *MenuItem) *Workflow {
	if strings.TrimSpace(m.Workflow) == "" {
		return nil
	}
	path := MenuPath(m.Workflow)
	for _, ref := range []string{path, m.Workflow} {
		if w := p.Workflow(ref); w != nil && ref != "" {
			return w
		}
	}
	for _, w := range p.Workflows {
		file := w.WorkflowEntry.Workflow
		if !strings.Contains(file, "/") {
			file = p.Manifest.Name + "/" + file // every path ends in workflow.md
		}
		if strings.HasSuffix(path, "/"+file) {
			return w
		}
	}
	return nil
}

// CheckMenus refuses menu items with a missing workflow or prompt, which a user could
// choose without an effect. It ignores items for IDEs alone, which are never shown
// here. It is called at the import of a package; packages imported by older versions
// can still be loaded. The error is PACKAGE_INVALID, with details.errors that name file
// and path.
func (p *Package) CheckMenus() error {
	var problems []Problem
	p.eachItem(func(a *Agent, m *MenuItem, at string) {
		add := func(field, format string, args ...any) {
			problems = append(problems, Problem{File: p.Manifest.Entry.Agents, Path: at + field, Reason: fmt.Sprintf(format, args...)})
		}
		if m.Workflow != "" && p.WorkflowOf(m) == nil {
			add(".workflow", "the package has no workflow %q; it has %s", m.Workflow, p.workflowNames())
		}
		if id, ok := strings.CutPrefix(m.Action, "#"); ok && !slices.ContainsFunc(a.Prompts, func(p Prompt) bool { return p.ID == id }) {
			add(".action", "the agent has no prompt %q", id)
		}
	})
	if problems != nil {
		return refusal(fault.PackageInvalid, "the package is not valid", problems)
	}
	return nil
}

// warnOfMenus adds warnings of files that items have the model read and that are not in
// the package, since the run may create them.
func (l *loader) warnOfMenus() {
	l.p.eachItem(func(_ *Agent, m *MenuItem, at string) {
		for _, f := range []struct{ field, path string }{{"exec", m.Exec}, {"data", m.Data}} {
			if _, ok := l.p.files[MenuPath(f.path)]; f.path != "" && !strings.HasPrefix(f.path, "@") && !ok {
				l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("%s: %s.%s: there is no file %q in the package", l.p.Manifest.Entry.Agents, at, f.field, f.path))
			}
		}
	})
}

// eachItem calls fn for every item of a menu that can be chosen here.
func (p *Package) eachItem(fn func(a *Agent, m *MenuItem, at string)) {
	for i := range p.Agents {
		a := &p.Agents[i]
		for j := range a.Menu {
			if m := &a.Menu[j]; !m.IDEOnly {
				fn(a, m, fmt.Sprintf("agents[%d].menu[%d]", i, j))
			}
		}
	}
}

// workflowNames lists the ids of the workflows.
func (p *Package) workflowNames() string {
	names := make([]string, len(p.Workflows))
	for i, w := range p.Workflows {
		names[i] = fmt.Sprintf("%q", w.ID)
	}
	return strings.Join(names, ", ")
}
