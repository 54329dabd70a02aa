package archtest

import (
	"slices"
	"strings"
	"testing"
)

// TestNoPackageLooksMethodsUpByName finds packages that have the linker keep every
// exported method of every type: those that import a library which looks methods up by
// names that only the running program knows. Tests may.
func TestNoPackageLooksMethodsUpByName(t *testing.T) {
	for _, p := range list(t) {
		for _, library := range []string{"text/template", "html/template"} {
			if slices.Contains(p.Imports, library) {
				t.Errorf("%s imports %s, which makes the program larger by a twelfth: use internal/gotemplate", strings.TrimPrefix(p.ImportPath, module), library)
			}
		}
	}
}
